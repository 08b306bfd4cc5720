"""The figures of a stream are those of a report on the same rows, though no row is kept."""

from __future__ import annotations

import random
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.statistics import intervals
from tests.judges.fake_models import FakeChatModel

SESSION = "mlflow.trace.session"


def rows_of(count: int, per_chat: int = 3) -> list[dict[str, Any]]:
    generator = random.Random(count)
    words = ["red", "tall", "old", "Paris", "seven", "river"]
    return [
        {
            "id": f"r{n}",
            "chat": f"c{n // per_chat}",
            "question": "What is it?",
            "answer": f"It is {generator.choice(words)} and {generator.choice(words)}.",
            "reference": f"It is {generator.choice(words)}.",
            "contexts": [f"It is {generator.choice(words)}."] if n % 4 else ([] if n % 8 else None),
            "retrieved_doc_ids": ["a", f"d{n % 5}"],
            "gold_doc_ids": ["d1"] if n % 3 else [],
        }
        for n in range(count)
    ]


def streamed(suite: rm.Suite, rows: list[dict[str, Any]], **options: Any) -> Any:
    stream = suite.stream(iter(rows), **options)
    assert [row.sample.id for row in stream] == [row["id"] for row in rows]
    return stream.summary


@pytest.mark.parametrize("groups", [None, "chat"])
@pytest.mark.parametrize("preset", ["white_paper", "lexical", "retrieval"])
def test_figures_marks_and_gates_are_those_of_a_report(preset: str, groups: str | None) -> None:
    rows, suite = rows_of(60), rm.Suite.preset(preset, thresholds="balanced")
    report, summary = suite.evaluate(rows, progress=False, groups=groups), streamed(suite, rows, groups=groups)
    expected = {name: value for name, value in report.metrics.items() if "session" not in name}  # a report's alone
    assert summary.metrics == pytest.approx(expected, abs=1e-9)
    assert summary.banner == report.banner
    assert (summary.rows, summary.incomplete) == (60, report.incomplete)
    limits = dict.fromkeys(report.keys, 0.0)
    outcomes = []
    for each in (report, summary):
        try:
            each.check(**limits)
            outcomes.append("")
        except rm.GateError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_conversations_of_traces_are_groups_by_themselves() -> None:
    rows = [{**row, SESSION: row.pop("chat")} for row in rows_of(24)]
    report, summary = rm.Suite(["rouge"]).evaluate(rows), streamed(rm.Suite(["rouge"]), rows)
    assert summary.metrics["rouge1_f1/n_groups"] == 8
    assert summary.metrics == pytest.approx(dict(report.metrics), abs=1e-9)


def test_more_rows_than_are_resampled_have_the_interval_of_their_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, suite = rows_of(300), rm.Suite(["rouge"])
    monkeypatch.setattr("mlflow_ragmetrics.report.totals.MANY_ROWS", 100)
    monkeypatch.setattr(intervals, "MANY_ROWS", 100)
    monkeypatch.setattr("mlflow_ragmetrics.report.stream.MANY_ROWS", 100)
    report, summary = suite.evaluate(rows, progress=False), streamed(suite, rows)
    assert "rouge1_f1/ci_low" in summary.metrics
    assert summary.metrics == pytest.approx(dict(report.metrics), abs=1e-9)


def test_figures_can_be_asked_for_on_the_way() -> None:
    rows, suite = rows_of(20), rm.Suite(["rouge"])
    stream = suite.stream(iter(rows))
    assert stream.summary.metrics == {"rouge1_f1/n_scored": 0, "rouge1_f1/n_skipped": 0, "rouge1_f1/n_error": 0}
    for _ in range(5):
        next(stream)
    assert stream.summary.metrics == pytest.approx(dict(suite.evaluate(rows[:5]).metrics))
    stream.close()
    assert list(stream) == []


def test_a_group_that_no_row_has_is_an_error() -> None:
    stream = rm.Suite(["rouge"]).stream(rows_of(3), groups="talk")
    list(stream)
    with pytest.raises(rm.InvalidOptionError, match="no row so far has 'talk'"):
        _ = stream.summary


def test_a_dead_judge_is_said_and_passes_no_gate() -> None:
    dead = FakeChatModel(reply=lambda said: RuntimeError("gone"))
    suite = rm.Suite(["answer_relevance"], judge=rm.ChatJudge(dead, name="chat", attempts=1))
    summary = streamed(suite, rows_of(30))
    assert summary.incomplete is not None
    assert summary.incomplete.startswith("no judge answered")
    assert summary.banner[0].startswith("Not complete: no judge answered")
    assert summary.banner[1] == "30 of 30 rows failed (answer_relevance): the cause above"
    with pytest.raises(rm.GateError, match="not complete"):
        summary.check(answer_relevance=0.0)
