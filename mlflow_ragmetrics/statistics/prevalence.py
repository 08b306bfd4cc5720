"""The share of bad rows from a judge's verdicts and how often these are right, measured elsewhere or on a part."""

from __future__ import annotations

import math
from typing import Union

from scipy.special import ndtri

from mlflow_ragmetrics.statistics.agreement import Agreement, Estimate
from mlflow_ragmetrics.statistics.closed_forms import wilson_interval

__all__ = ["rogan_gladen"]


def rogan_gladen(flagged: int, rows: int, known: Agreement, *, level: float = 0.95) -> Union[Estimate, None]:
    """The share of bad rows (0 to 1) among ``rows``, of which the judge flagged so many.

    The share that is flagged, corrected for the recall and specificity of the verdicts in ``known`` (Rogan and Gladen
    1978), with Lang and Reiczigel's (2014) interval, which holds the errors of all three. These rows may be of another
    data set, of another share of bad rows; where they are part of the same, ``true_mean`` says more. ``None`` when the
    verdicts are not better than chance, or no bad or no good row is known. ``ValueError`` for more flagged than rows.
    """
    if not 0 <= flagged <= rows or not rows:
        raise ValueError(f"{flagged} of {rows} rows cannot be flagged")
    bad, good = known.found + known.missed, known.cleared + known.false_alarms
    if known.recall is None or known.specificity is None or known.recall + known.specificity <= 1:
        return None
    value = _corrected(flagged / rows, known.recall, known.specificity)
    z = float(ndtri((1 + level) / 2))
    share, number = (flagged + z * z / 2) / (rows + z * z), rows + z * z
    recall, specificity = (known.found + 1) / (bad + 2), (known.cleared + 1) / (good + 2)
    middle = _corrected(share, recall, specificity)
    of_recall, of_specificity = recall * (1 - recall) / (bad + 2), specificity * (1 - specificity) / (good + 2)
    shift = 2 * z * z * (middle * of_recall - (1 - middle) * of_specificity)
    variance = share * (1 - share) / number + middle**2 * of_recall + (1 - middle) ** 2 * of_specificity
    half = z * math.sqrt(variance) / (recall + specificity - 1)
    held = min(max(value, 0.0), 1.0)
    low, high = min(max(middle + shift - half, 0.0), held), max(min(middle + shift + half, 1.0), held)
    # So few (or many) are flagged that the false alarms alone would be more: what is left is that a bad row is found
    # with the recall, a good one passes with the specificity.
    if high <= 0:
        high = min(1.0, wilson_interval(flagged / rows, rows, level)[1] / recall)
    if low >= 1:
        low = max(0.0, 1 - (1 - wilson_interval(flagged / rows, rows, level)[0]) / specificity)
    return Estimate(held, low, high)


def _corrected(share: float, recall: float, specificity: float) -> float:
    return (share + specificity - 1) / (recall + specificity - 1)
