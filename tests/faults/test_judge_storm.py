"""A judge's server that misbehaves at random: no row is lost, and no score is wrong without a warning."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.faults.budget import LONG
from tests.judges.fake_models import dutiful
from tests.judges.misbehaving_server import Fault, Script, served
from tests.judges.rows import FULL_SET, ROW
from tests.judges.server_faults import FAULTS

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


SHARE = 0.25
"""The share of requests with a fault, from those of the table after which the request may be sent again."""
PASSING = sorted(
    name for name, (_, requests) in FAULTS.items() if requests == 2 and not name.startswith(("4", "200 w"))
)
PASSING += ["429", "429 with Retry-After", "408"]


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
            name = moment.choice(PASSING) if moment.random() < SHARE else "(none)"
            self.injected[name] += 1
        return FAULTS[name][0] if name in FAULTS else Fault(delay=0.05)


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
    assert set(PASSING) <= set(storm.injected) or not LONG


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
