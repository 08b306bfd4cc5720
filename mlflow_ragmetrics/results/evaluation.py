"""``Evaluation``: the rows of one evaluation with their tables and figures, to which ``Report`` adds methods.

One that was read back (``results.results``) has its tables first, and makes rows and figures of them when asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from mlflow_ragmetrics.core.score import Better, Sample
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.results.figures import Totals, agreement_lines, panel_figures, slices_frame
from mlflow_ragmetrics.results.gates import MinScored, check_figures, raise_failures
from mlflow_ragmetrics.results.marks import (
    Diagnosis,
    cause_figures,
    causes_line,
    count_causes,
    count_lines,
    diagnoses_of,
    diagnosis_columns,
    failure_lines,
)
from mlflow_ragmetrics.results.tables import BETTER, items_frame, row_without_texts, rows_frame
from mlflow_ragmetrics.rows.data import groups_of, slices_of
from mlflow_ragmetrics.statistics.intervals import Matrix, crossed_interval
from mlflow_ragmetrics.text.messages import render, say

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Evaluation:
    """The scores of every row, with their explanations, figures and gates.

    ``description``: how they were made (suite, judges, weights, …). ``usage``: calls, tokens and seconds. ``warnings``:
    left-out metrics and doubts about the data. ``source``: the file of the rows. ``figures``: further figures, such as
    repeatability. ``stopped``: why the evaluation ended early, if it did. ``ranges``: the lowest and highest value of
    each key, if known. ``counted``: the totals of all scored rows, if ``rows`` are only the worst.
    """

    rows: Sequence[Row]
    description: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    usage: Mapping[str, float] = field(default_factory=dict)
    source: Union[str, Path, None] = None
    figures: Mapping[str, float] = field(default_factory=dict)
    stopped: Union[str, None] = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict, compare=False)
    counted: Union[Totals, None] = field(default=None, compare=False, repr=False)

    @property
    def run_id(self) -> str | None:
        """The MLflow run that the report was logged to; ``None`` before ``log()``."""
        run_id: str | None = self.__dict__.get("_run_id")
        return run_id

    @property
    def name(self) -> str:
        """The name of the run or of the evaluated file, else "report"."""
        return str(self.__dict__.get("_name") or ("report" if self.source is None else Path(self.source).stem))

    def named(self, name: str) -> Evaluation:
        """The same evaluation with another name."""
        other = copy(self)
        vars(other).update(_name=name, table=self.table, items=self.items)  # made once, for several comparisons
        return other

    @cached_property
    def totals(self) -> Totals:
        """The counts behind the figures, of all scored rows."""
        known = self.counted
        return Totals(self.rows) if known is None or (known.kept_all and known.rows != len(self.rows)) else known

    def better(self, key: str) -> Better:
        """``True`` if a higher value of ``key`` is better, ``False`` if lower is better, ``None`` if neither."""
        column = self.table.get(f"{key}_better", ())
        return next((side for side, word in BETTER.items() if word in set(column)), True)

    def __len__(self) -> int:
        return self.totals.rows

    @cached_property
    def keys(self) -> list[str]:
        """The keys of the scores, in the suite's order."""
        return self.totals.keys

    @cached_property
    def incomplete(self) -> str | None:
        """Why the evaluation is incomplete: it was stopped, or no judge answered. ``None`` if it is complete."""
        return self.stopped or self.totals.failures.silence

    @property
    def partial(self) -> str | None:
        """The number of failed rows in words, if more than 5 % failed; else ``None``."""
        return self.totals.partial

    @property
    def banner(self) -> list[str]:
        """Lines to read with the figures: why they are incomplete, failures, rows that were not measured."""
        failed = failure_lines(self.totals.failures.causes, len(self), self.incomplete, self._language)
        counts = count_lines(self.keys, self.metrics, len(self), self._language)
        equal = [render(say("marks.equal", keys=", ".join(keys)), self._language) for keys in self.totals.equal]
        return [*failed, *counts, *equal, *agreement_lines(self.keys, self.metrics)]

    def check(
        self,
        *,
        min_scored: MinScored | None = None,
        fail_over: Mapping[str, float] | None = None,
        **fail_under: float,
    ) -> None:
        """Raise ``GateError`` (an ``AssertionError``) if a mean is below its limit: ``report.check(faithfulness=0.8)``.

        ``fail_over``: maximum means of metrics where lower is better, such as ``{"hallucination_rate": 0.1}``.
        ``min_scored``: the share of all rows that must be measured (default 0.95), not skipped, failed or scored by the
        rule for rows without context; a mapping sets it by key, with ``""`` for the others. For figures other than the
        mean, use the full name: ``report.check(**{"faithfulness/pass_rate": 0.9})``.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        checks = check_figures(
            self.metrics,
            fail_under,
            min_scored,
            fail_over=fail_over,
            better=self.totals.ranking.better,
            rows=len(self),
            incomplete=self.incomplete,
            ranges=self.ranges,
        )
        raise_failures(checks)

    def __getitem__(self, key: str) -> dict[str, float]:
        """The figures of one metric, such as ``report["faithfulness"]["mean"]``; else ``InvalidOptionError``."""
        if key not in self.keys:
            raise InvalidOptionError(f"{key!r} is not a metric here; use one of {', '.join(self.keys)}", param="key")
        start = f"{key}/"
        return {name.removeprefix(start): value for name, value in self.metrics.items() if name.startswith(start)}

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per sample: id, question, answer, scores (composites first), reasons, then all other columns.

        ``diagnosis`` and ``diagnosis_reason`` name the part that failed, if the suite has the metrics for it.
        """
        return rows_frame(self.rows, diagnosis_columns(self.diagnoses))

    @cached_property
    def items(self) -> pd.DataFrame:
        """One row per claim, token, sentence, chunk or document: verdict, reason, support and evidence."""
        return items_frame(self.rows)

    @cached_property
    def diagnoses(self) -> list[Diagnosis]:
        """The part that failed in each row; empty if the suite lacks the metrics for it."""
        return diagnoses_of([row.scores for row in self.rows], self._language)

    @cached_property
    def _causes(self) -> dict[str, int]:
        return count_causes(diagnosis.cause for diagnosis in self.diagnoses) if self.diagnoses else {}

    @cached_property
    def metrics(self) -> dict[str, float]:
        """All figures of the evaluation: ``<key>/mean``, ``/ci_low``, ``/n_scored``, …, and retrieval figures."""
        scores = [row.scores for row in self.rows]
        figures = self.totals.figures(self._group_names(), self.ranges) | panel_figures(scores)
        return {**figures, **cause_figures(self._causes), **self.figures}

    @property
    def _samples(self) -> list[Sample]:
        return [row.sample for row in self.rows]

    def _group_names(self) -> list[str] | None:
        groups = self.description.get("groups")
        return None if groups is None else groups_of(self._samples, groups)

    def by(self, column: str) -> pd.DataFrame:
        """The figures of each slice, such as ``report.by("topic")``: one row per value of ``column`` and metric.

        ``column``: a field or metadata field; rows without a value are ignored. The columns are ``slice``, ``metric``,
        ``rows`` (scored), ``mean``, ``ci_low``, ``ci_high``, ``p_holm`` and ``mark``. ``p_holm`` tests the slice
        against all other rows (Welch's test, over groups if the report has them), adjusted by Holm over slices and
        metrics. ``mark``: ``few rows`` or ``few groups`` with fewer than ten (effective) ones, and the number of
        measured rows, if fewer than all. Raises ``InvalidOptionError`` if no row has the column.
        """
        names = slices_of(self._samples, column)
        return slices_frame(self.rows, self.totals, names, self._group_names(), self.ranges)

    @property
    def _language(self) -> str:
        return str(self.description.get("language", "en"))

    @property
    def notes(self) -> list[str]:
        """Lines below the figures: the column of each field, counts of diagnoses."""
        causes = [render(causes_line(self._causes), self._language)] if any(self._causes.values()) else []
        return [*([self.description["read"]] if "read" in self.description else []), *causes]

    @property
    def _judges(self) -> str:
        """The names of the judges; empty if unknown."""
        return ", ".join(map(str, self.description.get("judge") or ()))

    @property
    def _judged_by(self) -> list[str]:
        """The judge and how far to trust it; empty if no judge answered."""
        if not self.totals.failures.answered:
            return []
        named = say("marks.model", names=self._judges or render(say("marks.unnamed"), self._language))
        return [render(say("marks.lexical") if self._judges == "lexical" else named, self._language)]

    def worst_rows(self, count: int = 3, key: str | None = None) -> list[Row]:
        """The ``count`` worst rows: by ``key``, else by unsupported claims, the composite or the worst score.

        The worst value is the lowest, or the highest if lower is better. Metrics without a better direction are
        ignored, except as ``key``.
        """
        ranking = self.totals.ranking if key is None else replace(self.totals.ranking, key=key)
        return [self.rows[place] for place in ranking.worst(self.rows, count)]

    def _without_texts(self) -> Evaluation:
        """The report with figures, scores, verdicts and ids, but without questions, answers, passages and reasons."""
        rows = [row_without_texts(row) for row in self.rows]
        kept = replace(self, rows=rows, warnings=(), stopped=None, counted=None)
        if self.warnings:
            kept = replace(kept, warnings=(f"warnings left out because they may quote texts: {len(self.warnings)}",))
        incomplete = self.incomplete and "see the output of the program that wrote this run"
        diagnoses = [replace(diagnosis, reason="") for diagnosis in self.diagnoses]
        vars(kept).update(metrics=self.metrics, incomplete=incomplete, diagnoses=diagnoses)
        return kept


