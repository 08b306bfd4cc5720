"""Several processes evaluate the same data at once with one cache: all are correct, and all use the cache."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import mlflow_ragmetrics as rm
from tests.faults.budget import LONG
from tests.judges.fake_models import dutiful

PROCESSES = 8 if LONG else 2
ROUNDS = 10 if LONG else 1
ROWS = [
    {"question": f"Who built {n}?", "answer": f"Tower {n} was built. It is {n} m high.", "contexts": [f"Tower {n}."]}
    for n in range(60)
]
METRICS = ["faithfulness", "answer_relevance"]
_PROGRAM = """
import json, sys, time, warnings
warnings.simplefilter("error")
import mlflow_ragmetrics as rm
from tests.faults.test_shared_cache import METRICS, ROWS
from tests.judges.fake_models import dutiful
suite = rm.Suite(METRICS, judge=dutiful(latency=0.005), cache=sys.argv[1])
sys.stdin.read()
report = suite.evaluate(ROWS)
print(json.dumps([report.usage.get("calls", 0), report.usage["cached"], repr(values(report))]))
"""


def values(report: rm.Report) -> list[tuple[object, ...]]:
    return [(score.value, score.reason, score.items) for row in report.rows for score in row.scores.values()]


@pytest.mark.timeout(1800)
def test_processes_share_a_cache(tmp_path: Path) -> None:
    calm = rm.Suite(METRICS, judge=dutiful()).evaluate(ROWS)
    calls, program = calm.usage["calls"], _PROGRAM.replace("METRICS, ROWS", "METRICS, ROWS, values")
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")])
    for number in range(ROUNDS):
        cache = tmp_path / f"{number}.db"
        started = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(cache)],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(PROCESSES)
        ]
        for each in started:
            assert each.stdin is not None
            each.stdin.close()
            each.stdin = None
        said = [each.communicate(timeout=300) for each in started]
        assert [error for _, error in said] == [""] * PROCESSES
        found = [json.loads(output) for output, _ in said]
        assert {answers for *_, answers in found} == {repr(values(calm))}
        assert all(asked + cached == calls for asked, cached, _ in found)
        total = sum(asked for asked, *_ in found)
        assert calls <= total <= PROCESSES * calls
        with sqlite3.connect(cache) as store:
            assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert store.execute("SELECT count(*) FROM answers").fetchone() == (calls,)
        judge = dutiful()
        again = rm.Suite(METRICS, judge=judge, cache=cache).evaluate(ROWS)
        assert (len(judge.sent), values(again)) == (0, values(calm))
        print(f"\n{PROCESSES} processes asked {total:.0f} times, {calls:.0f} answers are stored")
