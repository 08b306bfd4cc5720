"""What people would have said: a metric's mean corrected by few labels, with an honest interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Union

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.core.document import number
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows.groups import Groups, results_groups
from mlflow_ragmetrics.rows.labels import PROBABILITY, Labels, label_probabilities, labels_of
from mlflow_ragmetrics.rows.results import Results
from mlflow_ragmetrics.statistics import true_score as statistics
from mlflow_ragmetrics.statistics.agreement import Agreement, agreement
from mlflow_ragmetrics.statistics.groups import FEW_GROUPS, Grouping, describe_groups
from mlflow_ragmetrics.statistics.prevalence import rogan_gladen
from mlflow_ragmetrics.statistics.resampling import Vector

__all__ = ["LabelledScores", "Method", "TrueScore", "labelled_scores", "true_difference", "true_score"]

Method = Literal["ppi", "rogan-gladen"]
_VERDICT_FROM = 0.5
_SLACK = 1e-9
_METHODS = {
    "ppi": "prediction-powered inference (PPI++) with power tuning, jackknife and Student's t",
    "rogan-gladen": "Rogan and Gladen's estimator of the share of good rows, interval of Lang and Reiczigel",
}


@dataclass(frozen=True)
class TrueScore:
    """The mean that people's labels would have over all rows (of a difference: B's less A's), with 95 % interval.

    ``judge`` is the judge's own mean. ``labels`` of ``rows`` are labelled. ``low`` and ``high`` are ``None`` where too
    few are. ``variance_left``: the share of the variance of the labels' own mean that is left (there would have to be
    1 / ``variance_left`` times as many of them for this interval); ``tuning``: what the judge's scores are multiplied
    by, 0 where they say nothing of the labels. ``groups`` that have a label, and the mark ``few_groups`` below ten
    effective ones.
    """

    key: str
    value: float
    low: float | None
    high: float | None
    judge: float | None
    labels: int
    rows: int
    method: str
    tuning: float | None = None
    variance_left: float | None = None
    groups: int | None = None
    few_groups: bool = False

    @property
    def metrics(self) -> dict[str, float]:
        """``<key>/true_mean``, ``/true_low``, ``/true_high`` and ``/n_labelled``, for gates and runs."""
        figures = {"true_mean": self.value, "true_low": self.low, "true_high": self.high, "n_labelled": self.labels}
        return {f"{self.key}/{name}": float(value) for name, value in figures.items() if value is not None}

    def __str__(self) -> str:
        interval = "no interval" if self.low is None else f"95 % interval {number(self.low)} to {number(self.high)}"
        groups = "" if self.groups is None else f" in {self.groups} groups{' (few groups)' if self.few_groups else ''}"
        counts = f"{self.labels} labels{groups} of {self.rows} rows"
        judge = "" if self.judge is None else f", the judge says {number(self.judge)}"
        return f"{self.key}: true score {number(self.value)}, {interval}{judge}; {counts}. Method: {self.method}"


@dataclass(frozen=True)
class LabelledScores:
    """For each row of an evaluation its score and its label (NaN where there is none), and how it was chosen."""

    scores: Vector
    labels: Vector
    probabilities: Vector | None
    groups: list[str] | None

    def select(self, rows: NDArray[np.integer[Any]], groups: list[str] | None) -> LabelledScores:
        """These rows in this order, with the ``groups`` of each."""
        chosen = None if self.probabilities is None else self.probabilities[rows]
        return LabelledScores(self.scores[rows], self.labels[rows], chosen, groups)


def labelled_scores(
    results: Results, key: str, labels: Labels, *, column: str = "label", groups: Groups | None = None
) -> LabelledScores:
    """Scores of ``key`` and people's labels, row by row; ``InvalidOptionError`` for an unknown key.

    ``InvalidDataError`` where no row is labelled.
    """
    import pandas as pd

    if key not in results.keys:
        there = ", ".join(results.keys) or "none"
        raise InvalidOptionError(f"key: {shown(key)} is not a metric of the report; there are {there}", param="key")
    grades = np.array([np.nan if n is None else n for n in labels_of(labels, results, key, column)], dtype=float)
    if np.isnan(grades).all():
        raise InvalidDataError(f"no row has a label for {key}")
    given = label_probabilities(labels, results)
    chosen = None if given is None else np.array(given)
    if chosen is not None and np.isnan(chosen[~np.isnan(grades)]).any():
        message = f"some rows have a label but no {PROBABILITY}; drop the column where all rows were equally likely"
        raise InvalidDataError(message)
    scores = pd.to_numeric(results.table[key], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    names = results_groups(results, groups)
    return LabelledScores(scores, grades, None if chosen is None else np.nan_to_num(chosen, nan=1.0), names)


def true_score(
    results: Results,
    key: str,
    labels: Labels | None,
    *,
    known: Agreement | None = None,
    column: str = "label",
    groups: Groups | None = None,
    method: Method = "ppi",
) -> TrueScore:
    """The true score of ``key``, as ``Report.true_score`` says."""
    if method not in _METHODS:
        message = f"method={shown(method)} must be one of {', '.join(_METHODS)}"
        raise InvalidOptionError(message, param="method")
    if (labels is None) == (known is None) or (known is not None and method != "rogan-gladen"):
        message = "give labels, or known= (how often verdicts are right elsewhere) with method='rogan-gladen'"
        raise InvalidOptionError(message, param="labels")
    if labels is None:
        return _prevalence(results, key, known, None)
    found = labelled_scores(results, key, labels, column=column, groups=groups)
    if method == "rogan-gladen":
        return _prevalence(results, key, None, found)
    estimated = statistics.true_mean(found.labels, found.scores, probabilities=found.probabilities, groups=found.groups)
    return _described(key, estimated, found, _mean(found.scores))


def true_difference(key: str, a: LabelledScores, b: LabelledScores) -> TrueScore:
    """B's true score less A's, over pairs of rows in the same order; see ``Comparison.true_score``."""
    estimated = statistics.true_difference(
        a.labels, a.scores, b.labels, b.scores, probabilities=_joint(a, b), groups=a.groups
    )
    either = replace(b, labels=np.where(np.isnan(b.labels), a.labels, b.labels))
    return _described(key, estimated, either, _mean(b.scores - a.scores))


def _joint(a: LabelledScores, b: LabelledScores) -> Vector | None:
    """The probabilities of the pairs; a pair that was chosen on either side has that side's."""
    if a.probabilities is None or b.probabilities is None:
        return a.probabilities if b.probabilities is None else b.probabilities
    if not np.allclose(a.probabilities, b.probabilities):
        message = "the two sides were labelled with different probabilities; have the same rows labelled for both"
        raise InvalidDataError(message)
    return b.probabilities