def repeatability(runs: Sequence[Evaluation]) -> dict[str, float]:
    """Compare two or more evaluations of the same rows by the same suite, made without the judge's cache.

    ``<key>/repeat_sd``: the standard deviation of a row's score between runs, as root mean square over the rows that
    all runs scored. ``<key>/flip_rate``: the share of these rows that pass in some runs only, if there is a threshold.
    ``<key>/repeat_mean``, ``/repeat_ci_low``, ``/repeat_ci_high``: the mean over all runs and its interval; each row
    counts once, by its own mean. ``<key>/repeat_n_measured``: the number of rows that all runs measured.
    ``repeat/n_repeats``: number of runs.
    """
    figures: dict[str, float] = {"repeat/n_repeats": len(runs)}
    names = runs[0]._group_names()
    groups = None if names is None else np.array(names)
    for key in runs[0].keys:
        scores = [[row.scores[key] for row in run.rows] for run in runs]
        values, complete = _of_complete_rows([[score.value for score in run] for run in scores])
        if values.size:
            figures[f"{key}/repeat_sd"] = float(np.sqrt(values.var(axis=0, ddof=1).mean()))
            figures[f"{key}/repeat_mean"] = float(np.sort(values.mean(axis=0)).mean())
            interval = crossed_interval(values.T, groups=None if groups is None else groups[complete])
            ends = ("repeat_ci_low", "repeat_ci_high")
            figures |= {f"{key}/{end}": limit for end, limit in zip(ends, interval or (), strict=False)}
        passes, _ = _of_complete_rows([[None if s.threshold is None else s.passed for s in run] for run in scores])
        if passes.size:
            figures[f"{key}/flip_rate"] = float((passes != passes[0]).any(axis=0).mean())
        measured = [all(score.measured for score in row) for row in zip(*scores, strict=True)]
        figures[f"{key}/repeat_n_measured"] = float(sum(measured))
    return figures


def _of_complete_rows(values: Sequence[Sequence[Union[float, None]]]) -> tuple[Matrix, Any]:
    """A runs × rows matrix of the rows with a value in every run, and a mask of these rows."""
    matrix = np.array(values, dtype=float)
    complete = ~np.isnan(matrix).any(axis=0)
    return matrix[:, complete], complete
