"""The cost of the engine in addition to its judge: ``python tests/benchmarks/engine_overhead.py [rows] [limit]``.

200 rows, 7 judged metrics, a judge whose calls take 100 ms, 16 in flight: wall time relative to the ideal, and CPU per
row in addition to the judge, that is, to the same calls in a bare thread pool.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Finding, Question, Rating, Related, RelatedChunks, Verify
from mlflow_ragmetrics.judges.chat.tasks import group_calls
from mlflow_ragmetrics.rows.record import to_sample

FULL_SET = ["faithfulness", "chunk_precision", "fact_recall", "fact_recall(target='reference')"]
FULL_SET += ["factual_correctness", "correctness", "answer_relevance"]


class SleepingJudge:
    """Answers each call after ``latency`` seconds and counts calls and calls in flight."""

    name = "sleeping"

    def __init__(self, latency: float, grouping: str) -> None:
        self.latency = latency
        self.grouping = grouping
        self.count = self.in_flight = self.most_in_flight = 0
        self.lock = threading.Lock()

    def calls(self, pending: Sequence[Question], in_flight: Sequence[Question]) -> list[tuple[Question, ...]]:
        return group_calls(self.grouping, pending, in_flight)  # type: ignore[arg-type]

    def answer(self, questions: Sequence[Question]) -> list[Any]:
        with self.lock:
            self.count += 1
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        time.sleep(self.latency)
        answers = [_answer(question) for question in questions]
        with self.lock:
            self.in_flight -= 1
        return answers


def _answer(question: Question) -> Any:
    if isinstance(question, Claims):
        return tuple(f"{sentence}." for sentence in question.text.split(".") if sentence.strip())
    if isinstance(question, Verify):
        return tuple(Finding("SUPPORTED") for _ in question.claims)
    return (Related(1),) if isinstance(question, RelatedChunks) else Rating(4)


def rows_of(count: int) -> list[dict[str, Any]]:
    return [
        {
            "question": f"What is thing {i}?",
            "answer": f"Thing {i} is red. It is big. It is old. It is number {i}.",
            "reference": f"Thing {i} is red. It is old. It is no {i}.",
            "contexts": [f"Passage {n} of thing {i}, " + "with many words " * 25 for n in range(5)],
        }
        for i in range(count)
    ]


def cpu_of_bare_calls(count: int, limit: int, latency: float) -> float:
    """The CPU seconds of the same number of calls that only sleep."""
    began = time.process_time()
    with ThreadPoolExecutor(limit) as pool:
        list(pool.map(lambda _: time.sleep(latency), range(count)))
    return time.process_time() - began


def measure(count: int, limit: int, latency: float, grouping: str) -> str:
    judge = SleepingJudge(latency, grouping)
    suite = rm.Suite(FULL_SET, judge=judge, concurrency=limit)
    rows = list(suite.score_samples([to_sample(row) for row in rows_of(1)]))
    judge = SleepingJudge(latency, grouping)
    suite = rm.Suite(FULL_SET, judge=judge, concurrency=limit)
    samples = [to_sample({**row, "id": str(i)}) for i, row in enumerate(rows_of(count))]
    wall, cpu = time.perf_counter(), time.process_time()
    rows = list(suite.score_samples(samples))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert all(score.status == "ok" for row in rows for score in row.scores.values())
    ideal = math.ceil(judge.count / limit) * latency
    bare = cpu_of_bare_calls(judge.count, limit, latency)
    ratio = f"{wall / ideal:.3f} of ideal {ideal:.1f} s" if ideal else "no latency"
    own = 1000 * (cpu - bare) / count
    return (
        f"{grouping:8} {latency * 1000:4.0f} ms: {judge.count} calls, {wall:.2f} s ({ratio}), "
        f"{own:.2f} ms CPU a row beside {1000 * bare / count:.2f} of bare ones, {judge.most_in_flight} in flight"
    )


if __name__ == "__main__":
    row_count, most = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((1, 200), (2, 16)))
    for mode in ("full", "compact"):
        for seconds in (0.1, 0.0):
            print(measure(row_count, most, seconds, mode))
