"""Estimates the human mean of a metric: the judge's mean corrected by a few labels, with an interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.display.document import number
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.labels import Labels, labels_of
from mlflow_ragmetrics.results.pairing import measured, metric_range, numbers_of
from mlflow_ragmetrics.results.results import results_groups, results_of
from mlflow_ragmetrics.rows.row_groups import Groups
from mlflow_ragmetrics.statistics import prediction_powered
from mlflow_ragmetrics.statistics.intervals import Vector, clusters_of

_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class TrueScore(prediction_powered.TrueScore):
    """The estimated mean of human labels over all measured rows, with its 95 % interval.

    ``judge``: the judge's own mean. ``labels`` of ``rows`` are labelled; with too few, ``low``, ``high`` and ``error``
    (the standard error) are ``None``. ``groups``: number of groups with a label; ``few_groups`` marks fewer than ten
    effective groups.
    """

    key: str
    judge: float | None
    groups: int | None = None
    few_groups: bool = False

    @property
    def metrics(self) -> dict[str, float]:
        """``<key>/true_mean``, ``/true_low``, ``/true_high`` and ``/n_labelled``, for gates and runs."""
        figures = {"true_mean": self.value, "true_low": self.low, "true_high": self.high, "n_labelled": self.labels}
        return {f"{self.key}/{name}": float(value) for name, value in figures.items() if value is not None}

    def __str__(self) -> str:
        interval = "no interval" if self.low is None else f"95 % interval {number(self.low)} to {number(self.high)}"
        groups = "" if self.groups is None else f", groups: {self.groups}{' (few)' if self.few_groups else ''}"
        counts = f"labels: {self.labels} of {self.rows} rows{groups}"
        judge = "" if self.judge is None else f", judge's mean {number(self.judge)}"
        method = "prediction-powered inference (PPI++)"
        return f"{self.key}: true score {number(self.value)}, {interval}{judge}; {counts}. Method: {method}"


def named_key(results: Evaluation, key: object) -> str:
    """Return ``key``, or the only metric; ``InvalidOptionError`` if there is no such metric."""
    if key is None and len(results.keys) == 1:
        return results.keys[0]
    if isinstance(key, str) and key in results.keys:
        return key
    what = "name the metric" if key is None else f"{shown(key)} is not a metric of the report"
    raise InvalidOptionError(f"key: {what}; use one of {', '.join(results.keys) or 'none'}", param="key")


def labelled_scores(
    results: Evaluation,
    key: str,
    labels: Labels,
    groups: Groups | None,
    words: Mapping[str, float | None] | None = None,
    *,
    in_range: bool = True,
) -> tuple[Vector, Vector, list[str] | None]:
    """The measured score (NaN: none), label (NaN: none) and group of each row of an evaluation.

    Raises ``InvalidOptionError`` for an unknown key, ``InvalidDataError`` if no row is labelled or, with ``in_range``,
    if a label is outside the metric's range.
    """
    given = labels_of(labels, results, named_key(results, key), words=words)
    grades = np.array([np.nan if label is None else label for label in given], dtype=float)
    if np.isnan(grades).all():
        raise InvalidDataError(f"no row has a label for {key}")
    scores = numbers_of(measured(results, key))
    low, high = _range(key, scores)
    outside = np.flatnonzero((grades < low - 1e-9) | (grades > high + 1e-9))
    if in_range and outside.size:
        some = ", ".join(f"{grades[row]:g} (row {row + 1})" for row in outside[:_MOST_NAMED])
        message = f"labels outside the range of {key}, {low:g} to {high:g} ({outside.size}): {some}; rescale them"
        raise InvalidDataError(f"{message}, such as grades of 1 to 5 by (grade - 1) / 4, or calibrate with good_from")
    return scores, grades, results_groups(results, groups)


def _range(key: str, scores: Vector) -> tuple[float, float]:
    """The metric's range; an own metric may have scores beyond 0 to 1."""
    low, high = metric_range(key)
    return float(np.nanmin([low, *scores])), float(np.nanmax([high, *scores]))


def true_score(self: Evaluation, key: str, labels: Labels, *, groups: Groups | None = None) -> TrueScore:
    """Estimate the mean human label of all rows, from labels of a few rows and the judge's scores of all.

    ``labels``: a mapping from id to label, one label per row (``None``: no label), the name of a column, a file or
    frame with ``id`` and ``label``, or traces with human feedback. Choose the labelled rows at random, as
    ``ragmetrics label`` does. A label says how good a row is; if lower is better for the metric, labels are turned to
    its scale (1 becomes 0). Only measured rows count. ``groups`` as in ``compare``. The method is prediction-powered
    inference (Angelopoulos, Duchi and Zrnic 2023, PPI++). Raises ``InvalidDataError`` if no measured row is labelled,
    an id has two labels, or a label is outside the metric's range; ``InvalidOptionError`` for an unknown key.
    """
    results = results_of(self)
    scores, grades, names = labelled_scores(results, key, labels, groups)
    if results.better(key) is False:
        grades = sum(_range(key, scores)) - grades
    kept = ~np.isnan(scores)
    scores, grades = scores[kept], grades[kept]
    names = None if names is None else [name for name, keep in zip(names, kept, strict=True) if keep]
    if np.isnan(grades).all():
        raise InvalidDataError(f"no measured row has a label for {key}")
    estimated = prediction_powered.true_mean(grades, scores, groups=names)
    sample = None if names is None else clusters_of(grades, names)
    return TrueScore(
        **vars(estimated),
        key=key,
        judge=float(np.sort(scores).mean()),
        groups=None if sample is None else sample.groups,
        few_groups=sample is not None and sample.few_groups,
    )
