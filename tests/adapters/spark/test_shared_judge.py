"""Spark's tasks ask one judge on a real server and never exceed its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlflow_ragmetrics.spark import score_spark
from tests.judges.misbehaving_server import Fault, Script, misbehaving_server

from .needs import needs_spark

pytest.importorskip("langchain_openai")
pytestmark = needs_spark
ROWS = 40
A_CALL = {"input": 10.0, "output": 50.0}
COST_OF_A_CALL = (100 * 10 + 20 * 50) / 1e6


@pytest.fixture
def questions(spark: Any) -> Any:
    """Different rows in one partition, so that tasks do not depend on how rows are distributed."""
    answers = "concat('Answer ', id) AS answer", "concat('Reference ', id) AS reference", "concat('Q', id) AS question"
    return spark.range(0, ROWS, 1, 1).selectExpr("CAST(id AS string) AS id", *answers)


def judged(frame: Any, server: Script, **options: Any) -> list[Any]:
    return scored_by(frame, server, **options).collect()


def scored_by(frame: Any, server: Script, **options: Any) -> Any:
    given = {"judge": "openai:/local", "base_url": server.url, "api_key": "sk-test-0123456789abcdef"}
    return score_spark(frame, ["correctness"], **given, **options)


def statuses(rows: list[Any]) -> list[str]:
    return [row["correctness_status"] for row in rows]


@pytest.mark.parametrize("workers", [1, 2])
def test_calls_in_flight_are_limited_per_task(questions: Any, workers: int) -> None:
    with misbehaving_server(delay=0.3) as server:
        rows = judged(questions, server, concurrency=2, workers=workers)
    assert statuses(rows) == ["ok"] * ROWS
    assert len(server.requests) == ROWS
    assert workers <= server.most_in_flight <= 2 * workers


def test_calls_are_limited_over_all_rows(questions: Any) -> None:
    with misbehaving_server() as server:
        rows = judged(questions, server, max_calls=11, concurrency=2)
    assert sorted(statuses(rows)) == ["error"] * (ROWS - 11) + ["ok"] * 11
    assert len(server.requests) == 11
    assert sum("max_calls=11 is reached" in row["correctness_reason"] for row in rows) == ROWS - 11


def test_what_it_costs_stays_below_the_limit_of_the_whole(questions: Any) -> None:
    limit = 0.06  # dollars; a call reserves its highest cost, ten times the actual one, until its reply arrives
    with misbehaving_server() as server:
        rows = judged(questions, server, concurrency=2, max_cost=limit, max_tokens=100, prices=A_CALL)
    assert 4 <= statuses(rows).count("ok") == len(server.requests) < ROWS
    assert len(server.requests) * COST_OF_A_CALL <= limit
    assert {row["correctness_warnings"][0] for row in rows if row["correctness_warnings"]} == {"judge_budget"}


def test_requests_a_minute_are_limited(questions: Any) -> None:
    with misbehaving_server() as server:
        judged(questions.limit(12), server, requests_per_minute=10, concurrency=4)
    assert len(server.times) == 12
    for first in server.times:
        # a worker's first request takes longer than the others
        assert sum(first <= each < first + 55 for each in server.times) <= 10


def test_a_call_that_fails_is_a_row_with_an_error(questions: Any) -> None:
    with misbehaving_server(*[Fault(status=400)] * 3) as server:
        rows = judged(questions, server, concurrency=2, attempts=1, structured=False)
    reasons = [row["correctness_reason"] for row in rows if row["correctness_status"] == "error"]
    assert len(rows) == ROWS
    assert len(reasons) == 3
    assert all("openai:/local: HTTP 400" in reason for reason in reasons), reasons


def test_answers_are_kept_on_disk_for_all_processes(questions: Any, tmp_path: Path) -> None:
    with misbehaving_server() as server:
        for _ in range(2):
            rows = judged(questions, server, cache=str(tmp_path / "answers.db"))
    assert statuses(rows) == ["ok"] * ROWS
    assert len(server.requests) == ROWS
