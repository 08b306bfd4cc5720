"""Every name in a run is documented: real runs in an MLflow store, compared with the committed list of names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import mlflow
import pandas as pd
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.calibration import rows_to_label

ROOT = Path(__file__).parents[2]
DATA = ROOT / "examples" / "data"
SECTIONS = json.loads((ROOT / "docs" / "data" / "run_names.json").read_text(encoding="utf-8"))["sections"]
NAMES = {section["title"]: list(section["names"]) for section in SECTIONS}
pytestmark = pytest.mark.slow


def unexplained(title: str, found: list[str]) -> list[str]:
    """Names that match no line of the section."""
    names = [name for name in NAMES[title] if name != "<key>"]  # a key alone is a figure only in live runs
    patterns = [re.sub(r"<\w+>", r"[^/]+", re.escape(name)) for name in names]
    return [name for name in found if not any(re.fullmatch(pattern, name) for pattern in patterns)]


def explained(run_id: str) -> None:
    run = mlflow.get_run(run_id)
    assert unexplained("Metrics", list(run.data.metrics)) == []
    assert unexplained("Params", list(run.data.params)) == []
    assert unexplained("Tags", [tag for tag in run.data.tags if not tag.startswith("mlflow.")]) == []
    assert unexplained("Artifacts", [each.path for each in mlflow.MlflowClient().list_artifacts(run_id)]) == []


def test_a_run_of_every_metric_compared_calibrated_and_corrected() -> None:
    suite = rm.Suite.preset("full", judge="lexical", thresholds={"faithfulness": 0.8})
    older = suite.evaluate(DATA / "ragtruth_llama-2-13b.jsonl", progress=False)
    few = rows_to_label(older, key="faithfulness", budget=30)
    truth = dict(zip(older.table["id"], older.table["human_supported"], strict=True))
    true_score = older.true_score("faithfulness", few.assign(label=few["id"].map(truth)))
    first = replace(older, figures=true_score.metrics).log()
    second = suite.evaluate(DATA / "ragtruth_gpt-4.jsonl", progress=False).log()
    rm.compare(first, second).log()
    rm.calibrate(older, "human_supported", key="faithfulness").log(first)
    diagnosed = rm.Suite.preset("diagnose").evaluate(DATA / "ragtruth_gpt-4.jsonl", progress=False)
    explained(diagnosed.log())
    rows = pd.read_json(DATA / "ragtruth_gpt-4.jsonl", lines=True).head(5)
    explained(rm.stress(["faithfulness"], rows, progress=False).log())
    explained(first)
    explained(second)


def test_runs_of_groups_panels_repeats_and_documents() -> None:
    strict = rm.ScriptedJudge(facts=[{"text": "It is high.", "ok": False}], name="strict")
    rows = [
        {"id": f"{n}", "talk": n // 2, "answer": "It is high.", "contexts": ["It is high."] if n else []}
        for n in range(8)
    ]
    explained(rm.Suite(["faithfulness"], judge=["lexical", strict], groups="talk").evaluate(rows, progress=False).log())
    explained(rm.Suite(["faithfulness"]).evaluate(rows, progress=False, repeat=2).log())
    joined = rm.join(DATA / "retrieval_results.tsv", DATA / "retrieval_reference.tsv")
    explained(rm.Suite.preset("retrieval").evaluate(joined.rows, progress=False).log())


def test_the_figures_of_a_report_are_explained_too() -> None:
    report = rm.Suite(["faithfulness", "rag_score"], weights={"faithfulness": 1}).evaluate(
        [{"id": "1", "answer": "It is high.", "contexts": []}, {"id": "2", "answer": "Yes.", "contexts": ["Yes."]}],
        progress=False,
    )
    assert unexplained("Metrics", list(report.metrics)) == []
