"""``calibrate`` compares a metric's scores with people's labels; ``rows_to_label`` chooses rows for people to label."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pandas as pd

from mlflow_ragmetrics.calibration.outcome import Calibration, OtherVerdicts
from mlflow_ragmetrics.core.options import check_count, shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.labels import Labels, labels_of
from mlflow_ragmetrics.results.pairing import measured, numbers_of
from mlflow_ragmetrics.results.results import Source, results_of
from mlflow_ragmetrics.results.true_score import labelled_scores, named_key
from mlflow_ragmetrics.rows.row_groups import Groups
from mlflow_ragmetrics.statistics.agreement import (
    Agreement,
    Estimate,
    agreement,
    auroc,
    correlation,
    threshold_gain,
)

Values = np.ndarray[Any, Any]


_DEFAULT = 0.5
_SLACK = 1e-9


def calibrate(
    report: Source | Sequence[Source],
    labels: Labels,
    *,
    key: str | None = None,
    default: float | None = None,
    good_from: float | None = None,
    groups: Groups | None = None,
    words: Mapping[str, float | None] | None = None,
) -> Calibration:
    """Measure how well the metric ``key`` of ``report`` agrees with people, and find the threshold that agrees best.

    ``report``: an evaluation, or several of the same rows by different judges. The result compares the others with the
    first, so that you can choose a judge. The judges of a panel are compared too.

    ``labels``: a mapping from id to label, one label per row, the name of a column of the data, a file or frame with
    ``id`` and ``label``, or traces with people's feedback. True, 1 and words like "supported" are good; 0.5 and
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
    scores, grades, names = labelled_scores(results, chosen, labels, groups, words, in_range=good_from is None)
    known = ~(np.isnan(scores) | np.isnan(grades))
    if not known.any():
        raise InvalidDataError(f"no row with a label has a measured score of {chosen}")
    kinds = None if names is None else np.array(names, dtype=object)
    of_known = None if kinds is None else kinds[known]
    usual = _default(results, chosen, default)
    found = Calibration(
        key=chosen,
        rows=int(known.sum()),
        unlabelled=int(np.isnan(grades).sum()),
        unscored=int(np.isnan(scores).sum()),
        default=usual,
        pearson=correlation(scores[known], grades[known], "pearson", groups=of_known),
        spearman=correlation(scores[known], grades[known], "spearman", groups=of_known),
        judge=_judge_of(results),
    )
    is_good = grades >= good_from if good_from is not None else grades > 0.5
    if good_from is None and not np.isin(grades[known], (0.0, 0.5, 1.0)).all():  # grades
        return found

    def turned(values: Any) -> Any:
        """Scores for which higher is better, so that bad rows are below a threshold."""
        return 1.0 - values if results.better(chosen) is False else values

    def verdicts(given: Values, threshold: float) -> tuple[Agreement, Estimate | None]:
        """The agreement of the scores of all rows (NaN: none) with the labels, and their AUROC."""
        both = known & ~np.isnan(given)
        values, bad, own = turned(given[both]), ~is_good[both], None if kinds is None else kinds[both]
        flagged = values < turned(threshold) - _SLACK
        return agreement(flagged, bad, groups=own), auroc(values, bad, groups=own)

    at_default, area = verdicts(scores, usual)
    gain = threshold_gain(turned(scores[known]), ~is_good[known], turned(usual), groups=of_known)
    gain = gain and replace(gain, chosen=round(turned(gain.chosen), 12))
    beside = [(name, given, usual) for name, given in _panel_scores(report, chosen).items()]
    beside += [_other_judge(other, results, chosen, usual) for other in others]
    return replace(
        found,
        at_default=at_default,
        at_chosen=verdicts(scores, gain.chosen)[0] if gain else None,
        gain=gain,
        auroc=area,
        beside=tuple(OtherVerdicts(name, *verdicts(given, threshold)) for name, given, threshold in beside),
    )


def _default(results: Evaluation, key: str, default: float | None) -> float:
    if default is not None:
        return default
    thresholds = results.description.get("thresholds") or {}
    return float(thresholds.get(key, _DEFAULT)) if isinstance(thresholds, dict) else _DEFAULT


def _other_judge(other: Source, results: Evaluation, key: str, default: float) -> tuple[str, Values, float]:
    """The name, scores and threshold of another evaluation of the same rows, matched by id."""
    found = results_of(other)
    if key not in found.keys:
        raise InvalidDataError(f"{found.name} has no metric {key}; use one of {', '.join(found.keys) or 'none'}")
    scores = dict(zip(map(str, found.table["id"]), numbers_of(measured(found, key)), strict=True))
    given = np.array([scores.get(str(name), np.nan) for name in results.table["id"]])
    if np.isnan(given).all():
        raise InvalidDataError(f"{found.name} and {results.name} have no scored row in common, by id")
    usual = _default(found, key, None) if "thresholds" in found.description else default
    return _judge_of(found) or found.name, given, usual


def _judge_of(results: Evaluation) -> str:
    """Return the names of the judges; empty if unknown."""
    names = results.description.get("judge") or ()
    return ", ".join([names] if isinstance(names, str) else map(str, names))


def _panel_scores(source: Any, key: str) -> dict[str, Values]:
    """Return each panel judge's scores by row; empty for a single judge, or if only tables exist."""
    if not isinstance(source, Report):
        return {}
    given = [row.scores[key].model_scores or {} if key in row.scores else {} for row in source.rows]
    names = list(dict.fromkeys(name for scores in given for name in scores))
    scores = {name: np.array([scores.get(name) for scores in given], dtype=float) for name in names}
    return scores if len(names) > 1 else {}


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
