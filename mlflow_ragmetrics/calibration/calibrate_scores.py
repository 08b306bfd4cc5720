"""``calibrate`` compares a metric's scores with people's labels; ``rows_to_label`` chooses rows for people to label."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd

from mlflow_ragmetrics.calibration.outcome import Calibration, OtherVerdicts
from mlflow_ragmetrics.core.options import check_count, shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.labels import Labels, labels_of
from mlflow_ragmetrics.results.pairing import measured, numbers_of
from mlflow_ragmetrics.results.results import Results, Source, results_of
from mlflow_ragmetrics.results.true_score import labelled_scores, named_key
from mlflow_ragmetrics.rows.row_groups import Groups
from mlflow_ragmetrics.rows.values import as_number
from mlflow_ragmetrics.statistics.agreement import agreement, auroc, correlation
from mlflow_ragmetrics.statistics.thresholds import threshold_gain

Values = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _LabelledRows:
    """Scores and labels of the rows that have both; ``known`` marks these among all rows.

    ``groups``: the group of each row, ``None`` if rows are not grouped. If lower is better, ``values`` are 1 − score,
    so that bad rows are below a threshold.
    """

    key: str
    values: Values
    grades: Values
    known: Values
    unlabelled: int
    unscored: int
    groups: Values | None = None
    lower_is_better: bool = False

    def turned(self, values: Any) -> Any:
        """Flip scores so that higher is better, or flip them back."""
        return 1.0 - values if self.lower_is_better else values


def _labelled_rows(
    results: Results, key: str, scores: Values, grades: Values, names: list[str] | None
) -> _LabelledRows:
    """The rows with both a label and a measured score; ``InvalidDataError`` without any."""
    no_label, no_score = np.isnan(grades), np.isnan(scores)
    known = ~(no_score | no_label)
    if not known.any():
        raise InvalidDataError(f"no row with a label has a measured score of {key}")
    lower = results.better(key) is False
    own = None if names is None else np.array(names, dtype=object)[known]
    values = 1.0 - scores[known] if lower else scores[known]
    counts = int(no_label.sum()), int(no_score.sum())
    return _LabelledRows(key, values, grades[known], known, *counts, own, lower)


_DEFAULT = 0.5
_SLACK = 1e-9


def calibrate(
    report: Source | Sequence[Source],
    labels: Labels,
    *,
    key: str | None = None,
    default: float | None = None,
    good_from: float | None = None,
    column: str = "label",
    groups: Groups | None = None,
    words: Mapping[str, float | None] | None = None,
) -> Calibration:
    """Measure how well the metric ``key`` of ``report`` agrees with people, and find the threshold that agrees best.

    ``report``: an evaluation, or several of the same rows by different judges. The result compares the others with the
    first, each with its agreement and, if known, its cost, so that you can choose a judge. The judges of a panel are
    compared too.

    ``labels``: a mapping from id to label, one label per row, the name of a column of the data, a file or frame with
    ``id`` and ``column``, or traces with people's feedback. True, 1 and words like "supported" are good; 0.5 and
    "partially supported" are not. ``words`` defines other words (``{"Kind of": 0.5, "Skip": None}``), and a warning
    names those without a definition. If labels are grades, those of ``good_from`` or higher are good. ``default``: the
    threshold in use (the suite's, else 0.5). It is kept unless cross-validation finds a significantly better one.
    ``groups``: a column, or one name per row, shared by rows that belong together, such as answers to one question
    (default: the groups of the report, else the conversations of traces). If lower is better, rows above the threshold
    are bad. Only measured rows count. ``InvalidDataError`` if no measured row is labelled, an id has two different
    labels or, without ``good_from``, a label is outside the metric's range; ``InvalidOptionError`` for an unknown key.
    """
    for name, value in (("default", default), ("good_from", good_from)):
        if value is not None and not (isinstance(value, (int, float)) and abs(value) <= sys.float_info.max):
            raise InvalidOptionError(f"{name}={shown(value)} must be a number", param=name)
    sources: Sequence[Source] = report if isinstance(report, (list, tuple)) else [cast("Source", report)]
    if not sources:
        raise InvalidOptionError("report: an empty list has no evaluation", param="report")
    first, *others = sources
    results = results_of(first)
    chosen = named_key(results, key)
    if key is not None and results.better(chosen) is None:
        message = f"key: neither a high nor a low value of {key} is better, so labels cannot agree with it"
        raise InvalidOptionError(message, param="key")
    labelled = labelled_scores(results, chosen, labels, column, groups, words, in_range=good_from is None)
    rows = _labelled_rows(results, chosen, *labelled)
    usual = _default(results, rows.key, default)
    cut = rows.turned(usual)
    scores = rows.turned(rows.values)
    found = Calibration(
        key=rows.key,
        rows=rows.values.size,
        unlabelled=rows.unlabelled,
        unscored=rows.unscored,
        default=usual,
        pearson=correlation(scores, rows.grades, "pearson", groups=rows.groups),
        spearman=correlation(scores, rows.grades, "spearman", groups=rows.groups),
        judge=_judge_of(results),
        cost=_cost_of(first, results),
    )
    good = _good(rows.grades, good_from)
    if good is None:
        return found
    panel = _panel_scores(report, rows.key)
    gain = threshold_gain(rows.values, ~good, cut, groups=rows.groups)
    return replace(
        found,
        at_default=agreement(rows.values < cut - _SLACK, ~good, groups=rows.groups),
        at_chosen=agreement(rows.values < gain.chosen - _SLACK, ~good, groups=rows.groups) if gain else None,
        gain=replace(gain, chosen=round(rows.turned(gain.chosen), 12)) if gain else None,
        auroc=auroc(rows.values, ~good, groups=rows.groups),
        beside=(
            *(_verdicts(name, given, None, usual, rows, good) for name, given in panel.items()),
            *(_other_judge(other, results, usual, rows, good) for other in others),
        ),
    )


def _default(results: Results, key: str, default: float | None) -> float:
    if default is not None:
        return default
    thresholds = results.description.get("thresholds") or {}
    return float(thresholds.get(key, _DEFAULT)) if isinstance(thresholds, dict) else _DEFAULT


def _good(grades: Any, good_from: float | None) -> Any:
    """Return which rows are good (0.5 is not); ``None`` for grades without ``good_from``."""
    if good_from is not None:
        return grades >= good_from
    return grades > 0.5 if np.isin(grades, (0.0, 0.5, 1.0)).all() else None


def _other_judge(other: Source, results: Results, default: float, rows: _LabelledRows, good: Any) -> OtherVerdicts:
    """Compare another evaluation of the same rows, matched by id, at its own threshold."""
    found = results_of(other)
    if rows.key not in found.keys:
        raise InvalidDataError(f"{found.name} has no metric {rows.key}; use one of {', '.join(found.keys) or 'none'}")
    scores = dict(zip(map(str, found.table["id"]), measured(found, rows.key), strict=True))
    given = [as_number(scores.get(str(name))) for name in results.table["id"]]
    if all(value is None for value in given):
        raise InvalidDataError(f"{found.name} and {results.name} have no scored row in common, by id")
    usual = _default(found, rows.key, None) if "thresholds" in found.description else default
    return _verdicts(_judge_of(found) or found.name, given, _cost_of(other, found), usual, rows, good)


def _verdicts(
    name: str, given: Sequence[float | None], cost: float | None, cut: float, rows: _LabelledRows, good: Any
) -> OtherVerdicts:
    """Compare the scores of another judge, one per row, with the labels; ``cut`` is its threshold."""
    both = np.array([value is not None for value in given]) & rows.known
    scores = rows.turned(np.array([value for value, here in zip(given, both, strict=True) if here], dtype=float))
    bad = ~good[both[rows.known]]
    own = None if rows.groups is None else rows.groups[both[rows.known]]
    area = auroc(scores, bad, groups=own)
    return OtherVerdicts(name, agreement(scores < rows.turned(cut) - _SLACK, bad, groups=own), area, cost)


def _judge_of(results: Results) -> str:
    """Return the names of the judges; empty if unknown."""
    names = results.description.get("judge") or ()
    return ", ".join([names] if isinstance(names, str) else map(str, names))


def _cost_of(source: Any, results: Results) -> float | None:
    """Return dollars per thousand rows, from a report's usage or a run's; ``None`` without prices."""
    cost = source.usage.get("cost") if isinstance(source, Report) else None
    if cost is None and results.run_id is not None:
        from mlflow import artifacts
        from mlflow.exceptions import MlflowException

        with suppress(MlflowException, OSError):
            cost = artifacts.load_dict(f"runs:/{results.run_id}/rag_figures.json").get("usage/cost")
    return None if cost is None or not len(results.table) else 1000 * float(cost) / len(results.table)


def _panel_scores(source: Any, key: str) -> dict[str, list[float | None]]:
    """Return each panel judge's scores by row; empty for a single judge, or if only tables exist."""
    if not isinstance(source, Report):
        return {}
    given = [row.scores[key].model_scores if key in row.scores else {} for row in source.rows]
    names = list(dict.fromkeys(name for scores in given for name in scores or {}))
    return {name: [(scores or {}).get(name) for scores in given] for name in names} if len(names) > 1 else {}


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
    check_count("budget", budget)
    results = results_of(report)
    key = named_key(results, key)
    table = results.table
    if "id" not in table.columns:
        raise InvalidDataError(f"{results.name} has no ids, which are needed to read labels back")
    scores = numbers_of(measured(results, key))
    is_open = ~np.isnan(scores)
    if labels is not None:
        is_open &= np.array([label is None for label in labels_of(labels, results, key)])
    left = np.flatnonzero(is_open)
    if not left.size:
        raise InvalidDataError(f"no row with a measured score of {key} is without a label")
    ordered = left[np.lexsort((table["id"].astype(str).to_numpy()[left], scores[left]))]
    number = min(budget, left.size)
    drawn = (np.arange(number) + np.random.default_rng(seed).random()) * left.size / number
    chosen = table.iloc[np.sort(ordered[drawn.astype(int)])][[name for name in _SHOWN if name in table.columns]]
    return chosen.reset_index(drop=True).assign(label=pd.Series([None] * number, dtype=object))
