"""``rows_to_label``: chooses rows for people to label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.report.pairing import numbers_of
from mlflow_ragmetrics.rows.labels import Labels, labels_of
from mlflow_ragmetrics.rows.results import Results, Source, results_of

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = ("id", "trace_id", "question", "answer", "contexts", "reference")


def rows_to_label(
    report: Source, *, key: str | None = None, budget: int = 60, labels: Labels | None = None, seed: int = 0
) -> pd.DataFrame:
    """Choose ``budget`` rows of ``report`` for people to label, with the fields they need and an empty ``label``.

    The rows cover the whole range of the scores of ``key``: sorted by score, at equal steps from a random start. All
    rows are equally likely, so ``Report.true_score`` stays unbiased. Rows with one of ``labels`` are left out, and so
    is the score, because it would influence people. The same ``seed`` gives the same rows. ``InvalidOptionError`` for
    an unknown key or a budget below 1, ``InvalidDataError`` if no row is left.
    """
    import pandas as pd

    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise InvalidOptionError(f"budget={shown(budget)} must be a whole number, at least 1", param="budget")
    results = results_of(report)
    key = named_key(results, key)
    table = results.table
    if "id" not in table.columns:
        raise InvalidDataError(f"{results.name} has no ids, which are needed to read labels back")
    scores = numbers_of(table[key])
    is_open = ~np.isnan(scores)
    if labels is not None:
        is_open &= np.array([label is None for label in labels_of(labels, results, key)])
    left = np.flatnonzero(is_open)
    if not left.size:
        raise InvalidDataError(f"no row with a score of {key} is without a label")
    ordered = left[np.lexsort((table["id"].astype(str).to_numpy()[left], scores[left]))]
    number = min(budget, left.size)
    drawn = (np.arange(number) + np.random.default_rng(seed).random()) * left.size / number
    chosen = table.iloc[np.sort(ordered[drawn.astype(int)])][[name for name in _SHOWN if name in table.columns]]
    return chosen.reset_index(drop=True).assign(label=pd.Series([None] * number, dtype=object))


def named_key(results: Results, key: object) -> str:
    """Return ``key``, or the only metric; ``InvalidOptionError`` if there is no such metric."""
    if key is None and len(results.keys) == 1:
        return results.keys[0]
    if isinstance(key, str) and key in results.keys:
        return key
    what = "name the metric" if key is None else f"{shown(key)} is not a metric of the report"
    raise InvalidOptionError(f"key: {what}; there are {', '.join(results.keys) or 'none'}", param="key")
