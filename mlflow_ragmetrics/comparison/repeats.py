"""How far the same evaluation, done again, gives the same result: what a judge adds of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlflow_ragmetrics.comparison.pairing import check_alike, pair
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.readers.results import Results, Source, results_of

__all__ = ["repeatability"]


def repeatability(runs: Sequence[Source]) -> dict[str, float]:
    """Figures of evaluations of the same data, with the judge's cache off: at least two.

    ``<key>/repeat_sd``: the standard deviation of a row's score between runs, root mean square over the rows that all
    runs scored. ``<key>/flip_rate``: the share of such rows that do not pass in all runs or in none, where there is a
    threshold. ``repeat/item_flip_rate``: the share of claims and chunks, found by all runs, whose verdict is not
    always the same. ``InvalidOptionError`` for fewer than two runs, or runs that were measured differently.
    """
    results = [results_of(run, f"run {number}") for number, run in enumerate(runs, 1)]
    if len(results) < 2:
        raise InvalidOptionError("repeatability needs at least two evaluations of the same data", param="runs")
    first, *others = results
    for other in others:
        check_alike(first, other, allow_different=False)
    figures: dict[str, float] = {}
    for key in first.keys:
        scores = _columns(results, key)
        if scores.size:
            figures[f"{key}/repeat_sd"] = float(np.sqrt(scores.var(axis=0, ddof=1).mean()))
        passes = _columns(results, f"{key}_passed")
        if passes.size:
            figures[f"{key}/flip_rate"] = float((passes != passes[0]).any(axis=0).mean())
    return figures | _item_flips(results)


def _columns(results: Sequence[Results], name: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """A runs × rows matrix of the rows that have a value in every run; empty where a run has no such column."""
    first = results[0]
    if not all(name in each.table.columns for each in results):
        return np.empty((0, 0))
    matrix = np.full((len(results), len(first.table)), np.nan)
    for place, each in enumerate(results):
        pairing = pair(first, each)
        matrix[place, list(pairing.rows_a)] = pairing.select(first.table[name], each.table[name])[1]
    return matrix[:, ~np.isnan(matrix).any(axis=0)]


def _item_flips(results: Sequence[Results]) -> dict[str, float]:
    columns = ["id", "metric", "kind", "text"]
    verdicts = [dict(zip(map(tuple, r.items[columns].values), r.items["verdict"], strict=True)) for r in results]
    common = set.intersection(*map(set, verdicts))
    if not common:
        return {}
    return {"repeat/item_flip_rate": sum(len({each[item] for each in verdicts}) > 1 for item in common) / len(common)}
