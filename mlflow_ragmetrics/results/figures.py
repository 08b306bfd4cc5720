"""The figures of an evaluation, counted row by row: of all rows, of slices, and of several judges."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from mlflow_ragmetrics.core.score import DOUBTS, Better, Sample, Score, score_of
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidFieldError, InvalidOptionError
from mlflow_ragmetrics.metrics.documents import RetrievalCounts
from mlflow_ragmetrics.results.marks import Failures, Ranking
from mlflow_ragmetrics.results.tables import judge_slugs, panel_of
from mlflow_ragmetrics.rows.data import groups_of, question_id_field
from mlflow_ragmetrics.rows.trace_records import SESSION
from mlflow_ragmetrics.statistics.agreement import krippendorff_alpha
from mlflow_ragmetrics.statistics.intervals import (
    FEW_GROUPS,
    MANY_ROWS,
    Matrix,
    Vector,
    bootstrap_intervals,
    clusters_of,
)
from mlflow_ragmetrics.statistics.significance import equal_columns, holm, welch_tests
from mlflow_ragmetrics.text.messages import counted, percent
from mlflow_ragmetrics.text.non_answers import gives_no_answer

if TYPE_CHECKING:
    import pandas as pd


TOLERATED = 0.05
"""The largest share of failed rows in a complete evaluation."""

_DOUBTS = frozenset(DOUBTS.values())
_STATUS_COUNTS = {"ok": "n_scored", "skipped": "n_skipped", "error": "n_error"}


class Totals:
    """The values and counts behind the figures of an evaluation, added row by row; 8 bytes per score."""

    def __init__(self, rows: Iterable[Row] = (), keys: Iterable[str] = ()) -> None:
        self.rows = 0
        self.non_answers = 0
        self.kept_all = True  # whether the report has all rows of these totals
        self.failures = Failures()
        self._metrics = {key: _MetricTotals() for key in keys}
        self._retrieval = RetrievalCounts()
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Add a row."""
        self.failures.add(row)
        self.non_answers += gives_no_answer(row.sample.answer)
        self._retrieval.add(row.scores)
        for key, score in row.scores.items():
            if key not in self._metrics:
                self._metrics[key] = _MetricTotals()
            self._metrics[key].add(score, self.rows)
        self.rows += 1

    @property
    def partial(self) -> str | None:
        """The number of rows with a failed score in words, if more than 5 %; else ``None``."""
        failed = self.failures.rows
        return f"{failed} of {counted(self.rows, 'row')} failed" if failed > TOLERATED * self.rows else None

    @property
    def keys(self) -> list[str]:
        """The keys of the scores, in order of appearance."""
        return list(self._metrics)

    @property
    def better(self) -> dict[str, Better]:
        """Keys whose higher values are not better: ``False`` if lower is better, ``None`` if neither direction is."""
        return {key: totals.better for key, totals in self._metrics.items() if totals.better is not True}

    @property
    def composites(self) -> list[str]:
        """The keys of the weighted composites."""
        return [key for key, totals in self._metrics.items() if totals.is_composite]

    @property
    def equal(self) -> list[list[str]]:
        """Groups of keys with equal values in every row; each key has at least two measured rows."""
        keys = [key for key, totals in self._metrics.items() if totals.counts["n_measured"] > 1]
        together: dict[int, list[str]] = {}
        for key, first in zip(keys, equal_columns([self._metrics[key].column(self.rows) for key in keys]), strict=True):
            together.setdefault(first, []).append(key)
        return [equals for equals in together.values() if len(equals) > 1]

    @property
    def ranking(self) -> Ranking:
        """The order of the worst rows."""
        composite = next((key for key in self.composites if self._metrics[key].counts["n_measured"]), None)
        keys = sorted(self.keys, key=lambda key: key not in self.composites)
        return Ranking(keys, self.better, composite)

    @property
    def matrix(self) -> Matrix:
        """The values, rows × keys; NaN: none."""
        return np.array([totals.column(self.rows) for totals in self._metrics.values()]).T

    def figures(
        self, groups: Sequence[object] | None = None, ranges: Mapping[str, tuple[float, float]] | None = None
    ) -> dict[str, float]:
        """``<key>/mean``, ``<key>/n_scored``, … of each key.

        ``groups``: the group of each row. ``ranges``: the lowest and highest value of each key (default 0 and 1).
        """
        figures: dict[str, float] = {}
        columns = {key: totals.column(self.rows) for key, totals in self._metrics.items()}
        # metrics share resamples; of many rows there are none, and one metric at a time saves memory
        parts = [[key] for key in columns] if self.rows > MANY_ROWS else [list(columns)]
        for keys in parts:
            ends = [(ranges or {}).get(key, (0.0, 1.0)) for key in keys]
            intervals = bootstrap_intervals([columns[key] for key in keys], groups=groups, ranges=ends)
            for key, interval in zip(keys, intervals, strict=True):
                values = columns[key][~np.isnan(columns[key])]
                numbers = {"mean": math.fsum(values) / values.size} if values.size else {}
                numbers |= {} if interval is None else {"ci_low": interval[0], "ci_high": interval[1]}
                sample = None if groups is None else clusters_of(columns[key], groups)
                if sample is not None:
                    numbers |= {"n_groups": sample.groups}
                    numbers |= {} if sample.design_effect is None else {"design_effect": sample.design_effect}
                    numbers |= {"few_groups": 1} if sample.few_groups else {}
                numbers |= self._metrics[key].figures()
                scaled = {f"{key}_1to5/mean": numbers.pop("1to5")} if "1to5" in numbers else {}
                figures |= {f"{key}/{name}": float(value) for name, value in numbers.items()} | scaled
        figures |= {"n_non_answers": float(self.non_answers)} if self.non_answers else {}
        return figures | self._retrieval.figures(figures)


