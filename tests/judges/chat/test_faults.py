"""Every server fault, once and permanently: only right answers, no more requests than allowed, and a quick end."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Verify
from mlflow_ragmetrics.errors import BudgetExceededError, JudgeError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.judges.misbehaving_server import Fault, misbehaving_server
from tests.judges.rows import ROW
from tests.judges.server_faults import FAULTS

CLAIMS = Claims("One. Two.")
ANSWER = [("One.", "Two.")]
MOST = 4


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")


def judge_at(url: str, **options: Any) -> ChatJudge:
    retry = {"initial": 0.01, "longest": 0.02, "attempts": 3}
    return ChatJudge("openai:/local", base_url=url, retry=retry, **options)


def patience(fault: Fault) -> float:
    """Timeout in seconds: short only for delayed replies, because a busy machine delays replies too."""
    return 0.5 if fault.delay else 20.0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_comes_once_costs_what_it_must(fault: str) -> None:
    what, calls = FAULTS[fault]
    with misbehaving_server(what) as server:
        judge = judge_at(server.url, timeout=patience(what))
        (outcome,) = judge.answer([CLAIMS])
    counts = judge.usage.snapshot()
    assert len(server.requests) == counts["calls"] == calls
    assert counts["retries"] + counts["repairs"] <= calls - 1
    assert counts["retries"] == calls - 1 or what.status not in (429, 500, 503)
    assert [outcome] == ANSWER if calls > 1 else isinstance(outcome, JudgeError)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_stays_gives_no_answer_and_exceeds_no_limit(fault: str) -> None:
    what, _ = FAULTS[fault]
    with misbehaving_server(*[what] * 20) as server:
        judge = judge_at(server.url, max_calls=MOST, timeout=patience(what))
        for _ in range(3):
            (outcome,) = judge.answer([CLAIMS])
            assert isinstance(outcome, JudgeError)
    assert len(server.requests) == judge.usage.snapshot()["calls"] <= MOST


def ended(judge: ChatJudge, count: int) -> tuple[JudgeError, float]:
    rows = [{**ROW, "id": str(i), "answer": f"{ROW['answer']} Visit {i}."} for i in range(count)]
    began = time.monotonic()
    with pytest.raises(JudgeError) as raised:
        rm.Suite.preset("white_paper", judge=judge, concurrency=8).evaluate(rows)
    assert len(raised.value.report.rows) == count
    return raised.value, time.monotonic() - began


@pytest.mark.slow
def test_a_dead_server_ends_a_run_of_200_rows_soon() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        error, seconds = ended(ChatJudge("openai:/local", base_url=url), 200)
    assert (error.fatal, error.code) == (True, "unreachable")
    assert seconds <= 20.0


@pytest.mark.parametrize("fault", ["quota in the code", "quota in the message", "404", "200 with a page"])
def test_what_no_row_can_change_ends_a_run_soon(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlflow_ragmetrics.judges.chat.client.random.uniform", lambda _, longest: longest)
    with misbehaving_server(*[FAULTS[fault][0]] * 1000) as server:
        error, seconds = ended(ChatJudge("openai:/local", base_url=server.url), 40)
    assert error.fatal
    assert seconds <= 20.0
    assert len(server.requests) <= 24


@pytest.mark.slow
def test_an_abandoned_request_keeps_its_slot() -> None:
    rows = [{**ROW, "id": str(i), "answer": f"Answer {i}."} for i in range(6)]
    with misbehaving_server(*[Fault(drip=0.004)] * 6) as server:
        judge = ChatJudge("openai:/local", base_url=server.url, timeout=0.6, attempts=2)
        rm.Suite(["correctness"], judge=judge, concurrency=2).evaluate(rows)
    assert server.most_open <= 2


def test_the_limit_on_cost_holds_where_replies_are_long() -> None:
    rows = [{**ROW, "id": str(i), "answer": f"Answer {i}."} for i in range(40)]
    with misbehaving_server(delay=0.02) as server:
        prices = {"input": 10.0, "output": 100.0}
        judge = ChatJudge("openai:/local", base_url=server.url, max_cost=0.05, max_tokens=100, prices=prices)
        with pytest.raises(JudgeError, match="max_cost"):
            rm.Suite(["correctness"], judge=judge, concurrency=8).evaluate(rows)
        assert "cost" in judge.usage.snapshot()
        assert 0.02 < judge.usage.snapshot()["cost"] <= 0.05
    assert len(server.requests) == judge.usage.snapshot()["calls"]


@pytest.mark.parametrize(("fault", "is_charged"), [(Fault(delay=2.0), True), (Fault(status=500), False)])
def test_a_request_whose_reply_is_lost_may_have_been_charged(fault: Fault, is_charged: bool) -> None:
    """The limit covers one reply of 100 tokens, and half of another."""
    prices = {"input": 0.0, "output": 1.0}
    options: dict[str, Any] = {"max_cost": 1.5e-4, "max_tokens": 100, "prices": prices}
    with misbehaving_server(fault) as server:
        judge = ChatJudge("openai:/local", base_url=server.url, timeout=0.5, attempts=1, **options)
        lost, answer = (judge.answer([CLAIMS])[0] for _ in range(2))
    assert isinstance(lost, JudgeError)
    assert isinstance(answer, BudgetExceededError) is is_charged


def test_what_a_model_cannot_do_is_learnt_once() -> None:
    rejections = [FAULTS[f"400 for the {what}"][0] for what in ("temperature", "system role", "schema")]
    with misbehaving_server(*rejections) as server:
        judge = judge_at(server.url)
        assert judge.answer([CLAIMS]) == ANSWER
        assert judge.answer([CLAIMS]) == ANSWER
    assert len(server.requests) == 5
    for request in server.requests[3:]:
        assert [message["role"] for message in request["messages"]] == ["user"]
        assert not {"temperature", "response_format"} & request.keys()


def test_lone_surrogates_are_replaced() -> None:
    with misbehaving_server() as server:
        assert judge_at(server.url).answer([Claims("One \ud800.")]) == [("One ?.",)]


@pytest.mark.slow
def test_a_server_that_comes_back_is_asked_again() -> None:
    with misbehaving_server(*[FAULTS["404"][0]] * 4) as server:
        judge = judge_at(server.url)
        outcomes = [judge.answer([CLAIMS])[0] for _ in range(5)]
        assert isinstance(outcomes[3], JudgeError)
        assert outcomes[3].fatal
        assert len(server.requests) == 4
        time.sleep(2.1)
        assert judge.answer([CLAIMS]) == ANSWER


def test_retry_after_is_obeyed_by_all_threads_of_the_judge() -> None:
    with misbehaving_server(Fault(status=429, headers={"Retry-After": "0.3"})) as server:
        judge = judge_at(server.url)
        first = threading.Thread(target=judge.answer, args=([CLAIMS],))
        first.start()
        while not judge.usage.snapshot()["retries"]:
            time.sleep(0.005)
        judge.answer([Claims("Three.")])
        first.join()
    assert len(server.times) == 3
    assert min(server.times[1:]) - server.times[0] >= 0.3


def test_structured_output_is_asked_for_with_a_strict_schema_and_usage_is_read() -> None:
    with misbehaving_server() as server:
        judge = judge_at(server.url)
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
        judge = judge_at(server.url, calls="single")
        judge.answer([CLAIMS])
        judge.answer([Claims("One. Two.", passages=("Passage.",))])
    alone, judged = (request["response_format"]["json_schema"]["schema"] for request in server.requests)
    assert list(alone["properties"]) == list(judged["properties"]) == ["texts"]
    assert "verdict" not in json.dumps(alone)
    assert "verdict" in json.dumps(judged)
