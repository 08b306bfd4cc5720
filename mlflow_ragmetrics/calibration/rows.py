"""The rows that have both a score and a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_ragmetrics.calibration.labels import Labels, labels_of
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.runs import Results

__all__ = ["Labelled", "labelled"]

Values = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Labelled:
    """Scores and labels of the rows that have both; ``known`` says which of all rows these are."""

    key: str
    values: Values
    grades: Values
    known: Values
    unlabelled: int
    unscored: int


def labelled(results: Results, key: str, labels: Labels, column: str) -> Labelled:
    """``InvalidDataError`` when there is no such row."""
    import pandas as pd

    given = labels_of(labels, results, key, column)
    scores = pd.to_numeric(results.table[key], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    grades = np.array([np.nan if label is None else label for label in given])
    known = ~(np.isnan(scores) | np.isnan(grades))
    if not known.any():
        raise InvalidDataError(f"no row with a label has a score of {key}")
    counts = int(np.isnan(grades).sum()), int(np.isnan(scores).sum())
    return Labelled(key, scores[known], grades[known], known, *counts)