def _described(key: str, estimated: statistics.TrueScore, found: LabelledScores, judge: float | None) -> TrueScore:
    grouping = _grouping(found)
    weighted = "; rows weighed by how likely they were chosen" if found.probabilities is not None else ""
    return TrueScore(
        key,
        estimated.value,
        estimated.low,
        estimated.high,
        judge,
        estimated.labels,
        estimated.rows,
        _METHODS["ppi"] + weighted + ("; over groups" if grouping else ""),
        tuning=estimated.tuning,
        variance_left=estimated.variance_left,
        groups=grouping.groups if grouping else None,
        few_groups=bool(grouping and grouping.effective_groups < FEW_GROUPS),
    )


def _grouping(found: LabelledScores) -> Union[Grouping, None]:
    return None if found.groups is None else describe_groups(found.labels[:, None], found.groups)[0]


def _prevalence(results: Results, key: str, known: Agreement | None, found: LabelledScores | None) -> TrueScore:
    """The share of good rows from the judge's verdicts, corrected for how often these are right."""
    import pandas as pd

    if key not in results.keys:
        there = ", ".join(results.keys) or "none"
        raise InvalidOptionError(f"key: {shown(key)} is not a metric of the report; there are {there}", param="key")
    thresholds = results.description.get("thresholds") or {}
    threshold = float(thresholds.get(key, _VERDICT_FROM))
    scores = pd.to_numeric(results.table[key], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    flagged = scores > threshold + _SLACK if results.better(key) is False else scores < threshold - _SLACK
    scored = ~np.isnan(scores)
    labels = 0
    if found is not None:
        if found.probabilities is not None or found.groups is not None:
            message = "rogan-gladen takes rows as independent and equally likely to be labelled; use method='ppi'"
            raise InvalidOptionError(message, param="method")
        both = scored & ~np.isnan(found.labels)
        if not np.isin(found.labels[both], (0.0, 1.0)).all():
            raise InvalidDataError("rogan-gladen needs labels that are good or bad (1 or 0), not grades")
        known, labels = agreement(flagged[both], found.labels[both] == 0), int(both.sum())
    if known is None or not scored.any():
        raise InvalidDataError(f"no row has a score of {key}")
    estimate = rogan_gladen(int(flagged[scored].sum()), int(scored.sum()), known)
    if estimate is None:
        message = f"verdicts of {key} are not better than chance on the labelled rows, or labels are of one kind"
        raise InvalidDataError(message)
    low, high = (None if end is None else 1 - end for end in (estimate.high, estimate.low))
    judge = float(1 - flagged[scored].mean())
    method = f"{_METHODS['rogan-gladen']}; good from {threshold:g}"
    return TrueScore(key, 1 - estimate.value, low, high, judge, labels or known.rows, int(scored.sum()), method)


def _mean(values: Vector) -> float | None:
    scored = np.sort(values[~np.isnan(values)])
    return float(scored.mean()) if scored.size else None
