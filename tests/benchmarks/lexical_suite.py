"""The lexical suite on answers of 150 words: rows per second on one core, scored, and with the tables.

``python tests/benchmarks/lexical_suite.py [--profile]``. ``--profile`` shows where the time goes.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import Callable, Sequence
from typing import Any

from contest import Contestant, compete
from table import Figure, main
from texts import records

WORDS = 150


def scores(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    rows = records(size, WORDS)
    suite = rm.Suite.preset("lexical")

    def run() -> None:
        assert sum(1 for _ in suite.stream(rows)) == size

    return run


def tables(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    rows = records(size, WORDS)
    suite = rm.Suite.preset("lexical")

    def run() -> None:
        report = suite.evaluate(rows, progress=False)
        assert len(report.metrics) > len(suite.keys)
        assert len(report.table) == size

    return run


def items(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    rows = records(size, WORDS)
    suite = rm.Suite.preset("lexical")

    def run() -> None:
        report = suite.evaluate(rows, progress=False)
        assert len(report.table) == size
        assert len(report.items) > size

    return run


WORKS = {"scores": scores, "tables": tables, "items": items}
_CONTESTANTS = (
    ("six scores a row", "scores"),
    ("with table and run metrics", "tables"),
    ("with table and items", "items"),
)


def figures(short: bool) -> Sequence[Figure]:
    size = 50 if short else 2000
    found = compete(__file__, [Contestant(*each) for each in _CONTESTANTS], size, 1 if short else 3)
    speeds = ", ".join(f"{size / result.seconds:,.0f}" for result in found)
    return [Figure(f"Lexical suite, {size} rows of {WORDS} words ({speeds} rows a CPU second)", found)]


def profile() -> None:
    profiler = cProfile.Profile()
    profiler.runcall(scores(1000))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    if "--profile" in sys.argv:
        profile()
    else:
        main(WORKS, figures)
