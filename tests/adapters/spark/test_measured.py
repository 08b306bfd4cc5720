"""On Spark, rows with missing data get the same marks, gates and status as in a report."""

from __future__ import annotations

from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import GateError, MissingFieldError
from mlflow_ragmetrics.spark import log_spark, score_spark, summarize_spark
from mlflow_ragmetrics.tracking.log import run_metrics_of
from tests.test_measured import ROWS, STARVED_ROWS

from .needs import needs_spark

pytestmark = needs_spark
SCHEMA = (
    "id string, question string, answer string, reference string, contexts array<string>, "
    "retrieved_doc_ids array<string>, gold_doc_ids array<string>"
)


@pytest.mark.parametrize("starve", STARVED_ROWS)
def test_starved_rows_have_the_figures_and_marks_of_a_report(spark: Any, starve: str) -> None:
    rows = [{name: row.get(name) for name in ROWS[0]} for row in STARVED_ROWS[starve](ROWS)]
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    summary = summarize_spark(score_spark(frame, "white_paper"))
    try:
        report = rm.Suite.preset("white_paper").evaluate(rows, progress=False)
    except MissingFieldError:
        assert not any(name.endswith("/mean") for name in summary.metrics)
        return
    # a frame keeps the columns of metrics whose field no row has, all skipped
    expected = dict(report.metrics)
    left_out = {key for key in summary.keys if key not in report.keys}
    assert all(summary.metrics[f"{key}/n_skipped"] == len(rows) for key in left_out)
    assert all(f"{key}/mean" not in summary.metrics for key in left_out)
    found = {name: value for name, value in summary.metrics.items() if name.partition("/")[0] not in left_out}
    if not left_out:
        assert found == pytest.approx(expected, abs=1e-9)
    logged = run_metrics_of(summary)
    for key in report.keys:
        for mark in ("n_error", "n_no_context", "n_measured", "n_scored"):
            assert logged.get(f"{key}/{mark}") == run_metrics_of(report).get(f"{key}/{mark}"), (key, mark)
        with_gates = [_gate(each, key) for each in (report, summary)]
        assert with_gates[0] == with_gates[1]


def _gate(checked: Any, key: str) -> str:
    try:
        checked.check(**{key: 0.0})
    except GateError as error:
        return str(error)
    return ""


def test_a_judge_that_never_answered_is_said_in_the_run(spark: Any) -> None:
    pytest.importorskip("langchain_openai")
    frame = spark.createDataFrame([{name: row[name] for name in ROWS[0]} for row in ROWS], SCHEMA).coalesce(1)
    options: dict[str, Any] = {"judge": "openai:/local", "base_url": "http://127.0.0.1:9/v1", "api_key": "sk-none"}
    options |= {"attempts": 1, "timeout": 5.0}
    scored = score_spark(frame, ["answer_relevance"], workers=1, **options).cache()
    summary = summarize_spark(scored)
    assert summary.incomplete.startswith("no judge answered; ")
    assert summary.banner[0].startswith("Not complete: no judge answered")
    assert summary.metrics["answer_relevance/n_error"] == 6
    with pytest.raises(GateError, match="not complete"):
        summary.check(answer_relevance=0.0)
    run = mlflow.get_run(log_spark(scored, ["answer_relevance"], **options))
    assert run.info.status == "FAILED"
    assert run.data.tags["ragmetrics.status"].startswith("incomplete: no judge answered")
    assert run.data.metrics["answer_relevance/n_error"] == 6
    scored.unpersist()
