"""The judge with a real, misbehaving HTTP server, through ``langchain-openai``."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Verify
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.judges.misbehaving_server import Fault, Script, misbehaving_server
from tests.judges.rows import FULL_SET, ROW

CLAIMS = Claims("One. Two.")
ANSWER = [("One.", "Two.")]
BUSY = Fault(status=429, headers={"Retry-After": "0.3"})


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    return


def judge_at(server: Script, **options: Any) -> ChatJudge:
    retry = {"initial": 0.01, "longest": 0.02}
    return ChatJudge("openai:/local", base_url=server.url, retry=retry, **options)


@pytest.mark.parametrize(
    ("fault", "retries", "repairs"),
    [
        (BUSY, 1, 0),
        (Fault(status=500), 1, 0),
        (Fault(status=503, body=b"<html>busy</html>"), 1, 0),
        (Fault(reset=True), 1, 0),
        (Fault(content='{"texts": [{"id": "t1", "claims": ["One.'), 0, 1),
        (Fault(content="One. Two."), 0, 1),
        (Fault(content='{"texts": [{"id": "t9", "claims": ["One."]}]}'), 0, 1),
        (Fault(content='{"texts": [{"id": "t1", "claims": ["One.', finish_reason="length"), 0, 0),
    ],
)
def test_one_misstep_costs_one_more_request_and_no_answer(fault: Fault, retries: int, repairs: int) -> None:
    with misbehaving_server(fault) as server:
        judge = judge_at(server)
        assert judge.answer([CLAIMS]) == ANSWER
    counts = judge.usage.snapshot()
    assert (counts["calls"], counts["retries"], counts["repairs"]) == (2, retries, repairs)
    assert len(server.requests) == 2


def test_retry_after_is_obeyed_by_all_threads_of_the_judge() -> None:
    with misbehaving_server(BUSY) as server:
        judge = judge_at(server)
        first = threading.Thread(target=judge.answer, args=([CLAIMS],))
        first.start()
        while not judge.usage.snapshot()["retries"]:
            time.sleep(0.005)
        judge.answer([Claims("Three.")])
        first.join()
    assert len(server.times) == 3
    assert min(server.times[1:]) - server.times[0] >= 0.3


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_ends_the_judge_at_once_and_is_not_shown(status: int) -> None:
    with misbehaving_server(*[Fault(status=status)] * 99) as server:
        judge = judge_at(server)
        rows = [{**ROW, "id": str(i), "answer": f"Answer {i}."} for i in range(5)]
        with pytest.raises(JudgeError, match=f"HTTP {status}") as raised:
            rm.Suite(["correctness"], judge=judge, concurrency=1).evaluate(rows)
    assert len(server.requests) == 1
    errors = {row.scores["correctness"].error for row in raised.value.report.rows}
    (said,) = errors
    assert said is not None
    assert f"HTTP {status}" in said
    assert "0123456789abcdef" not in said


def test_a_slow_server_is_left_after_the_timeout_and_asked_again() -> None:
    with misbehaving_server(Fault(delay=1.5)) as server:
        judge = judge_at(server, timeout=0.4)
        began = time.monotonic()
        assert judge.answer([CLAIMS]) == ANSWER
        assert time.monotonic() - began < 1.4
        (failure,) = judge_at(server, timeout=0.4, attempts=1).answer([CLAIMS])
        server.faults = [Fault(delay=1.0)]
        (failure,) = judge_at(server, timeout=0.3, attempts=1).answer([CLAIMS])
    assert isinstance(failure, JudgeError)


def test_a_model_without_structured_output_is_asked_without_from_then_on() -> None:
    with misbehaving_server(rejects_schemas=True) as server:
        judge = judge_at(server)
        assert judge.answer([CLAIMS]) == ANSWER
        assert judge.answer([Claims("Three.")]) == [("Three.",)]
    assert ["response_format" in request for request in server.requests] == [True, False, False]


def test_structured_output_is_asked_for_with_a_strict_schema_and_usage_is_read() -> None:
    with misbehaving_server() as server:
        judge = judge_at(server)
        judge.answer([Verify(("One.",), ("Passage.",))])
    (request,) = server.requests
    wanted = request["response_format"]
    assert wanted["type"] == "json_schema"
    assert wanted["json_schema"]["strict"] is True
    assert list(wanted["json_schema"]["schema"]["properties"]) == ["verdicts"]
    assert request["temperature"] == 0.0
    counts = judge.usage.snapshot()
    assert (counts["prompt_tokens"], counts["completion_tokens"], counts["cached_tokens"]) == (100, 20, 64)
    assert counts["estimated_calls"] == 0


def test_replies_of_two_forms_with_the_same_names_have_a_schema_each() -> None:
    with misbehaving_server() as server:
        judge = judge_at(server, calls="single")
        judge.answer([CLAIMS])
        judge.answer([Claims("One. Two.", passages=("Passage.",))])
    alone, judged = (request["response_format"]["json_schema"]["schema"] for request in server.requests)
    assert list(alone["properties"]) == list(judged["properties"]) == ["texts"]
    assert "verdict" not in json.dumps(alone)
    assert "verdict" in json.dumps(judged)


@pytest.mark.parametrize("fault", [Fault(refusal="I will not."), Fault(content=None, finish_reason="content_filter")])
def test_a_refusal_is_named(fault: Fault) -> None:
    with misbehaving_server(fault) as server:
        (failure,) = judge_at(server).answer([CLAIMS])
    assert isinstance(failure, JudgeError)
    assert failure.code == "refused"


def test_no_row_is_lost_in_a_storm_and_the_limit_holds() -> None:
    kinds = [
        BUSY,
        Fault(status=500),
        Fault(reset=True),
        Fault(content='{"texts": ['),
        Fault(content="no json"),
        Fault(content='{"verdicts": [{"id": "c77", "verdict": "SUPPORTED"}]}'),
        Fault(delay=0.05),
    ]
    rows = [{**ROW, "id": str(i), "answer": f"{ROW['answer']} Visit {i}."} for i in range(6)]
    calm = [Fault(delay=0.02)] * 8  # so that a repair turn does not meet the next fault
    with misbehaving_server(*[fault for kind in kinds for fault in (kind, *calm)], delay=0.02) as server:
        judge = judge_at(server)
        report = rm.Suite(FULL_SET, judge=judge, concurrency=4).evaluate(rows)
    assert {score.status for row in report.rows for score in row.scores.values()} == {"ok"}
    assert 1 < server.most_in_flight <= 4
    assert judge.usage.snapshot()["calls"] == len(server.requests)
