"""A run's figures: means with intervals and counts over the rows of one evaluation, and what several judges add."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from mlflow_ragmetrics.core.score import Score, score_of
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidFieldError, InvalidOptionError
from mlflow_ragmetrics.report.tables import judge_slugs
from mlflow_ragmetrics.report.totals import Totals
from mlflow_ragmetrics.rows.groups import SESSION, sample_groups
from mlflow_ragmetrics.statistics.agreement import krippendorff_alpha
from mlflow_ragmetrics.statistics.groups import describe_groups
from mlflow_ragmetrics.statistics.resampling import Matrix

_WORTH_A_WARNING = 1.1


def summarize(scores: Sequence[Score | float | None], *, groups: Sequence[object] | None = None) -> dict[str, float]:
    """The figures of one metric over its rows.

    Always ``n_scored``, ``n_skipped``, ``n_error`` and ``n_measured`` (the scored rows except those whose value comes
    from a rule; see ``Score.measured``). With at least one measured row ``mean``, with two ``ci_low`` and ``ci_high``
    (95 %, see ``statistics.intervals``), and ``pass_rate`` if there is a threshold, all over the measured rows.
    ``n_no_context`` if the metric reads contexts. If not 0, ``n_unclaimed``, ``n_unquoted`` and ``n_assumed``: rows
    with sentences that no claim covers, with quotes that are not in the passages, and with contexts that the model may
    not have seen. For a composite the mean ``coverage``, and ``n_partial``: rows with a smaller coverage than others.
    Numbers may be given in place of scores; ``None`` and NaN count as skipped. Nothing is ever NaN.

    ``groups``: a name for each row that rows which belong together share, such as turns of one conversation; the
    interval then is that of ``statistics.intervals``, and ``n_groups``, ``design_effect`` (how many times larger the
    mean's variance is for the groups) and, with fewer than ten effective groups, the mark ``few_groups`` stand beside
    it. ``InvalidFieldError`` for anything but a list, ``InvalidOptionError`` where groups and rows differ in number.
    """
    if not isinstance(scores, Iterable) or isinstance(scores, (str, bytes, Mapping)):
        raise InvalidFieldError("summarize needs a list of scores or numbers", field="scores")
    found = [score_of(score) for score in scores]
    if groups is not None and len(groups) != len(found):
        message = f"groups: {len(groups)} names for {len(found)} rows; give one per row"
        raise InvalidOptionError(message, param="groups")
    totals = Totals(keys=[""])
    for score in found:
        totals.add_scores({"": score})
    return {name.removeprefix("/"): value for name, value in totals.figures(groups).items()}


def grouping_of(rows: Sequence[Row], totals: Totals, groups: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The field that says which rows belong together, by default the conversation of traces, and warnings.

    ``None`` where there is none; a warning says so where ``groups`` was named, or where repeated questions make rows
    alike.
    """
    samples = [row.sample for row in rows]
    if groups is None and any(SESSION in sample.metadata for sample in samples):
        groups = SESSION
    if groups is not None:
        try:
            sample_groups(samples, groups)
        except InvalidOptionError as error:
            return None, (f"{error}; the intervals take the rows as independent",)
        return groups, ()
    warning = repeated_questions([sample.question for sample in samples], totals.keys, totals.matrix)
    return None, () if warning is None else (warning,)


def repeated_questions(questions: Sequence[str | None], keys: Sequence[str], values: Matrix) -> str | None:
    """A warning where rows ask the same question and resemble each other for it, so that they count for fewer.

    ``values`` are rows × ``keys``, NaN where there is none. ``None`` where the design effect is at most 1.1.
    """
    names = [f"\0row {row}" if question is None else question for row, question in enumerate(questions)]
    repeated = [count for count in Counter(names).values() if count > 1]
    if not repeated or not values.size:
        return None
    groupings = zip(describe_groups(values, names), keys, strict=True)
    effect, key = max((grouping.design_effect or 0.0, key) for grouping, key in groupings)
    if effect <= _WORTH_A_WARNING:
        return None
    return (
        f"{sum(repeated)} of {len(names)} rows share their question with others and resemble each other for it: the "
        f"variance of {key} is {effect:.1f} times that of independent rows (its design effect), which the intervals do "
        f'not show; groups="question" makes them show it'
    )


def panel_figures(rows: Sequence[Mapping[str, Score]]) -> dict[str, float]:
    """For each key that several judges scored: ``<key>/judge/<slug>/mean`` and ``/n_scored``, ``<key>/n_fewer_judges``.

    ``<key>/judges_alpha`` is Krippendorff's α over the rows that at least two judges scored, and
    ``<key>/judges_within_tolerance`` the share of these rows on which all lie within the tolerance.
    """
    figures: dict[str, float] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        scores = [row[key] for row in rows if key in row and (row[key].measured or row[key].value is None)]
        slugs = judge_slugs(scores)
        if not slugs:
            continue
        for name, slug in slugs.items():
            values = [score.model_scores[name] for score in scores if name in score.model_scores]
            figures |= {f"{key}/judge/{slug}/mean": fmean(values)} if values else {}
            figures[f"{key}/judge/{slug}/n_scored"] = float(len(values))
        asked = [score for score in scores if "judges_asked" in score.details]
        fewer = [score for score in asked if len(score.model_scores) < score.details["judges_asked"]]
        figures[f"{key}/n_fewer_judges"] = float(len(fewer))
        together = [score for score in asked if len(score.model_scores) > 1]
        matrix = [[score.model_scores.get(name, math.nan) for name in slugs] for score in together]
        alpha = krippendorff_alpha(np.array(matrix)) if matrix else None
        figures |= {} if alpha is None else {f"{key}/judges_alpha": alpha}
        if together:
            shares = [float(score.details["within_tolerance"]) for score in together]
            figures[f"{key}/judges_within_tolerance"] = fmean(shares)
    return figures


def panel_warnings(rows: Sequence[Row]) -> tuple[str, ...]:
    """One warning per judge that did not judge all rows that another did, with the first cause."""
    found: dict[str, tuple[set[int], dict[str, None], str]] = {}
    for number, row in enumerate(rows):
        for key, score in row.scores.items():
            for code, text in score.warnings:
                if code.startswith("judge_failed:"):
                    on, keys, _ = found.setdefault(code.removeprefix("judge_failed:"), (set(), {}, str(text)))
                    on.add(number)
                    keys.setdefault(key)
    return tuple(
        f"{name} did not judge {len(on)} of {len(rows)} rows ({', '.join(keys)}), which have the scores of the other "
        f"judges only; {text}"
        for name, (on, keys, text) in found.items()
    )


def agreement_lines(keys: Sequence[str], figures: Mapping[str, float]) -> list[str]:
    """How far the judges agree, one line per metric that several scored."""
    lines = []
    for key in keys:
        within = figures.get(f"{key}/judges_within_tolerance")
        if within is not None:
            alpha = figures.get(f"{key}/judges_alpha")
            measured = "" if alpha is None else f"Krippendorff's alpha {alpha:.2f}, "
            lines.append(f"The judges' agreement on {key}: {measured}{within:.0%} of rows within the tolerance")
        elif f"{key}/n_fewer_judges" in figures:
            lines.append(f"No row has the scores of two judges on {key}: their agreement is unknown")
    return lines
