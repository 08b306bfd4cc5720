"""``compare``: from two evaluations to a ``Comparison``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mlflow_ragmetrics.comparison.changes import changed_rows
from mlflow_ragmetrics.comparison.difference import TOLERANCE, Difference, Passes, differences_of
from mlflow_ragmetrics.comparison.pairing import Pairing, check_alike, is_true, measured, pair
from mlflow_ragmetrics.comparison.result import Comparison
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.report.summary import repeated_questions
from mlflow_ragmetrics.rows.groups import Groups
from mlflow_ragmetrics.rows.results import Results, Source, results_groups, results_of


def compare(
    run_a: Source,
    run_b: Source,
    *,
    tolerance: float = TOLERANCE,
    allow_different: bool = False,
    resamples: int = 10_000,
    seed: int = 0,
    rows: int = 10,
    groups: Groups | None = None,
) -> Comparison:
    """Whether B is better than A: paired differences (B minus A) with intervals, tests and a verdict for each metric.

    ``run_a`` and ``run_b``: reports, MLflow runs by id or name, or files of ``ragmetrics evaluate --output``.
    ``tolerance``: the largest difference of a mean that does not matter (0.05 is a fifth of a grade on 1 to 5).
    ``resamples`` of the bootstrap and of the permutation test are drawn from ``seed``. ``rows``: how many of the rows
    that changed most to keep. ``groups``: a column of A's data, or a name for each of its rows, that rows which belong
    together share; by default the groups that A was evaluated with, else the conversations of its traces. Scores that
    were not measured (the rule for rows without context or claims gave them) are left out, which a warning says.
    ``InvalidOptionError`` when judge, prompts or suite differ, unless ``allow_different``; ``InvalidDataError`` when
    the two have no row or no metric in common.
    """
    _check_options(tolerance, resamples)
    a, b = _with_distinct_names(results_of(run_a, "A"), results_of(run_b, "B"))
    warnings = check_alike(a, b, allow_different)
    pairing = pair(a, b)
    scores = {key: pairing.select(measured(a, key), measured(b, key)) for key in _shared(a, b)}
    named = results_groups(a, groups)
    names = None if named is None else tuple(named[row] for row in pairing.rows_a)
    questions = _questions(a, pairing)
    differences = np.column_stack([after - before for before, after in scores.values()])
    warning = repeated_questions(questions, list(scores), differences) if names is None else None
    better = {key: side for key in scores if (side := b.better(key)) is not True}
    found = differences_of(scores, tolerance=tolerance, resamples=resamples, seed=seed, groups=names, better=better)
    alone = sorted(set(a.keys) ^ set(b.keys))
    return Comparison(
        a=a,
        b=b,
        differences=tuple(_with_passes(each, a, b, pairing) for each in found),
        rows=changed_rows(a, b, pairing, scores, rows),
        pairing=pairing,
        warnings=(
            *warnings,
            *pairing.warnings,
            *(_unmeasured(each, list(scores)) for each in (a, b) if _unmeasured(each, list(scores))),
            *([f"only one side has {', '.join(alone)}"] if alone else []),
            *([warning] if warning else []),
        ),
        tolerance=tolerance,
        resamples=resamples,
        groups=names,
        unit="rows" if None in questions or len(set(questions)) < len(questions) else "questions",
        seed=seed,
    )


def _unmeasured(results: Results, keys: Sequence[str]) -> str:
    """The warning about scores that are left out as nothing was measured; empty where there are none."""
    table = results.table
    counts = {
        key: int((table[f"{key}_status"].eq("ok") & ~is_true(table[f"{key}_measured"])).sum())
        for key in keys
        if f"{key}_measured" in table.columns
    }
    named = ", ".join(f"{key} {count}" for key, count in counts.items() if count)
    return f"rows of {results.name} that were not measured, as without context, are left out: {named}" if named else ""


def _questions(a: Results, pairing: Pairing) -> list[str | None]:
    if "question" not in a.table.columns:
        return [None] * len(pairing)
    asked = a.table["question"].tolist()
    return [asked[row] if isinstance(asked[row], str) else None for row in pairing.rows_a]


def _with_distinct_names(a: Results, b: Results) -> tuple[Results, Results]:
    if a.name != b.name:
        return a, b
    return replace(a, name=f"{a.name} (A)"), replace(b, name=f"{b.name} (B)")


def _shared(a: Results, b: Results) -> list[str]:
    keys = [key for key in a.keys if key in b.keys]
    if not keys:
        message = f"{a.name} and {b.name} have no metric in common ({', '.join(a.keys)} / {', '.join(b.keys)})"
        raise InvalidDataError(message)
    return keys


def _check_options(tolerance: float, resamples: int) -> None:
    if not (isinstance(tolerance, (int, float)) and 0 <= tolerance <= sys.float_info.max):
        raise InvalidOptionError(f"tolerance={shown(tolerance)} must be a number that is at least 0", param="tolerance")
    if resamples < 100:
        raise InvalidOptionError(f"resamples={resamples!r} must be at least 100", param="resamples")


def _with_passes(difference: Difference, a: Results, b: Results, pairing: Pairing) -> Difference:
    column = f"{difference.key}_passed"
    if column not in a.table.columns or column not in b.table.columns:
        return difference
    before, after = pairing.select(*(measured(each, difference.key, column) for each in (a, b)))
    known = ~(np.isnan(before) | np.isnan(after))
    if not known.any():
        return difference
    return replace(difference, passes=Passes.of(before[known] > 0, after[known] > 0))
