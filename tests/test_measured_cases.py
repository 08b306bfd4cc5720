"""Runs that measured little or nothing, in every output: terminal, exit code, JUnit, page, MLflow run, Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mlflow
import pytest
from click.testing import CliRunner, Result

from mlflow_ragmetrics.cli import main
from tests.display.pages import carried
from tests.judges.misbehaving_server import Fault, misbehaving_server

Rows = list[dict[str, Any]]


def rows_of(count: int) -> Rows:
    return [
        {
            "id": f"r{n}",
            "question": f"How high is tower {n}?",
            "answer": f"Tower {n} is {n} metres high.",
            "reference": f"Tower {n} is {n} metres high.",
            "contexts": [f"Tower {n} is {n} metres high."],
        }
        for n in range(count)
    ]


def evaluate(rows: Rows, *options: str) -> Result:
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    gates = ("--junit", "gates.xml", "--cache", "none")
    return CliRunner().invoke(main, ["evaluate", "rows.jsonl", *options, *gates])


def last_run() -> Any:
    (run,) = mlflow.search_runs(experiment_names=["ragmetrics"], output_format="list")
    return run


def figures_of(run: Any) -> dict[str, float]:
    return json.loads(mlflow.artifacts.load_text(f"{run.info.artifact_uri}/rag_figures.json"))


def refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-refused")
    monkeypatch.setenv("OPENAI_API_BASE", url)
    monkeypatch.setenv("OPENAI_BASE_URL", url)


def test_a_judge_that_refuses_every_call_passes_no_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(60)
    rows[7]["contexts"] = []
    with misbehaving_server(*[Fault(status=401)] * 400) as server:
        refused(monkeypatch, server.url)
        result = evaluate(rows, "-j", "openai:/gpt-4o-mini", "--fail-under", "faithfulness=0.8,rag_score=0.8")
    assert result.exit_code == 3, result.output
    assert ElementTree.parse("gates.xml").getroot()[0].get("failures") == "3"
    assert "0 of 60 rows were measured" in result.stderr
    assert "Not complete: " in result.stdout
    assert " ".join(result.output.split()).count("refused the key") == 1  # one cause, reported once
    run = last_run()
    assert run.info.status == "FAILED"
    assert run.data.tags["ragmetrics.status"].startswith("incomplete: ")
    assert (run.data.metrics["faithfulness/n_error"], run.data.metrics["faithfulness/n_measured"]) == (59, 0)
    assert figures_of(run)["faithfulness/n_scored"] == 1
    assert run.data.metrics["faithfulness/n_no_context"] == 1
    assert "rag_score/mean" not in run.data.metrics
    page = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/ragmetrics_report.html")
    assert "Not complete: " in page
    assert carried(page)["metrics"]["faithfulness/n_error"] == 59


def test_a_spent_budget_ends_with_3_and_keeps_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    with misbehaving_server() as server:
        refused(monkeypatch, server.url)
        options = ("-m", "answer_relevance", "-j", "openai:/gpt-4o-mini", "--max-calls", "5", "--suite", "suite.yaml")
        Path("suite.yaml").write_text("metrics: [answer_relevance]\nconcurrency: 1\n", encoding="utf-8")
        result = evaluate(rows_of(8), *options, "--fail-under", "answer_relevance=0.99")
    assert result.exit_code == 3, result.output
    run = last_run()
    figures = figures_of(run)
    assert figures["answer_relevance/n_scored"] == figures["answer_relevance/n_measured"] == 5
    assert (run.info.status, run.data.tags["ragmetrics.status"][:12]) == ("FAILED", "incomplete: ")
