"""Peak memory of scoring Parquet into Parquet, row by row, as the rows grow.

``python tests/benchmarks/memory_stream.py``.

Lexical scores, and six judged metrics with an instant judge; CPU milliseconds a row show whether time stays linear.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from contest import Contestant, Figure, compete, serve

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

    def run() -> None:
        assert sum(1 for _ in suite.stream(rows(size))) == size

    return run


def _streamed(suite: Any, size: int) -> Callable[[], Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mlflow_ragmetrics.streaming import write_parquet

    folder = Path(tempfile.mkdtemp())
    schema = pa.schema({name: pa.string() for name in ("id", "question", "answer", "reference")}).append(
        pa.field("contexts", pa.list_(pa.string()))
    )
    with pq.ParquetWriter(folder / "rows.parquet", schema) as writer:
        batch: list[dict[str, Any]] = []
        for row in rows(size):
            batch.append(row)
            if len(batch) == 1000:
                writer.write_table(pa.Table.from_pylist(batch, schema))
                batch = []
        writer.write_table(pa.Table.from_pylist(batch, schema))

    def run() -> None:
        assert write_parquet(suite.stream(folder / "rows.parquet"), folder / "scored.parquet", suite) == size

    return run


WORKS = {"judged": judged, "lexical": lexical, "alone": alone}
_CONTESTANTS = (
    ("engine alone, six judged metrics", "alone"),
    ("six judged, Parquet to Parquet", "judged"),
    ("six lexical, Parquet to Parquet", "lexical"),
)


def figures(short: bool) -> Sequence[Figure]:
    found = []
    for size in (200,) if short else (1000, 10_000, 100_000):
        wanted = [Contestant(*each) for each in _CONTESTANTS if size < 100_000 or each[1] == "alone"]
        results = compete(__file__, wanted, size, 1)
        each_row = ", ".join(f"{1000 * result.seconds / size:.2f}" for result in results)
        found.append(
            Figure(f"Streaming {size:,} rows ({each_row} ms CPU a row)", results, "engine < 1 ms a row, flat memory")
        )
    return found


if __name__ == "__main__":
    if "--work" in sys.argv:
        serve(WORKS)
    else:
        from run import show

        show(figures("--short" in sys.argv))
