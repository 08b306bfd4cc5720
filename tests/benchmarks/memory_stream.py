"""Memory and time of scoring Parquet into Parquet, row by row, as the rows grow.

``python tests/benchmarks/memory_stream.py [rows]``. Lexical scores, and six judged metrics with an instant judge: the
memory in use after a number of rows, and the CPU milliseconds per row since the previous line; both should stay flat.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from contest import Contestant, compete, enter_new_folder
from table import Figure, main

_MARKS = (1000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
JUDGED = ["faithfulness", "chunk_precision", "fact_recall(target='reference')"]
JUDGED += ["correctness", "answer_relevance", "factual_correctness"]


class InstantJudge:
    """Answers at once, in this process."""

    name = "instant"
    local = True

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        return [_answer(question) for question in questions]


def _answer(question: Any) -> Any:
    from mlflow_ragmetrics.core.question import Finding, Rating, Related

    if question.kind == "claims":
        return tuple(f"{sentence}." for sentence in question.text.split(".") if sentence.strip())
    if question.kind == "verify":
        return tuple(Finding("SUPPORTED", "said so", 1.0, ((1, "quote"),)) for _ in question.claims)
    return (Related(1),) if question.kind == "related_chunks" else Rating(4)


def rows(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "id": str(number),
            "question": f"What is thing {number}?",
            "answer": f"Thing {number} is red. It is big. It is old. It is number {number}.",
            "reference": f"Thing {number} is red. It is old. It is no {number}.",
            "contexts": [f"Passage {place} of thing {number}, with some words." for place in range(5)],
        }


def judged(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    return _streamed(rm.Suite(JUDGED, judge=InstantJudge()), size)


def lexical(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    return _streamed(rm.Suite.preset("lexical"), size)


def alone(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    suite = rm.Suite(JUDGED, judge=InstantJudge())

    def run() -> str:
        curve = Curve(suite.stream(rows(size)))
        assert sum(1 for _ in curve) == size
        return str(curve)

    return run


class Curve:
    """Passes rows through and records the memory and time of the process."""

    def __init__(self, scored: Iterable[Any]) -> None:
        self._scored = scored
        self._notes: list[str] = []

    def __iter__(self) -> Iterator[Any]:
        began, before = time.process_time(), 0
        for number, row in enumerate(self._scored, 1):
            yield row
            if number in _MARKS:
                now = time.process_time()
                each = 1000 * (now - began) / (number - before)
                self._notes.append(f"{number:,}: {_resident():.0f} MB, {each:.2f} ms")
                began, before = now, number

    def __str__(self) -> str:
        return "; ".join(self._notes)


def _resident() -> float:
    """The current memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _streamed(suite: Any, size: int) -> Callable[[], Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mlflow_ragmetrics.cli.table_file import TableFile

    enter_new_folder()
    schema = pa.schema({name: pa.string() for name in ("id", "question", "answer", "reference")}).append(
        pa.field("contexts", pa.list_(pa.string()))
    )
    with pq.ParquetWriter("rows.parquet", schema) as writer:
        batch: list[dict[str, Any]] = []
        for row in rows(size):
            batch.append(row)
            if len(batch) == 1000:
                writer.write_table(pa.Table.from_pylist(batch, schema))
                batch = []
        writer.write_table(pa.Table.from_pylist(batch, schema))

    def run() -> str:
        curve = Curve(suite.stream(Path("rows.parquet")))
        file = TableFile(Path("scored.parquet"))
        for row in curve:
            file.add(row)
        file.close()
        assert pq.read_metadata("scored.parquet").num_rows == size
        return str(curve)

    return run


WORKS = {"judged": judged, "lexical": lexical, "alone": alone}
_CONTESTANTS = (
    ("engine alone, six judged metrics", "alone"),
    ("six judged, Parquet to Parquet", "judged"),
    ("six lexical, Parquet to Parquet", "lexical"),
)


def figures(short: bool) -> Sequence[Figure]:
    size = 200 if short else next((int(each) for each in sys.argv[1:] if each.isdigit()), 100_000)
    results = [result for each in _CONTESTANTS for result in compete(__file__, [Contestant(*each)], size, 1)]
    return [Figure(f"Streaming {size:,} rows", results, "engine < 1 ms a row, flat memory")]


if __name__ == "__main__":
    main(WORKS, figures)
