"""Repeatability: how much the results of the same evaluation vary from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.statistics.intervals import Matrix, crossed_interval


def repeatability(runs: Sequence[Evaluation]) -> dict[str, float]:
    """Compare two or more evaluations of the same rows by the same suite, made without the judge's cache.

    ``<key>/repeat_sd``: the standard deviation of a row's score between runs, as root mean square over the rows that
    all runs scored. ``<key>/flip_rate``: the share of these rows that pass in some runs only, if there is a threshold.
    ``repeat/item_flip_rate``: the share of claims and chunks found by all runs whose verdict varies.
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
    return figures | _item_flips(runs)


def _of_complete_rows(values: Sequence[Sequence[Union[float, None]]]) -> tuple[Matrix, Any]:
    """A runs × rows matrix of the rows with a value in every run, and a mask of these rows."""
    matrix = np.array(values, dtype=float)
    complete = ~np.isnan(matrix).any(axis=0)
    return matrix[:, complete], complete


def _item_flips(runs: Sequence[Evaluation]) -> dict[str, float]:
    names = ["id", "metric", "kind", "text"]
    verdicts = [dict(zip(map(tuple, run.items[names].values), run.items["verdict"], strict=True)) for run in runs]
    common = set.intersection(*map(set, verdicts))
    if not common:
        return {}
    return {"repeat/item_flip_rate": sum(len({each[item] for each in verdicts}) > 1 for item in common) / len(common)}
