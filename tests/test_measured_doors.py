"""The same at the other doors: however incomplete rows arrive, no run looks better without a mark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import mlflow
import pandas as pd
import pytest
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.rows import read_samples
from mlflow_ragmetrics.tracking.describe import run_metrics_of
from mlflow_ragmetrics.tracking.writer import mlflow_name
from tests.judges.fake_models import FakeChatModel
from tests.test_measured import COUNT, ROWS, STARVED_REPLIES, STARVED_ROWS, Reply, Rows, before, evaluated, truthful

COLUMNS = {name: name for name in ("question", "contexts", "retrieved_doc_ids", "gold_doc_ids")}
MARKS = ("n_error", "n_skipped", "n_no_context", "n_unmeasured", "n_measured", "n_unclaimed", "n_partial")
Found = tuple[Mapping[str, float], str | None]
"""The metrics of the run, or what stands for it, and its status, where a door says one."""


def last_run() -> Found:
    runs = mlflow.search_runs(output_format="list", search_all_experiments=True)
    if not runs:
        return {}, None
    run = runs[0]
    status = run.data.tags.get("ragmetrics.status")
    return run.data.metrics, status if run.info.status == "FINISHED" else status or "failed"


def frame_of(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame([{name: row.get(name) for name in ROWS[0]} for row in rows])


def extra_metrics(suite: rm.Suite, rows: Rows) -> Found:
    made = rm.extra_metrics(suite, COLUMNS)
    mlflow.models.evaluate(data=frame_of(rows), predictions="answer", targets="reference", extra_metrics=made)
    return last_run()


def plugin(suite: rm.Suite, rows: Rows) -> Found:
    mlflow.models.evaluate(
        data=frame_of(rows),
        predictions="answer",
        targets="reference",
        model_type="rag",
        evaluators="ragmetrics",
        evaluator_config={"suite": suite},
    )
    return last_run()


def genai_rows(rows: Rows) -> list[dict[str, Any]]:
    def part(row: dict[str, Any], **names: str) -> dict[str, Any]:
        return {name: row[field] for name, field in names.items() if field in row}

    return [
        {
            "inputs": {"n": number, **part(row, question="question", contexts="contexts")},
            "outputs": {"of": number, **part(row, answer="answer", retrieved_doc_ids="retrieved_doc_ids")},
            "expectations": part(row, expected_response="reference", gold_doc_ids="gold_doc_ids"),
        }
        for number, row in enumerate(rows)
    ]


def genai(suite: rm.Suite, rows: Rows) -> Found:
    mlflow.genai.evaluate(data=genai_rows(rows), scorers=[rm.scorer(suite)])
    return last_run()


def genai_each_logged(suite: rm.Suite, rows: Rows) -> Found:
    made = rm.scorers(suite)
    made[0].log(mlflow.genai.evaluate(data=genai_rows(rows), scorers=made))
    return last_run()


def callback(suite: rm.Suite, rows: Rows) -> Found:
    known = {row["id"]: row for row in rows}
    chain = RunnableLambda(lambda given: {k: v for k, v in known[given["id"]].items() if k in ("answer", "contexts")})
    with rm.RagMetricsCallback(
        suite,
        references=lambda question, name: known[name].get("reference"),
        gold_doc_ids=lambda question, name: known[name].get("gold_doc_ids"),
    ) as handler:
        for row in rows:
            given = {name: row[name] for name in ("id", "question") if name in row}
            chain.invoke(given, {"callbacks": [handler], "metadata": {"id": row["id"]}})
        assert handler.flush(60)
    return last_run()


def few_kept(suite: rm.Suite, rows: Rows) -> Found:
    report = suite.evaluate_samples(list(read_samples(rows)), keep=1)
    return run_metrics_of(report), report.incomplete


DOORS = [few_kept, callback, genai, genai_each_logged, plugin, extra_metrics]
OFTEN = {
    genai: {"every third context empty", "no claims"},
    callback: {"every third context empty", "every other reference", "dead", "no claims"},
}


def cases(starved: Mapping[str, Any], *often: Callable[..., Found]) -> list[Any]:
    return [
        pytest.param(door, name, id=f"{door.__name__}-{name}", marks=() if name in often_names else pytest.mark.slow)
        for door in DOORS
        for name in starved
        for often_names in [set(starved) if door in often else OFTEN.get(door, set())]
    ]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "2")
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    yield
    logging.getLogger("mlflow").setLevel(logging.NOTSET)


def suite_of(preset: str, reply: Reply = truthful) -> rm.Suite:
    judge = rm.ChatJudge(FakeChatModel(reply=reply), name="chat", attempts=1)
    return rm.Suite.preset(preset, judge=judge)


def is_marked(metrics: Mapping[str, float], key: str) -> bool:
    """Whether a mark on ``key`` shows that rows are missing or were not measured."""
    marks = [f"{mlflow_name(key)}/{mark}" for mark in MARKS] + ["calls/skipped", "calls/failed"]
    return metrics.get(f"{key}/coverage", 1) < 1 or any(name in metrics for name in marks)


def check_door(preset: str, found: Found) -> None:
    """No mean of this run is better than that of complete rows, or covers fewer rows, without a mark."""
    metrics, _ = found
    whole = before(preset).metrics
    for key in before(preset).keys:
        mean = metrics.get(f"{mlflow_name(key)}/mean")
        if mean is None:
            continue
        better = mean > whole[f"{key}/mean"] + 1e-9
        assert is_marked(metrics, key) or not better, f"{key}: {mean} looks better and has no mark"


def check_against(preset: str, found: Found, expected: rm.Report | None) -> None:
    """This door's result has the same marks as a report on the rows."""
    check_door(preset, found)
    metrics, status = found
    if expected is None:
        assert not any(name.endswith("/mean") for name in metrics)
        return
    for key in expected.keys:
        if f"{mlflow_name(key)}/mean" in metrics and expected.metrics[f"{key}/n_measured"] < COUNT:
            assert is_marked(metrics, key), f"{key}: rows that were not measured"
    if expected.incomplete is not None and metrics:
        said = any(f"{mlflow_name(key)}/n_error" in metrics for key in expected.keys)
        assert said or status not in (None, "complete"), "no judge answered, and nothing says so"


@pytest.mark.parametrize(("door", "starve"), cases(STARVED_ROWS, few_kept))
def test_starved_rows_have_marks_at_every_door(door: Callable[..., Found], starve: str) -> None:
    rows = STARVED_ROWS[starve](ROWS)
    try:
        found = door(suite_of("white_paper"), rows)
    except rm.RagMetricsError:
        found = {}, None  # an error is not a good figure
    check_against("white_paper", found, evaluated("white_paper", rows))


@pytest.mark.parametrize(("door", "starve"), cases(STARVED_REPLIES, few_kept))
def test_starved_judges_have_marks_at_every_door(door: Callable[..., Found], starve: str) -> None:
    try:
        found = door(suite_of("white_paper", STARVED_REPLIES[starve]), ROWS)
    except rm.RagMetricsError:
        found = last_run()
    if "every other time" in starve:  # these replies depend on the order of threads
        check_door("white_paper", found)
    else:
        check_against("white_paper", found, evaluated("white_paper", ROWS, STARVED_REPLIES[starve]))
