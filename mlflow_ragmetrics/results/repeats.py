"""Repeatability: how much the results of the same evaluation vary from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.results.pairing import check_alike, pair
from mlflow_ragmetrics.results.results import Results, Source, results_groups, results_of
from mlflow_ragmetrics.statistics.intervals import Matrix
from mlflow_ragmetrics.statistics.sample_size import crossed_interval


def repeatability(runs: Sequence[Source]) -> dict[str, float]:
    """Compare two or more evaluations of the same data, made without the judge's cache.

    ``<key>/repeat_sd``: the standard deviation of a row's score between runs, as root mean square over the rows that
    all runs scored. ``<key>/flip_rate``: the share of these rows that pass in some runs only, if there is a threshold.
    ``repeat/item_flip_rate``: the share of claims and chunks found by all runs whose verdict varies.
    ``<key>/repeat_mean``, ``/repeat_ci_low``, ``/repeat_ci_high``: the mean over all runs and its interval; each row
    counts once, by its own mean. ``repeat/n_repeats``: number of runs. Raises ``InvalidOptionError`` for fewer than two
    runs, or runs that were measured differently.
    """
    results = [results_of(run, f"run {number}") for number, run in enumerate(runs, 1)]
    if len(results) < 2:
        raise InvalidOptionError("repeatability needs at least two evaluations of the same data", param="runs")
    first, *others = results
    for other in others:
        check_alike(first, other, allow_different=False)
    figures: dict[str, float] = {"repeat/n_repeats": len(results)}
    names = results_groups(first)
    groups = None if names is None else np.array(names)
    for key in first.keys:
        scores, complete = _columns(results, key)
        if scores.size:
            figures[f"{key}/repeat_sd"] = float(np.sqrt(scores.var(axis=0, ddof=1).mean()))
            figures[f"{key}/repeat_mean"] = float(np.sort(scores.mean(axis=0)).mean())
            interval = crossed_interval(scores.T, groups=None if groups is None else groups[complete])
            ends = ("repeat_ci_low", "repeat_ci_high")
            figures |= {f"{key}/{end}": limit for end, limit in zip(ends, interval or (), strict=False)}
        passes, _ = _columns(results, f"{key}_passed")
        if passes.size:
            figures[f"{key}/flip_rate"] = float((passes != passes[0]).any(axis=0).mean())
    return figures | _item_flips(results)


def _columns(results: Sequence[Results], name: str) -> tuple[Matrix, Any]:
    """A runs × rows matrix of the rows with a value in every run, and a mask of these rows; empty if a run lacks the
    column."""
    first = results[0]
    if not all(name in each.table.columns for each in results):
        return np.empty((0, 0)), np.zeros(len(first.table), dtype=bool)
    matrix = np.full((len(results), len(first.table)), np.nan)
    for place, each in enumerate(results):
        pairing = pair(first, each)
        matrix[place, list(pairing.rows_a)] = pairing.select(first.table[name], each.table[name])[1]
    complete = ~np.isnan(matrix).any(axis=0)
    return matrix[:, complete], complete


def _item_flips(results: Sequence[Results]) -> dict[str, float]:
    columns = ["id", "metric", "kind", "text"]
    verdicts = [dict(zip(map(tuple, r.items[columns].values), r.items["verdict"], strict=True)) for r in results]
    common = set.intersection(*map(set, verdicts))
    if not common:
        return {}
    return {"repeat/item_flip_rate": sum(len({each[item] for each in verdicts}) > 1 for item in common) / len(common)}
