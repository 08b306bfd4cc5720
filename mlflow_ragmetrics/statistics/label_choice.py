"""Which rows to have labelled, so that few labels tell much: with known probabilities, so that nothing is biased.

Rows are chosen with probabilities in proportion to how far the judge is expected to be off (Zrnic and Candès 2024,
active inference), mixed with equal ones so that no weight is large. ``true_score.true_mean`` takes the probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.statistics.groups import Labels
from mlflow_ragmetrics.statistics.resampling import Vector

__all__ = ["choose_rows", "expected_errors", "label_probabilities", "score_doubt"]

_PER_BIN = 10


def score_doubt(scores: Vector, *, low: float = 0.0, high: float = 1.0) -> Vector:
    """How far a judge is expected to be off by its score alone, 0 to 1: the root of what the score lacks of ``high``.

    Low scores are where people contradict judges most, on RAGTruth's and on MTRAG's labels. NaN, where there is no
    score, counts as 1. ``ValueError`` for ``low`` that is not below ``high``.
    """
    if not low < high:
        raise ValueError(f"low={low} must lie below high={high}")
    lacking = (high - np.nan_to_num(np.asarray(scores, dtype=float), nan=low)) / (high - low)
    doubt: Vector = np.sqrt(np.clip(lacking, 0.0, 1.0))
    return doubt


def expected_errors(scores: Vector, labels: Vector) -> Vector:
    """How far the judge is off at each score, from rows that are labelled already (NaN: not labelled, not scored).

    The root mean square deviation of the labels from their regression on the scores, in bins of about ten labels by
    score, each drawn half way to that of all. Equal errors for fewer than twenty labels.
    """
    f, y = np.asarray(scores, dtype=float), np.asarray(labels, dtype=float)
    known = ~(np.isnan(f) | np.isnan(y))
    bins = int(known.sum()) // _PER_BIN
    if bins < 2:
        return np.ones(f.size)
    x = f[known] - f[known].mean()
    slope = float((x * y[known]).sum() / max(float((x**2).sum()), 1e-300)) if np.ptp(x) > 0 else 0.0
    squares = (y[known] - y[known].mean() - slope * x) ** 2
    edges = np.unique(np.quantile(f[known], np.arange(1, bins) / bins))
    own = np.searchsorted(edges, f[known], side="right")
    numbers = np.bincount(own, minlength=edges.size + 1)
    sums = np.bincount(own, weights=squares, minlength=edges.size + 1)
    overall = float(squares.mean())
    errors = np.sqrt((sums + _PER_BIN * overall) / (numbers + _PER_BIN))
    place = np.searchsorted(edges, np.where(np.isnan(f), np.inf, f), side="right")
    found: Vector = np.where(np.isnan(f), errors.max(), errors[place])
    return found


def label_probabilities(importance: Vector, budget: int, *, uniform: float = 0.75) -> Vector:
    """The probability of each row to be labelled: they add up to ``budget``, and none exceeds 1.

    ``importance`` is 0 or larger (``score_doubt``, ``expected_errors``, the spread of repeated verdicts).
    ``uniform`` of the budget is spent evenly, so that no row weighs more than 1 / ``uniform`` times what it would in an
    even choice: the smaller, the more is won where ``importance`` is right, and lost where it is not. A budget of at
    least as many gives all rows. ``ValueError`` for importance below 0 or no number, a budget below 1, and ``uniform``
    not above 0 or above 1.
    """
    wanted = np.asarray(importance, dtype=float)
    if not (np.isfinite(wanted) & (wanted >= 0)).all():
        raise ValueError("importance must be numbers of at least 0")
    if budget < 1 or not 0 < uniform <= 1:
        raise ValueError(f"budget={budget} must be at least 1 and uniform={uniform} lie above 0 and not above 1")
    if budget >= wanted.size:
        return np.ones(wanted.size)
    own = wanted / wanted.sum() if wanted.sum() > 0 else np.full(wanted.size, 1 / wanted.size)
    sizes = uniform / wanted.size + (1 - uniform) * own
    certain = np.zeros(wanted.size, dtype=bool)
    while True:
        rest = np.where(certain, 0.0, sizes)
        probabilities: Vector = np.where(certain, 1.0, rest * ((budget - certain.sum()) / rest.sum()))
        over = probabilities > 1
        if not over.any():
            return probabilities
        certain |= over


def choose_rows(
    probabilities: Vector,
    *,
    groups: Union[Labels, None] = None,
    names: Union[Sequence[Any], None] = None,
    seed: int = 0,
) -> NDArray[np.integer[Any]]:
    """The places of rows, each chosen with its probability: as many as these add up to, give or take one.

    Systematic sampling (Madow 1949) of the rows in the order of a hash of their ``names`` (by default their places), so
    that the same names, probabilities and seed give the same rows in whatever order they come. Rows of one of
    ``groups`` follow each other, so that the labels are spread over the groups: rows of one say less than others.
    ``ValueError`` where there is not one name, or group, for each row.
    """
    size = len(probabilities)
    keys = range(size) if names is None else names
    own = [""] * size if groups is None else groups
    if not len(keys) == len(own) == size:
        raise ValueError(f"{len(keys)} names and {len(own)} groups are given for {size} rows")
    order = sorted(range(size), key=lambda row: (_hash(f"{seed}:{own[row]}"), _hash(f"{seed}:{keys[row]}")))
    ends = np.cumsum(np.append(0.0, np.asarray(probabilities, dtype=float)[order]))[1:]
    total = float(ends[-1]) if size else 0.0
    start = int.from_bytes(_hash(f"start:{seed}"), "big") / 2**64
    # A sum that should be whole gives as many rows, whatever its rounding.
    number = round(total) if abs(total - round(total)) < 1e-6 else math.ceil(total - start)
    picked = np.searchsorted(ends, start + np.arange(number), side="right")
    chosen: NDArray[np.integer[Any]] = np.unique(np.asarray(order, dtype=int)[np.minimum(picked, size - 1)])
    return chosen


def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()