class _MetricTotals:
    """The values of one metric (NaN: none), and the counts of its scores."""

    def __init__(self) -> None:
        self.better: Better
        self.values = array("d")
        self.counts: Counter[str] = Counter()
        self.sums: dict[str, tuple[float, int]] = {}
        self.is_composite = False
        self.coverages: Counter[float] = Counter()

    def add(self, score: Score, row: int) -> None:
        counts, details, value = self.counts, score.details, score.measurement
        self.better = score.higher_is_better
        self._fill(row)
        self.values.append(math.nan if value is None else value)
        counts[_STATUS_COUNTS[score.status or "skipped"]] += 1
        if "no_context" in details:
            counts["n_no_context"] += bool(details["no_context"])
        for mark in score.marks:
            if mark in _DOUBTS:
                counts[mark] += 1
        if "unquoted" in details:
            counts["n_unquoted"] += 1
        if "under_none" in details:
            none, sentences = self.sums.get("under_none", (0.0, 0))
            self.sums["under_none"] = none + details["under_none"], sentences + details["sentences"]
        self.is_composite |= "coverage" in details
        if value is None:
            return
        counts["n_measured"] += 1
        if score.scaled is not None:
            self._average("1to5", score.scaled)
        if "coverage" in details:
            self._average("coverage", details["coverage"])
            self.coverages[round(details["coverage"], 9)] += 1
        if score.passed is not None:
            self._average("pass_rate", score.passed)

    def _average(self, name: str, number: float) -> None:
        total, count = self.sums.get(name, (0.0, 0))
        self.sums[name] = total + number, count + 1

    def _fill(self, rows: int) -> None:
        if len(self.values) < rows:
            self.values.extend([math.nan] * (rows - len(self.values)))

    def column(self, rows: int) -> Vector:
        """A value for each of the ``rows``."""
        self._fill(rows)
        return np.frombuffer(self.values, dtype=float)

    def figures(self) -> dict[str, float]:
        """The counts and averages."""
        counts = dict.fromkeys((*_STATUS_COUNTS.values(), "n_measured"), 0) | self.counts
        partial = self.coverages.total() - self.coverages[max(self.coverages, default=0.0)]
        counts |= {"n_partial": partial} if partial else {}
        return counts | {name: total / count for name, (total, count) in self.sums.items()}


_WORTH_A_WARNING = 1.1


