"""A run's figures: means with intervals and counts over the rows of one evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from statistics import fmean

from mlflow_ragmetrics.core.score import Score, score_of
from mlflow_ragmetrics.errors import InvalidFieldError
from mlflow_ragmetrics.statistics import bootstrap_intervals

__all__ = ["summarize", "summarize_rows"]


def summarize(scores: Sequence[Score | float | None]) -> dict[str, float]:
    """The figures of one metric over its rows.

    Always ``n_scored``, ``n_skipped``, ``n_error`` and ``n_measured`` (the scored rows but for those that the rule for
    rows without context or claims scored; see ``Score.measured``); with at least one score ``mean``, with two
    ``ci_low`` and ``ci_high`` (95 %, see ``statistics.intervals``); ``pass_rate`` over the scored rows where there is a
    threshold; ``n_no_context`` where the metric looks at contexts; ``n_unclaimed`` and ``n_unquoted``, rows with
    sentences that no claim covers and rows with quotes that are not in the passages, where there are any; ``coverage``
    (mean) for a composite. Numbers may be given in place of scores; ``None`` and NaN count as skipped. Nothing is ever
    NaN. ``InvalidFieldError`` for anything but a list.
    """
    if not isinstance(scores, Iterable) or isinstance(scores, (str, bytes, Mapping)):
        raise InvalidFieldError("summarize needs a list of scores or numbers", field="scores")
    return _figures([[score_of(score) for score in scores]])[0]


def summarize_rows(rows: Sequence[Mapping[str, Score]]) -> dict[str, float]:
    """All run metrics of an evaluation: ``<key>/mean`` and the rest of ``summarize`` for each key of the rows.

    The white-paper family has ``<key>_1to5/mean`` as well.
    """
    keys = list(dict.fromkeys(key for row in rows for key in row))
    columns = [[row[key] for row in rows if key in row] for key in keys]
    figures: dict[str, float] = {}
    for key, scores, own in zip(keys, columns, _figures(columns), strict=True):
        figures |= {f"{key}/{name}": float(value) for name, value in own.items()}
        scaled = [score.scaled for score in scores if score.scaled is not None]
        if scaled:
            figures[f"{key}_1to5/mean"] = fmean(scaled)
    return figures


def _figures(columns: Sequence[Sequence[Score]]) -> list[dict[str, float]]:
    values = [[score.value for score in scores if score.value is not None] for scores in columns]
    intervals = bootstrap_intervals(values)
    return [
        {**_mean(numbers, interval), **_counts(scores)}
        for scores, numbers, interval in zip(columns, values, intervals, strict=True)
    ]


def _mean(values: Sequence[float], interval: tuple[float, float] | None) -> dict[str, float]:
    limits = {} if interval is None else {"ci_low": interval[0], "ci_high": interval[1]}
    return {"mean": fmean(values), **limits} if values else {}


_OF_WARNING = {"n_unclaimed": "claims_missing", "n_unquoted": "quote_not_found"}


def _counts(scores: Sequence[Score]) -> dict[str, float]:
    of_status = Counter(map(attrgetter("status"), scores))
    names = {"n_scored": "ok", "n_skipped": "skipped", "n_error": "error"}
    figures: dict[str, float] = {name: of_status[status] for name, status in names.items()}
    figures["n_measured"] = sum(score.measured for score in scores)
    verdicts = [score.passed for score in scores if score.value is not None and score.passed is not None]
    if verdicts:
        figures["pass_rate"] = fmean(verdicts)
    without_context = [score.details["no_context"] for score in scores if "no_context" in score.details]
    if without_context:
        figures["n_no_context"] = sum(map(bool, without_context))
    codes = Counter(code for score in scores for code in {code for code, _ in score.warnings})
    figures |= {name: codes[code] for name, code in _OF_WARNING.items() if codes[code]}
    coverages = [score.details["coverage"] for score in scores if "coverage" in score.details]
    if coverages:
        figures["coverage"] = fmean(coverages)
    return figures
