"""Rows as they are scored, and the figures of those that have passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.documents import RetrievalCounts
from mlflow_ragmetrics.report.diagnosis import cause_figures, count_causes, diagnose
from mlflow_ragmetrics.report.marks import Failures
from mlflow_ragmetrics.report.tables import has_diagnoses
from mlflow_ragmetrics.report.totals import RunningTotals, Summary
from mlflow_ragmetrics.rows.groups import SESSION, sample_groups
from mlflow_ragmetrics.statistics.intervals import MANY_ROWS

__all__ = ["Stream"]


class Stream(Iterator[Row]):
    """Scored rows in order, each once; ``summary`` has the figures of those so far, of which none is kept.

    Memory is bounded but for two numbers per group and metric: which conversations have a failing turn is a report's
    alone. ``close`` ends it early.
    """

    def __init__(
        self,
        rows: Iterator[Row],
        *,
        keys: list[str],
        groups: str | None = None,
        language: str = "en",
        stopped: Callable[[], object] = lambda: None,
    ) -> None:
        self._rows = rows
        self._totals = {key: RunningTotals() for key in keys}
        self._groups = groups
        self._has_group = False
        self._may_have_groups = True
        self._language = language
        self._stopped = stopped
        self.failures = Failures()
        self._retrieval = RetrievalCounts()
        self._tells = has_diagnoses(keys)
        self._causes: Counter[str] = Counter()
        self._count = 0

    def __next__(self) -> Row:
        row = next(self._rows)
        group = self._group_of(row)
        for key, score in row.scores.items():
            self._totals[key].add(score, group)
        self.failures.add(row)
        self._retrieval.add(row.scores)
        if self._tells:
            found = diagnose(row.scores)
            self._causes["not measured" if found is None else found.cause] += 1
        self._count += 1
        return row

    def close(self) -> None:
        """Score nothing more."""
        close = getattr(self._rows, "close", None)
        if close is not None:
            close()

    @property
    def stopped(self) -> object:
        """Why no judge is asked any more (a refused key, a spent budget); ``None`` while one is."""
        return self._stopped()

    @property
    def summary(self) -> Summary:
        """The figures of the rows so far, their marks and gates.

        ``InvalidOptionError`` where ``groups`` was named and no row so far has it.
        """
        if self._groups is not None and self._count and not self._has_group:
            raise InvalidOptionError(f"groups: no row so far has {self._groups!r}", param="groups")
        figures: dict[str, float] = {}
        for key, totals in self._totals.items():
            figures |= totals.figures(key, grouped=self._has_group)
        figures |= self._retrieval.figures(figures)
        figures |= cause_figures(count_causes(self._causes.elements())) if self._causes else {}
        stopped = self.stopped
        return Summary(
            metrics=figures,
            keys=tuple(self._totals),
            rows=self._count,
            causes=tuple(self.failures.causes),
            incomplete=str(stopped) if stopped is not None else self.failures.silence,
            language=self._language,
        )

    def _group_of(self, row: Row) -> str | None:
        """The row's group: by the field that was named, else by its conversation; a row without is one of its own."""
        if self._groups is None and not self._has_group and self._count >= MANY_ROWS:
            self._may_have_groups = False  # so many rows without a conversation: memory for none
            for totals in self._totals.values():
                totals.forget_groups()
        if not self._may_have_groups:
            return None
        if self._groups is None and not row.sample.metadata:
            return f"\0row {self._count}"
        with suppress(InvalidOptionError):
            (group,) = sample_groups([row.sample], self._groups or SESSION)
            self._has_group = True
            return group
        return f"\0row {self._count}"
