"""Figures over groups of rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import mlflow
import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli.evaluate import slices_file
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.evaluation import Scored
from mlflow_ragmetrics.report import Report

SUITE = rm.Suite(["coherence"])


def conversations(number: int, turns: int = 5, *, spread: float = 0.2, seed: int = 0) -> list[Row]:
    """Rows of conversations that are good or bad as a whole."""
    draw = np.random.default_rng(seed)
    rows = []
    for talk in range(number):
        own = draw.normal(0.6, spread)
        for turn in range(turns):
            value = float(np.clip(own + draw.normal(0, 0.05), 0, 1))
            metadata = {"conversation": f"c{talk}", "topic": "ab"[talk % 2]}
            rows.append(Row(Sample(id=f"{talk}-{turn}", question=f"{talk}?", metadata=metadata), {"m": Score(value)}))
    return rows


def grouped(rows: Sequence[Row]) -> Report:
    return Report(rows, description={"groups": "conversation"})


def test_few_groups_are_marked_also_where_no_score_differs() -> None:
    assert grouped(conversations(6)).metrics["m/few_groups"] == 1
    same = [Row(row.sample, {"m": Score(1.0)}) for row in conversations(3)]
    figures = grouped(same).metrics
    assert figures["m/few_groups"] == 1
    assert "m/design_effect" not in figures
    one = grouped(conversations(1)).metrics
    assert one["m/few_groups"] == 1
    assert "m/ci_low" not in one


def test_summarize_takes_a_name_for_each_score() -> None:
    figures = rm.summarize([0.1, 0.2, 0.8, 0.9, None], groups=["a", "a", "b", "b", "c"])
    assert (figures["n_groups"], figures["few_groups"]) == (2, 1)
    with pytest.raises(InvalidOptionError, match="groups has length 1, not 2"):
        rm.summarize([0.1, 0.2], groups=["a"])


def test_repeated_questions_only_warn_with_their_design_effect() -> None:
    data = [
        {"id": f"{n}-{k}", "question": f"question {n}", "answer": "Yes. No. Yes. No." if n % 2 else "Cats sleep a lot."}
        for n in range(20)
        for k in range(3)
    ]
    report = SUITE.evaluate(data, progress=False)
    (warning,) = report.warnings
    assert "60 of 60 rows share their question" in warning
    assert "coherence is 3.0 times" in warning or "coherence is 3.1 times" in warning
    assert "groups" not in report.description
    by_question = SUITE.evaluate(data, progress=False, groups="question")
    assert (by_question.description["groups"], by_question.warnings) == ("question", ())
    assert by_question.metrics["coherence/n_groups"] == 20


def test_groups_come_from_the_suite_its_file_or_the_call(tmp_path: Path) -> None:
    data = [{"id": str(n), "answer": "Cats sleep a lot.", "chat": n // 2} for n in range(8)]
    file = tmp_path / "suite.yaml"
    file.write_text("metrics: [coherence]\ngroups: chat\n", encoding="utf-8")
    for report in (
        SUITE.evaluate(data, groups="chat", progress=False),
        SUITE.replace(groups="chat").evaluate(data, progress=False),
        rm.Suite.from_yaml(file).evaluate(data, progress=False),
        SUITE.evaluate(data, groups="chat", columns={"question": "chat"}, progress=False),
    ):
        assert report.metrics["coherence/n_groups"] == 4
    assert report.description["groups"] == "question"  # the field that the column was read as


def test_groups_that_no_row_has_are_refused_before_scoring_and_warned_of_after() -> None:
    data = [{"id": "1", "answer": "Cats sleep."}]
    with pytest.raises(InvalidOptionError, match="no row has 'chat'"):
        SUITE.evaluate(data, groups="chat", progress=False)
    with pytest.raises(InvalidOptionError, match="must name a column"):
        SUITE.replace(groups=["a"])  # type: ignore[arg-type]
    scored = Scored()
    for row in SUITE.stream(data):
        scored.add(row)
    late = SUITE.report(scored, groups="chat")
    assert "groups" not in late.description
    assert "treat the rows as independent" in late.warnings[0]


def test_sessions_of_traces_are_used_by_themselves() -> None:
    data = [{"id": str(n), "answer": "Cats sleep.", "mlflow.trace.session": f"s{n // 4}"} for n in range(8)]
    report = SUITE.evaluate(data, progress=False)
    assert report.description["groups"] == "mlflow.trace.session"
    assert report.metrics["coherence/n_groups"] == 2


def test_slices_of_grouped_rows_count_groups() -> None:
    found = grouped(conversations(12)).by("topic")
    assert set(found["mark"]) == {"few groups"}
    alone = Report(conversations(12)).by("topic")
    assert set(alone["mark"]) == {""}
    assert (found["ci_high"] - found["ci_low"] > alone["ci_high"] - alone["ci_low"]).all()


def test_slices_are_in_the_run() -> None:
    rows = [{"id": str(n), "answer": "It is red.", "reference": "It is red." if n % 3 else "No.", "topic": "ab"[n % 2]}
            for n in range(24)]  # fmt: skip
    report = rm.Suite(["rouge"]).evaluate(rows, progress=False)
    run_id = report.log(traces=False, files=slices_file(report, ["topic"]))
    records = json.loads(mlflow.artifacts.load_text(f"runs:/{run_id}/rag_slices.json"))
    assert [(each["by"], each["slice"], each["rows"]) for each in records] == [("topic", "a", 12), ("topic", "b", 12)]
    assert records[0]["mean"] == pytest.approx(report.by("topic")["mean"][0])
    with pytest.raises(InvalidOptionError, match="no row has 'tipoc'"):
        slices_file(report, ["tipoc"])


def test_a_slice_says_how_many_of_its_rows_were_measured() -> None:
    rows = [
        {"answer": "It is red.", "contexts": ["It is red."] if n % 2 else [], "topic": "ab"[n % 2]} for n in range(24)
    ]
    marks = rm.Suite(["faithfulness"]).evaluate(rows, progress=False).by("topic")["mark"].tolist()
    assert marks == ["few rows, 0 measured", ""]
