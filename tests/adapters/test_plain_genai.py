"""A run of ``mlflow.genai.evaluate`` with only our scorers is read like any other run."""

from __future__ import annotations

from typing import Any

import mlflow
import pytest
from click.testing import CliRunner
from mlflow.entities import AssessmentSource

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.results.results import results_of
from tests.adapters.doors import ROWS, FailingJudge, genai_rows, quiet  # noqa: F401


def evaluated(*scorers: Any) -> str:
    return str(mlflow.genai.evaluate(data=genai_rows(), scorers=list(scorers)).run_id)


def cli(*words: str) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@rm.metric(higher_is_better=False)
def a_third(answer: str) -> rm.Score:
    """A number with many digits; lower is better."""
    return rm.Score(value=1 / 3, reason="**a third** of it")


def test_scorers_of_several_suites_are_described_together() -> None:
    run_id = evaluated(rm.get_scorer("faithfulness", threshold=0.9), rm.get_scorer("rouge"))
    description = results_of(run_id).description
    assert sorted(description["metrics"]) == ["faithfulness(threshold=0.9)", "rouge"]
    assert description["thresholds"] == {"faithfulness": 0.9}


def test_the_rows_are_those_of_a_report() -> None:
    data, rows = genai_rows(), [{**ROWS[0], "contexts": []}, *ROWS[1:]]  # the first is decided by a rule
    data[0]["inputs"]["contexts"] = []
    suite = rm.Suite([a_third, "faithfulness", "rouge", rm.composite("both", {"faithfulness": 1, "rouge1_f1": 1})])
    report = suite.evaluate(rows, progress=False)
    run_id = str(mlflow.genai.evaluate(data=data, scorers=[rm.scorer(suite)]).run_id)
    (feedback,) = {
        each.value
        for trace in mlflow.search_traces(run_id=run_id, return_type="list")
        for each in trace.info.assessments
        if each.name == "a_third"
    }
    assert feedback == 0.3333
    stored = {row.sample.question: row for row in results_of(run_id).rows}
    assert stored.keys() == {row.sample.question for row in report.rows}
    for row in report.rows:
        for key, score in row.scores.items():
            read = stored[row.sample.question].scores[key]
            names = ("value", "status", "measured", "reason", "items", "higher_is_better", "passed")
            assert {n: getattr(read, n) for n in names} == {n: getattr(score, n) for n in names}


def test_a_score_that_mlflow_lost_is_a_failed_row() -> None:
    run_id = evaluated(*rm.scorers(["faithfulness", "coherence"]))
    one, two, _ = mlflow.search_traces(run_id=run_id, return_type="list")
    lost = [(one, "faithfulness"), (two, "faithfulness"), (two, "coherence")]
    for trace, name in lost:
        (own,) = [each for each in trace.info.assessments if each.name == name]
        mlflow.delete_assessment(trace_id=trace.info.trace_id, assessment_id=own.assessment_id)
    mlflow.log_feedback(trace_id=one.info.trace_id, name="liked", value=1.0, source=AssessmentSource("HUMAN"))
    found = results_of(run_id)
    assert set(found.keys) == {"faithfulness", "coherence"}
    assert [len(found.table), *sorted(found.table["faithfulness_status"])] == [len(ROWS), "error", "error", "ok"]
    assert sorted(found.table["coherence_status"]) == ["error", "ok", "ok"]
    counts = {each.key: (each.rows, each.unscored_both) for each in rm.compare(run_id, run_id).differences}
    assert counts == {"faithfulness": (1, 2), "coherence": (2, 1)}


def test_show_compare_calibrate_and_evaluate_read_it() -> None:
    suite = rm.Suite.preset("white_paper")
    ours, theirs = suite.evaluate(ROWS, progress=False).log(), evaluated(*rm.scorers(suite))
    shown = cli("show", theirs)
    assert "rag_score" in shown
    assert "How tall is tower 1?" in shown
    comparison = rm.compare(ours, theirs)
    assert {each.key for each in comparison.differences} == {*suite.keys}
    assert all(each.rows == len(ROWS) and each.difference == 0 for each in comparison.differences)
    for trace, good in zip(mlflow.search_traces(run_id=theirs, return_type="list"), (True, False, True), strict=True):
        source = mlflow.entities.AssessmentSource("HUMAN", "ann")
        mlflow.log_feedback(trace_id=trace.info.trace_id, name="faithfulness_ok", value=good, source=source)
    assert "labels: 3 rows; 1 bad" in cli("calibrate", theirs, "--feedback", "--key", "faithfulness")
    again = cli("evaluate", f"runs:/{theirs}", "--no-log")
    assert "rag_score" in again


def test_runs_of_other_scorers_are_compared() -> None:
    @mlflow.genai.scorer
    def length(outputs: Any) -> int:
        return len(outputs["answer"])

    @mlflow.genai.scorer
    def first(outputs: Any) -> str:
        return "yes" if "Tower 1" in outputs["answer"] else "no"

    @mlflow.genai.scorer
    def broken(outputs: Any) -> float:
        return 0.5 / ("Tower 3" not in outputs["answer"])

    @mlflow.genai.scorer
    def tone(outputs: Any) -> str:
        return "dry"

    scorers = (length, first, broken, tone, rm.get_scorer("faithfulness"))
    one, two = evaluated(*scorers), evaluated(*scorers)
    table = results_of(one).table.set_index("question").sort_index()
    assert table["length"].tolist() == [len(each["answer"]) for each in ROWS]
    assert table["first"].tolist() == [1.0, 0.0, 0.0]
    assert table["broken_status"].tolist() == ["ok", "ok", "error"]
    compared = {each.key: each.rows for each in rm.compare(one, two).differences}
    assert compared == {"length": 3, "first": 3, "broken": 2, "faithfulness": 3}


def test_a_run_without_scores_of_ours_is_refused_with_the_way_out() -> None:
    with mlflow.start_run() as run:
        pass
    with pytest.raises(ValueError, match=r"neither rag_rows.json nor traces with scores"):
        rm.compare(run.info.run_id, run.info.run_id)


@pytest.mark.parametrize("key", ["correctness", pytest.param("context_sufficiency", marks=pytest.mark.slow)])
def test_a_criterion_finds_its_metric(key: str) -> None:
    made = rm.get_scorer(key, threshold=0.99)
    result = mlflow.genai.evaluate(data=genai_rows(), scorers=[made])
    made.log(result)
    traces = mlflow.search_traces(run_id=result.run_id, return_type="list")
    values = [each.value for trace in traces for each in trace.info.assessments if each.name == f"rag_{key}"]
    assert len(values) == len(ROWS)
    assert result.passed is all(value >= 0.99 for value in values)