def summarize(scores: Sequence[Score | float | None], *, groups: Sequence[object] | None = None) -> dict[str, float]:
    """The figures of one metric over its rows.

    Always: ``n_scored``, ``n_skipped``, ``n_error`` and ``n_measured`` (scored rows whose value was not set by a rule;
    see ``Score.measured``). Over the measured rows: ``mean`` (with one row or more), ``ci_low`` and ``ci_high`` (95 %,
    with two or more, see ``statistics.intervals``), and ``pass_rate`` if there is a threshold.
    ``n_no_context`` if the metric reads contexts. If not 0: ``n_unclaimed``, ``n_unquoted`` and ``n_assumed``, the rows
    with sentences that no claim covers, with supported claims without a quote, and with contexts that the model may not
    have seen. ``under_none``: the share of the answers' sentences that a chat judge says make no claim. For a
    composite: the mean ``coverage``, and ``n_partial``, the rows with less coverage than others.
    ``scores`` may be numbers; ``None`` and NaN count as skipped. No figure is NaN.

    ``groups``: one name per row; related rows, such as turns of one conversation, share a name. The interval is then
    over groups, and there are also ``n_groups``, ``design_effect`` (the factor by which groups increase the variance of
    the mean) and, with fewer than ten effective groups, ``few_groups``. Raises ``InvalidFieldError`` unless ``scores``
    is a list, ``InvalidOptionError`` if ``groups`` and ``scores`` differ in length.
    """
    if not isinstance(scores, Iterable) or isinstance(scores, (str, bytes, Mapping)):
        raise InvalidFieldError("summarize needs a list of scores or numbers", field="scores")
    as_scores = [score_of(score) for score in scores]
    if groups is not None and len(groups) != len(as_scores):
        message = f"groups has length {len(groups)}, not {len(as_scores)}; give one name per row"
        raise InvalidOptionError(message, param="groups")
    totals = Totals(keys=[""])
    for score in as_scores:
        totals.add(Row(Sample(), {"": score}))
    return {name.removeprefix("/"): value for name, value in totals.figures(groups).items()}


