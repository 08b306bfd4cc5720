"""``report.log`` of 200 rows with six scores: tables, page, metrics and params into an SQLite store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from contest import Contestant, compete, enter_new_folder
from table import Figure, main
from texts import records

WORDS = 60


def without_traces(size: int) -> Callable[[], Any]:
    return _logged(size, traces=False)


def with_traces(size: int) -> Callable[[], Any]:
    return _logged(size)


def _logged(size: int, **options: bool) -> Callable[[], Any]:
    import mlflow

    import mlflow_ragmetrics as rm

    logging.disable(logging.WARNING)
    enter_new_folder()
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment("speed")
    suite = rm.Suite.preset("lexical")
    suite.evaluate(records(2, WORDS), progress=False).log(**options)
    rows = records(size, WORDS)
    reports = [suite.evaluate(rows, progress=False) for _ in range(9)]  # each before its tables are created

    def run() -> str:
        began = time.perf_counter()
        reports.pop().log(**options)
        return f"{time.perf_counter() - began:.2f} s of wall time"

    return run


WORKS = {"without_traces": without_traces, "with_traces": with_traces}
_CONTESTANTS = (
    ("report.log(traces=False)", "without_traces"),
    ("with a trace a row", "with_traces"),
)


def figures(short: bool) -> Sequence[Figure]:
    size = 20 if short else 200
    found = compete(__file__, [Contestant(*each) for each in _CONTESTANTS], size, 1 if short else 5)
    return [Figure(f"A report of {size} rows and six scores into MLflow", found, "< 0.5 s")]


if __name__ == "__main__":
    main(WORKS, figures)
