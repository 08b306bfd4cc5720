"""``compare``: builds a ``Comparison`` from two evaluations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any, overload

import numpy as np

from mlflow_ragmetrics.comparison.changes import changed_rows
from mlflow_ragmetrics.comparison.difference import TOLERANCE, adjust, shared_keys
from mlflow_ragmetrics.comparison.preference import preference_of, preference_suite
from mlflow_ragmetrics.comparison.result import Comparison
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.judges.resolve import JudgeLike
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.figures import repeated_questions
from mlflow_ragmetrics.results.pairing import check_alike, like_with_like, pair
from mlflow_ragmetrics.results.results import Source, results_groups, results_of
from mlflow_ragmetrics.rows.data import Groups
from mlflow_ragmetrics.suite import Suite


@overload
def compare(run_a: Source, run_b: Source, **options: Any) -> Comparison: ...


@overload
def compare(run_a: Source, run_b: list[Any] | tuple[Any, ...], **options: Any) -> list[Comparison]: ...


def compare(  # type: ignore[misc]  # the overloads only tell the results apart
    run_a: Source,
    run_b: Source | list[Any] | tuple[Any, ...],
    *,
    tolerance: float = TOLERANCE,
    allow_different: bool = False,
    resamples: int = 10_000,
    rows: int = 10,
    groups: Groups | None = None,
    preference: JudgeLike | Sequence[JudgeLike] | Suite | None = None,
    rubric: str | None = None,
) -> Comparison | list[Comparison]:
    """Compare B with A: a paired difference (B minus A) with interval, test and verdict for each metric.

    ``run_a`` and ``run_b``: reports, MLflow runs by id or name, or files written by ``ragmetrics evaluate --output``.
    ``run_b`` may be a list of candidates: each is compared with A, and p-values are adjusted over candidates and
    metrics, since otherwise one of several equal candidates easily looks better.
    ``tolerance``: the largest difference of means that does not matter (0.05 is a fifth of a grade on a 1–5 scale).
    ``resamples``: of the bootstrap and of the permutation test. ``rows``: number of most changed rows to
    keep. ``groups``: a column of A's data, or one name per row; related rows share a name. Default: the groups that A
    was evaluated with, else the conversations of its traces. Scores that were not measured (set by the rule for rows
    without context or claims) are left out; ``Difference`` counts them.
    ``preference``: a judge that chooses the better answer of each row, in both orders, with two calls per row
    (``Preference``). Several judges decide by majority; a suite supplies its judges, cache and limits. ``rubric``: a
    text that defines "better" (default: correct, supported, complete, to the point).
    Rows with another question, rows with another reference for a metric that reads it, and rows that a composite
    measured from other members are not compared; beyond 5 % of the rows there is no verdict, unless
    ``allow_different``. Raises ``InvalidOptionError`` if judge, prompts or suite differ, unless ``allow_different``;
    ``InvalidDataError`` if the runs have no row or no metric in common.
    """
    if rubric is not None and preference is None:
        raise InvalidOptionError("rubric= needs preference=, the judge that reads it", param="rubric")
    if not (isinstance(tolerance, (int, float)) and 0 <= tolerance <= sys.float_info.max):
        raise InvalidOptionError(f"tolerance={shown(tolerance)} must be a number ≥ 0", param="tolerance")
    if resamples < 100:
        raise InvalidOptionError(f"resamples={resamples!r} must be 100 or more", param="resamples")
    suite = None if preference is None else preference_suite(preference, rubric)
    candidates = list(run_b) if isinstance(run_b, (list, tuple)) else [run_b]
    if not candidates:
        raise InvalidOptionError("run_b is an empty list; give at least one candidate", param="run_b")
    a = results_of(run_a, "A")
    method = {"tolerance": tolerance, "resamples": resamples, "candidates": len(candidates)}
    comparisons = [
        _compared(a, results_of(run, letter), rows, groups, allow_different, **method)
        for run, letter in zip(candidates, map(chr, count(ord("B"))), strict=False)
    ]
    if suite is not None:
        comparisons = [_with_preference(comparison, suite, rows, **method) for comparison in comparisons]
    adjusted = iter(adjust([difference for comparison in comparisons for difference in comparison.differences]))
    comparisons = [replace(each, differences=tuple(islice(adjusted, len(each.differences)))) for each in comparisons]
    preferences = [comparison.preference for comparison in comparisons if comparison.preference is not None]
    for preferred, difference in zip(preferences, adjust([each.difference for each in preferences]), strict=True):
        preferred.difference, preferred["verdict"] = difference, difference.verdict
    return comparisons if isinstance(run_b, (list, tuple)) else comparisons[0]


def _compared(
    a: Evaluation, b: Evaluation, rows: int, groups: Groups | None, allow_different: bool, **method: Any
) -> Comparison:
    """The comparison of one candidate with A, with p-values that are not adjusted yet."""
    if a.name == b.name:
        a, b = a.named(f"{a.name} (A)"), b.named(f"{b.name} (B)")
    warnings = check_alike(a, b, allow_different)
    pairing = pair(a, b)
    shared = shared_keys(a, b)
    if not shared:
        message = f"{a.name} and {b.name} have no metric in common ({', '.join(a.keys)} / {', '.join(b.keys)})"
        raise InvalidDataError(message)
    pairing = like_with_like(a, b, pairing, shared, allow_different)
    scores = {key: pairing.scores(a, b, key) for key in shared}
    named = results_groups(a, groups)
    names = None if named is None else tuple(named[row] for row in pairing.rows_a)
    questions = [question or None for question, _ in pairing.texts(a, b, "question")]
    differences = np.column_stack([after - before for before, after in scores.values()])
    warning = repeated_questions(questions, list(scores), differences) if names is None else None
    alone = sorted(set(a.keys) ^ set(b.keys))
    only_one = [f"only one side has {', '.join(alone)}"] if alone else []
    notes = (*warnings, *pairing.warnings, *only_one, *([warning] if warning else []))
    changed = changed_rows(a, b, pairing, scores, rows)
    comparison = Comparison(a, b, (), changed, pairing, notes, groups=names, **method)
    only_a, only_b = len(pairing.only_a), len(pairing.only_b)
    measured = comparison.differences_in(np.ones(len(pairing), dtype=bool), comparison.candidates)
    return replace(comparison, differences=tuple(replace(each, only_a=only_a, only_b=only_b) for each in measured))


def _with_preference(comparison: Comparison, suite: Suite, rows: int, **method: Any) -> Comparison:
    a, b, pairing, groups = comparison.a, comparison.b, comparison.pairing, comparison.groups
    preference = preference_of(a, b, pairing, suite, rows, groups=groups, **method)
    return replace(comparison, preference=preference, warnings=(*comparison.warnings, *preference.warnings))