def grouping_of(rows: Sequence[Row], totals: Totals, groups: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The field that groups the rows (default: the conversation of traces, or a shared question id), and warnings.

    The field is ``None`` if there is none. A warning reports a named field that is missing, or similar rows with
    repeated questions.
    """
    samples = [row.sample for row in rows]
    if groups is None and any(SESSION in sample.metadata for sample in samples):
        groups = SESSION
    groups = groups or question_id_field(samples)
    if groups is not None:
        try:
            groups_of(samples, groups)
        except InvalidOptionError as error:
            return None, (f"{error}; the intervals treat the rows as independent",)
        return groups, ()
    warning = repeated_questions([sample.question for sample in samples], totals.keys, totals.matrix)
    return None, () if warning is None else (warning,)


def repeated_questions(questions: Sequence[str | None], keys: Sequence[str], values: Matrix) -> str | None:
    """A warning if rows with the same question resemble each other; ``None`` if the design effect is at most 1.1.

    ``values``: rows × ``keys`` (NaN: none).
    """
    names = [f"\0row {row}" if question is None else question for row, question in enumerate(questions)]
    repeated = [count for count in Counter(names).values() if count > 1]
    if not repeated or not values.size:
        return None
    samples = ((clusters_of(column, names), key) for column, key in zip(values.T, keys, strict=True))
    effect, key = max(((sample and sample.design_effect) or 0.0, key) for sample, key in samples)
    if effect <= _WORTH_A_WARNING:
        return None
    return (
        f"{sum(repeated)} of {len(names)} rows share their question with others and resemble each other: the "
        f"variance of {key} is {effect:.1f} times that of independent rows (its design effect), so the intervals are "
        f'too narrow; set groups="question"'
    )


def panel_figures(rows: Sequence[Mapping[str, Score]]) -> dict[str, float]:
    """For each key that several judges scored: ``<key>/judge/<slug>/mean`` and ``/n_scored``, ``<key>/n_fewer_judges``.

    ``<key>/judges_alpha``: Krippendorff's α over the rows that at least two judges scored.
    ``<key>/judges_within_tolerance``: the share of these rows whose scores are all within the tolerance.
    """
    figures: dict[str, float] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        scores = [row[key] for row in rows if key in row and _is_panel_score(row[key])]
        slugs = judge_slugs(chain.from_iterable(map(panel_of, scores)))
        for name, slug in slugs.items():
            values = [score.model_scores[name] for score in scores if name in score.model_scores]
            figures |= {f"{key}/judge/{slug}/mean": fmean(values)} if values else {}
            figures[f"{key}/judge/{slug}/n_scored"] = float(len(values))
        panel_scores = [score for score in scores if "judges_asked" in score.details]
        if panel_scores:
            fewer = [score for score in panel_scores if len(score.model_scores) < score.details["judges_asked"]]
            figures[f"{key}/n_fewer_judges"] = float(len(fewer))
        if together := [score for score in panel_scores if len(score.model_scores) > 1]:
            matrix = [[score.model_scores.get(name, math.nan) for name in slugs] for score in together]
            alpha = krippendorff_alpha(np.array(matrix))
            figures |= {} if alpha is None else {f"{key}/judges_alpha": alpha}
            figures[f"{key}/judges_within_tolerance"] = fmean(score.details["within_tolerance"] for score in together)
    return figures


def _is_panel_score(score: Score) -> bool:
    """Whether the panel's figures count the score: judges gave it, or failed to."""
    return score.measured or score.value is None or "judges_missing" in score.details


def panel_warnings(rows: Sequence[Row]) -> tuple[str, ...]:
    """One warning per judge that failed on rows that another judge scored, with the first cause."""
    by_judge: dict[str, tuple[set[int], dict[str, None], str]] = {}
    for number, row in enumerate(rows):
        for key, score in row.scores.items():
            for code, text in score.warnings:
                if code.startswith("judge_failed:"):
                    on, keys, _ = by_judge.setdefault(code.removeprefix("judge_failed:"), (set(), {}, str(text)))
                    on.add(number)
                    keys.setdefault(key)
    return tuple(
        f"{name} did not judge {len(on)} of {counted(len(rows), 'row')} ({', '.join(keys)}); rows that fewer than "
        f"min_judges (default: all) judged are not measured; {text}"
        for name, (on, keys, text) in by_judge.items()
    )


def agreement_lines(keys: Sequence[str], figures: Mapping[str, float]) -> list[str]:
    """The agreement of the judges, one line per metric that several judges scored."""
    lines = []
    for key in keys:
        within = figures.get(f"{key}/judges_within_tolerance")
        if within is not None:
            alpha = figures.get(f"{key}/judges_alpha")
            measured = "" if alpha is None else f"Krippendorff's alpha {alpha:.2f}, "
            lines.append(f"Agreement of the judges on {key}: {measured}{percent(within)} of rows within the tolerance")
        elif f"{key}/n_fewer_judges" in figures:
            lines.append(f"Agreement of the judges on {key}: unknown (no row has scores of two judges)")
    return lines


def slices_frame(
    rows: Sequence[Row],
    totals: Totals,
    slices: Sequence[Union[str, None]],
    groups: Sequence[str] | None,
    ranges: Mapping[str, tuple[float, float]],
) -> pd.DataFrame:
    """One row per slice and metric, see ``Report.by``; ``totals`` and ``ranges`` are those of all rows."""
    import pandas as pd

    records: list[dict[str, Any]] = []
    p_values: list[Union[float, None]] = []
    for name in sorted({name for name in slices if name is not None}):
        inside = np.array([label == name for label in slices])
        places = [int(place) for place in np.flatnonzero(inside)]
        slice_totals = Totals((rows[place] for place in places), totals.keys)
        figures = slice_totals.figures(None if groups is None else [groups[place] for place in places], ranges)
        p_values += welch_tests(totals.matrix, inside, None if groups is None else np.asarray(groups))
        for key in totals.keys:
            scored, measured = (int(figures[f"{key}/{count}"]) for count in ("n_scored", "n_measured"))
            marks = ["few groups"] if f"{key}/few_groups" in figures else []
            marks += ["few rows"] if groups is None and measured < FEW_GROUPS else []
            marks += [f"{measured} measured"] if measured < scored else []
            known = {figure: figures.get(f"{key}/{figure}") for figure in ("mean", "ci_low", "ci_high")}
            records.append({"slice": name, "metric": key, "rows": scored, **known, "mark": ", ".join(marks)})
    for record, p in zip(records, holm(p_values), strict=True):
        record["p_holm"] = p
    columns = ["slice", "metric", "rows", "mean", "ci_low", "ci_high", "p_holm", "mark"]
    return pd.DataFrame(records, columns=columns).astype(dict.fromkeys(columns[3:7], "Float64"))
