"""A judge's server that misbehaves at random: no row is lost, and no score is wrong without a warning."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.faults.budget import LONG
from tests.judges.fake_models import dutiful
from tests.judges.misbehaving_server import Fault, Script, served
from tests.judges.rows import FULL_SET, ROW

ROWS = 2000 if LONG else 60
IN_FLIGHT = 16
TIMEOUT = 5.0 if LONG else 1.5
_NAMED = (
    "HTTP 429",
    "HTTP 5",
    "refused to answer",
    "cut short",
    "no usable reply",
    "no reply within",
    "Error after",
    "no chat completion",
    "TimeoutError",
)


def _faults(moment: random.Random) -> dict[str, tuple[float, Fault]]:
    """All kinds of misbehaviour, with their shares of all requests."""
    half = '{"texts": [{"id": "t1", "claims": ["The tower'
    return {
        "429, Retry-After": (0.03, Fault(status=429, headers={"Retry-After": f"{moment.uniform(0, 0.1):.3f}"})),
        "429, date": (0.002, Fault(status=429, headers={"Retry-After": formatdate(time.time() + 1, usegmt=True)})),
        "429": (0.03, Fault(status=429)),
        "500": (0.03, Fault(status=500)),
        "503, HTML": (0.03, Fault(status=503, body=b"<html>busy</html>")),
        "reset": (0.03, Fault(reset=True)),
        "broken off": (0.02, Fault(breaks_off=True)),
        "truncated JSON": (0.03, Fault(content=half)),
        "malformed JSON": (0.03, Fault(content='Sure! {"texts": [} and "verdicts": SUPPORTED')),
        "no choices": (0.01, Fault(body=b'{"id": "x", "object": "chat.completion", "choices": []}')),
        "truncated body": (0.02, Fault(body=b'{"id": "x", "object": "chat.comp')),
        "200, HTML": (0.01, Fault(body=b"<html>gateway</html>", headers={"Content-Type": "text/html"})),
        "empty": (0.01, Fault(content="")),
        "wrong ids": (0.03, Fault(content=json.dumps(_WRONG_IDS))),
        "slow": (0.005, Fault(delay=3 * TIMEOUT)),
        "length": (0.02, Fault(content=half, finish_reason="length")),
        "refusal": (0.005, Fault(refusal="I will not.")),
        "filtered": (0.002, Fault(content="", finish_reason="content_filter")),
    }


_WRONG_IDS = {
    "texts": [{"id": "t77", "claims": ["One."]}],
    "verdicts": [{"id": "c77", "verdict": "SUPPORTED", "quotes": [], "reason": ""}],
    "related": [{"passage": "p77", "quote": "", "reason": ""}],
    "grades": [{"id": "beauty", "reason": "", "grade": 5}],
}


@dataclass
class Storm(Script):
    """The fault of a request depends on its text and number of attempts, not on the order of threads."""

    injected: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def next_fault(self, request: dict[str, Any]) -> Fault:
        text = json.dumps(request["messages"])
        with self.lock:
            self.seen[text] += 1
            moment = random.Random(f"{self.seen[text]} {text}")
            point = moment.random()
            for name, (share, fault) in _faults(moment).items():
                point -= share
                if point < 0:
                    self.injected[name] += 1
                    return fault
            self.injected["(none)"] += 1
        return Fault(delay=0.05)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    return


def rows() -> list[dict[str, Any]]:
    texts = ("answer", "reference")
    return [{**ROW, "id": str(i), **{name: f"{ROW[name]} Visit {i}." for name in texts}} for i in range(ROWS)]


def in_a_storm(calls: str) -> None:
    with served(Storm()) as storm:
        assert isinstance(storm, Storm)
        judge = ChatJudge(
            "openai:/local", base_url=storm.url, timeout=TIMEOUT, retry={"initial": 0.02, "longest": 0.1}, calls=calls
        )
        began = time.monotonic()
        report = rm.Suite(FULL_SET, judge=judge, concurrency=IN_FLIGHT).evaluate(rows())
        seconds = time.monotonic() - began
    calm = rm.Suite(FULL_SET, judge=dutiful(), concurrency=IN_FLIGHT, calls=calls).evaluate(rows())
    outcomes: Counter[str] = Counter()
    for row, expected in zip(report.rows, calm.rows, strict=True):
        assert row.sample.id == expected.sample.id
        for metric, score in row.scores.items():
            right = expected.scores[metric]
            if score.status == "error":
                (name,) = [each for each in _NAMED if each in str(score.error)] or [f"not named: {score.error}"]
                outcomes[name] += 1
                assert score.value is None
            else:
                assert (score.value, score.items) == (right.value, right.items)
                outcomes["right"] += 1
    print(f"\n{ROWS} rows in {seconds:.0f} s, {storm.most_in_flight} in flight at most", dict(storm.injected))
    print(dict(outcomes), judge.usage.snapshot())
    assert len(report.rows) == ROWS
    assert not [name for name in outcomes if name.startswith("not named")]
    assert outcomes["right"] > 0.9 * outcomes.total()
    assert 1 < storm.most_in_flight <= IN_FLIGHT
    assert judge.usage.snapshot()["calls"] >= storm.seen.total()
    assert set(_faults(random.Random())) <= set(storm.injected) or not LONG


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("calls", ["full", "compact"])
def test_no_row_is_lost_and_no_score_is_wrong(calls: str) -> None:
    in_a_storm(calls)


@pytest.mark.parametrize("fault", [Fault(delay=30), Fault(drip=0.03)])
def test_a_reply_that_comes_too_late_holds_up_nothing(fault: Fault) -> None:
    with served(Script([fault] * 99)) as server:
        judge = ChatJudge("openai:/local", base_url=server.url, timeout=0.3, attempts=1)
        began = time.monotonic()
        report = rm.Suite(["correctness"], judge=judge, concurrency=IN_FLIGHT).evaluate(rows()[:16])
        assert time.monotonic() - began < 10
        said = [str(row.scores["correctness"].error) for row in report.rows]
        assert [each for each in said if not ("no reply within" in each or "TimeoutError" in each)] == []
        until = time.monotonic() + 30
        while server.in_flight and time.monotonic() < until:
            time.sleep(0.05)
        assert server.in_flight == 0
