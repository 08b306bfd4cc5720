"""``rows_to_label``: the rows to have labelled, so that few labels tell most, with the probability of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows.groups import Groups, results_groups
from mlflow_ragmetrics.rows.labels import PROBABILITY, Labels, labels_of
from mlflow_ragmetrics.rows.results import Source, results_of
from mlflow_ragmetrics.statistics.label_choice import choose_rows, expected_errors, label_probabilities, score_doubt

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["rows_to_label"]

_SHOWN = ("id", "trace_id", "question", "answer", "contexts", "reference")


def rows_to_label(
    report: Source,
    *,
    key: str | None = None,
    budget: int = 60,
    labels: Labels | None = None,
    groups: Groups | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """At most about ``budget`` rows of ``report`` to have labelled: what people need to see, and an empty ``label``.

    Rows where the judge of ``key`` is more likely to be off are chosen with larger probability (Zrnic and Candès 2024,
    active inference); ``label_probability`` says with which, so that ``Report.true_score`` stays unbiased. Where the
    judge is off is learnt from ``labels``, where some rows have them already, else low scores (high ones where lower is
    better) are doubted. The score itself is left out, as it would sway those who label. Rows of one group are spread.
    The same ``seed`` gives the same rows. ``InvalidOptionError`` for an unknown key or a budget below 1,
    ``InvalidDataError`` where nothing is scored.
    """
    import pandas as pd

    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise InvalidOptionError(f"budget={shown(budget)} must be a whole number from 1", param="budget")
    results = results_of(report)
    if key is None and len(results.keys) == 1:
        key = results.keys[0]
    if key not in results.keys:
        what = "name the metric" if key is None else f"{shown(key)} is not a metric of the report"
        raise InvalidOptionError(f"key: {what}; there are {', '.join(results.keys) or 'none'}", param="key")
    table = results.table
    if "id" not in table.columns:
        raise InvalidDataError(f"{results.name} has no ids, by which labels could be read back")
    scores = pd.to_numeric(table[key], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    if np.isnan(scores).all():
        raise InvalidDataError(f"no row has a score of {key}")
    goodness = 1.0 - scores if results.better(str(key)) is False else scores
    limits = min(0.0, float(np.nanmin(goodness))), max(1.0, float(np.nanmax(goodness)))
    importance = score_doubt(goodness, low=limits[0], high=limits[1])
    if labels is not None:
        known = [np.nan if label is None else label for label in labels_of(labels, results, key)]
        importance = expected_errors(scores, np.array(known, dtype=float))
    probabilities = label_probabilities(importance, budget)
    names = [str(name) for name in table["id"]]
    places = choose_rows(probabilities, groups=results_groups(results, groups), names=names, seed=seed)
    chosen = table.iloc[places][[name for name in _SHOWN if name in table.columns]].reset_index(drop=True)
    empty: list[object] = [None] * len(places)
    return chosen.assign(**{PROBABILITY: probabilities[places], "label": empty})
