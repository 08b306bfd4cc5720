"""A run's figures: means with intervals and counts over the rows of one evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.statistics import bootstrap_interval

__all__ = ["summarize", "summarize_rows"]


def summarize(scores: Sequence[Score | float | None]) -> dict[str, float]:
    """The figures of one metric over its rows.

    Always ``n_scored``, ``n_skipped`` and ``n_error``; with at least one score ``mean``, with two ``ci_low`` and
    ``ci_high`` (95 %, see ``statistics.intervals``); ``pass_rate`` over the scored rows where there is a threshold;
    ``n_no_context`` where the metric looks at contexts; ``coverage`` (mean) for a composite. Numbers may be given in
    place of scores; ``None`` and NaN count as skipped. Nothing is ever NaN.
    """
    rows = [score if isinstance(score, Score) else Score(value=score) for score in scores]
    values = [score.value for score in rows if score.value is not None]
    figures: dict[str, float] = {}
    if values:
        figures["mean"] = fmean(values)
        interval = bootstrap_interval(values)
        if interval:
            figures["ci_low"], figures["ci_high"] = interval
    for status in ("scored", "skipped", "error"):
        figures[f"n_{status}"] = sum(score.status == status.replace("scored", "ok") for score in rows)
    verdicts = [score.passed for score in rows if score.value is not None and score.passed is not None]
    if verdicts:
        figures["pass_rate"] = fmean(verdicts)
    without_context = [score.details["no_context"] for score in rows if "no_context" in score.details]
    if without_context:
        figures["n_no_context"] = sum(map(bool, without_context))
    coverages = [score.details["coverage"] for score in rows if "coverage" in score.details]
    if coverages:
        figures["coverage"] = fmean(coverages)
    return figures


def summarize_rows(rows: Sequence[Mapping[str, Score]]) -> dict[str, float]:
    """All run metrics of an evaluation: ``<key>/mean`` and the rest of ``summarize`` for each key of the rows.

    The white-paper family has ``<key>_1to5/mean`` as well.
    """
    figures: dict[str, float] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        scores = [row[key] for row in rows if key in row]
        figures |= {f"{key}/{name}": float(value) for name, value in summarize(scores).items()}
        scaled = [score.scaled for score in scores if score.scaled is not None]
        if scaled:
            figures[f"{key}_1to5/mean"] = fmean(scaled)
    return figures
