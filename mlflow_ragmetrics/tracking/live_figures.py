"""Running figures of a live run."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.text.non_answers import gives_no_answer
from mlflow_ragmetrics.tracking.describe import DIAGNOSIS, cause_figure, mlflow_name
from mlflow_ragmetrics.tracking.outbox import Lines

if TYPE_CHECKING:
    from mlflow.entities import Metric

_WINDOW = 50
_COVERAGE = "/coverage="


class MarkCounts(Counter[str]):
    """The number of rows so far with each mark, such as ``<key>/n_error``."""

    def add(self, scores: Mapping[str, Score], cause: str | None = None, is_non_answer: bool = False) -> None:
        """Count a row's score marks, the part of the chain that failed (``cause``), and non-answers."""
        self.update([] if cause is None else [cause_figure(cause)])
        self["n_non_answers"] += is_non_answer
        for key, score in scores.items():
            self.update(f"{key}/{mark}" for mark in score.marks)
            if score.measurement is not None and "coverage" in score.details:
                self[f"{key}{_COVERAGE}{score.details['coverage']:.9f}"] += 1

    @property
    def figures(self) -> dict[str, float]:
        """The nonzero counts. For a composite, also the mean ``coverage`` if it is below 1, and ``n_partial``, the
        number of rows below the highest coverage.
        """
        coverages: dict[str, dict[float, int]] = {}
        for name, count in self.items():
            key, separator, coverage = name.partition(_COVERAGE)
            if separator:
                coverages.setdefault(key, {})[float(coverage)] = count
        found: dict[str, float] = {name: count for name, count in self.items() if _COVERAGE not in name}
        for key, counts in coverages.items():
            mean = sum(share * count for share, count in counts.items()) / sum(counts.values())
            found[f"{key}/n_partial"] = sum(counts.values()) - counts[max(counts)]
            found |= {f"{key}/coverage": mean} if mean < 1 else {}
        return {name: float(count) for name, count in found.items() if count}


class LiveFigures:
    """The figures of a run so far."""

    def __init__(self, state: Mapping[str, Any] | None) -> None:
        state = state or {}
        self.step: int = state.get("step", 0)
        self._sums: dict[str, list[float]] = state.get("sums", {})
        self._windows = {key: deque(values, _WINDOW) for key, values in state.get("windows", {}).items()}
        self._marks = MarkCounts(state.get("marks", {}))

    @property
    def state(self) -> dict[str, Any]:
        """All figures, as JSON-compatible values."""
        windows = {key: list(values) for key, values in self._windows.items()}
        return {"step": self.step, "sums": self._sums, "windows": windows, "marks": self._marks}

    @property
    def means(self) -> dict[str, float]:
        """``<key>/mean`` so far."""
        return {mlflow_name(f"{key}/mean"): total / count for key, (total, count) in self._sums.items()}

    def _add(self, key: str, value: float) -> None:
        total, count = self._sums.get(key, (0.0, 0))
        self._sums[key] = [total + value, count + 1]
        self._windows.setdefault(key, deque(maxlen=_WINDOW)).append(value)

    def add_table(self, table: Lines) -> None:
        """Add rows that another process wrote to the run's table."""
        self.step += len(table.rows)
        for row in table.rows:
            own = dict(zip(table.columns, row, strict=True))
            self._marks["n_non_answers"] += gives_no_answer(own.get("answer"))
            for column, value in own.items():
                if isinstance(value, float) and own.get(f"{column}_measured") is not False:
                    self._add(column, value)
                elif column == DIAGNOSIS and value:
                    self._marks[cause_figure(value)] += 1
                elif column.endswith("_status") and value in ("error", "skipped"):
                    self._marks[f"{column.removesuffix('_status')}/n_{value}"] += 1

    def add(
        self, scores: Mapping[str, Score], time_ms: int, cause: str | None = None, is_non_answer: bool = False
    ) -> list[Metric]:
        """Add an answer; returns its metrics: ``<key>``, ``<key>/mean`` so far and ``<key>/rolling_mean`` (last 50).

        The other metrics are counts so far: ``<key>/n_error``, ``/n_skipped``, ``/n_no_context`` etc. for marks
        (``Score.marks``), ``n_non_answers`` for non-answers, and ``diagnosis/n_<cause>`` for failed parts of the chain.
        """
        from mlflow.entities import Metric

        found: dict[str, float] = {}
        self._marks.add(scores, cause, is_non_answer)
        for key, score in scores.items():
            if score.measurement is not None:
                self._add(key, score.measurement)
                total, count = self._sums[key]
                mean = fmean(self._windows[key])
                found |= {key: score.measurement, f"{key}/mean": total / count, f"{key}/rolling_mean": mean}
        found |= self._marks.figures
        self.step += 1
        return [Metric(mlflow_name(name), value, time_ms, self.step - 1) for name, value in found.items()]
