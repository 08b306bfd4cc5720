"""The driver of evaluations: scores rows, counts their cost, shows progress and makes the report, also if stopped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Union

from mlflow_ragmetrics.engine.memory import reserved_memory
from mlflow_ragmetrics.engine.program import Expenses, Row, charged_to
from mlflow_ragmetrics.engine.threads import CancelledEvaluationError
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.figures import Totals, repeated_questions
from mlflow_ragmetrics.results.tables import MANY_ROWS

_ROWS_AT_ONCE = 1000
_REDRAWN_EVERY = 0.3  # seconds
Stop = Union[KeyboardInterrupt, CancelledEvaluationError, MemoryError, JudgeError]
"""What ends an evaluation early; as an exception, it has the ``report`` of the scored rows."""


class Scored:
    """The scored rows that a report keeps, all or the ``most`` worst; the totals, seconds and expenses of all rows."""

    def __init__(
        self, most: int | None = None, watch: Callable[[Row], object] | None = None, expenses: Expenses | None = None
    ) -> None:
        self.rows: list[Row] = []
        self.totals = Totals()
        self.seconds = 0.0
        self.expenses = expenses or Expenses()
        self._most = most
        self._watch = watch
        self._questions: list[str | None] = []

    def add(self, row: Row) -> None:
        """Add a row, and pass it to ``watch``."""
        self.totals.add(row)
        self.rows.append(row)
        if self._watch is not None:
            self._watch(row)
        if self._most is None:
            return
        if len(self._questions) < MANY_ROWS:
            self._questions.append(row.sample.question)
        if len(self.rows) > self._most + _ROWS_AT_ONCE:
            worst = sorted(self.totals.ranking.worst(self.rows, self._most))
            self.rows = [self.rows[place] for place in worst] or self.rows[:1]
            self.totals.kept_all = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning if the first rows ask the same questions and not all rows are kept."""
        count = len(self._questions)
        repeats = repeated_questions(self._questions, self.totals.keys, self.totals.matrix[:count]) if count else None
        return () if repeats is None else (f"of the first {count} rows: {repeats}",)


@contextmanager
def _progress(wanted: Union[bool, None], total: int) -> Iterator[Callable[[], None]]:
    """Show how many of ``total`` rows are scored, in a line that is redrawn in place and cleared at the end.

    Yields the function that counts a row. ``wanted``: ``True`` always shows the line, ``False`` never; ``None`` shows
    it on terminals and in notebooks.
    """
    show, done = _line(wanted), 0
    shown_at = began = time.monotonic()

    def count() -> None:
        nonlocal done, shown_at
        done += 1
        if (now := time.monotonic()) - shown_at > _REDRAWN_EVERY:
            shown_at, left = now, (now - began) / done * (total - done)
            show(f"rows scored: {done} of {total}, about {left:.0f} s left")

    show(f"rows scored: 0 of {total}")
    try:
        yield count
    finally:
        show("")


def _line(wanted: Union[bool, None]) -> Callable[[str], object]:
    if wanted is not False:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_jupyter:
            handle = import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)
            return lambda text: handle.update({"text/plain": text}, raw=True)
        if wanted or console.is_terminal:
            return _rewrite
    return lambda text: None


def _rewrite(text: str) -> None:
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()


def drive(
    start: Callable[[], Iterable[Row]],
    total: int,
    make_report: Callable[[Scored], Report],
    *,
    scored: Scored | None = None,
    progress: bool | None = False,
    ahead: Callable[[], Iterable[Row]] = tuple,
    stopped: Callable[[], JudgeError | None] = lambda: None,
) -> tuple[Report, Stop | None]:
    """Score ``total`` rows with the iterator that ``start`` makes; returns the report, and what ended it early.

    ``scored`` collects the rows, from which ``make_report`` makes the report. An interruption before the first row is
    raised. ``progress``: show a bar (``None``: on a terminal). ``ahead``: rows that are scored, but not yet returned,
    at an interruption. ``stopped``: the error after which no judge was asked, if there is one.
    """
    began, scored = time.perf_counter(), scored or Scored()
    stop: Stop | None = None
    with charged_to(scored.expenses), _progress(progress, total) as count:
        try:
            with reserved_memory():
                for row in start():
                    scored.add(row)
                    count()
        except (KeyboardInterrupt, CancelledEvaluationError, MemoryError) as error:
            for row in ahead():
                scored.add(row)
            if not scored.totals.rows:
                raise
            stop = error
    scored.seconds = time.perf_counter() - began
    report = make_report(scored)
    if stop is not None:
        why = "memory ran out" if isinstance(stop, MemoryError) else "interrupted"
        report = replace(report, stopped=f"{why} when {len(report)} of {total} rows were scored")
    elif (stop := stopped()) is not None:
        report = replace(report, stopped=str(stop))
    return report, stop


def report_or_stop(report: Report, stop: Stop | None) -> Report:
    """Return the report, or raise ``stop`` with it."""
    if stop is None:
        return report
    stop.report = report  # type: ignore[union-attr]
    # a traceback through threads and clients is of no use
    raise stop.with_traceback(None) from None
