"""Several judges' scores of one metric into one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

from mlflow_ragmetrics.core.language import say
from mlflow_ragmetrics.core.options import Aggregate, Settings, check_options
from mlflow_ragmetrics.core.score import Score, score_of
from mlflow_ragmetrics.errors import (
    AllJudgesFailedError,
    InvalidOptionError,
    JudgeError,
    NoConsensusError,
)

__all__ = ["aggregate", "agreement", "check_aggregate", "merge_judges"]


def aggregate(values: Sequence[float], how: Aggregate = "mean", tolerance: float = 0.1) -> float:
    """One number out of several judges' scores.

    ``majority`` is 1.0 when more than half of the values are at least 0.5, else 0.0; ``consensus`` is the mean when
    max − min is within ``tolerance``, else a ``NoConsensusError``. No values: ``AllJudgesFailedError``. Another
    ``how``, or a tolerance below zero: ``InvalidOptionError``.

    >>> aggregate([0.2, 0.4, 0.9], "median")
    0.4
    """
    how, tolerance = check_aggregate(how, tolerance)
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)):
        raise InvalidOptionError("aggregate needs a list of scores", param="values")
    numbers = [score.value for score in map(score_of, values) if score.value is not None]
    if not numbers:
        raise AllJudgesFailedError("no judge gave a score to aggregate")
    if how == "majority":
        return 1.0 if 2 * sum(number >= 0.5 for number in numbers) > len(numbers) else 0.0
    if how == "consensus" and max(numbers) - min(numbers) > tolerance + 1e-9:
        spread = f"{min(numbers):.3f} to {max(numbers):.3f}"
        raise NoConsensusError(f"the judges' scores go from {spread}, further apart than tolerance={tolerance}")
    reductions: dict[str, Callable[[list[float]], float]] = {"median": statistics.median, "min": min, "max": max}
    return float(reductions.get(how, statistics.fmean)(numbers))


def check_aggregate(how: Aggregate, tolerance: float) -> tuple[Aggregate, float]:
    """Both, checked; ``InvalidOptionError`` for an unknown way to aggregate or a tolerance below zero."""
    checked = check_options("aggregate", Settings, {"aggregate": how, "tolerance": tolerance})
    return checked.aggregate, checked.tolerance


def agreement(values: Sequence[float]) -> float:
    """1 − the mean absolute difference over all pairs of judges, 0 to 1; 1.0 for a single judge."""
    pairs = list(combinations(values, 2))
    return 1.0 - statistics.fmean(abs(a - b) for a, b in pairs) if pairs else 1.0


def merge_judges(
    outcomes: Mapping[str, Score | JudgeError], how: Aggregate, tolerance: float, *, several: bool
) -> Score:
    """One score out of one score (or failure) per judge.

    Items, details and reason are those of the first judge that scored. A failed judge has no vote and is listed in
    ``excluded_models``. With one judge its own reply error is raised; with ``several``, ``AllJudgesFailedError``.
    """
    scores = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Score)}
    failures = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, JudgeError)}
    if not scores:
        raise _failure(failures, several)
    voted = {name: score.value for name, score in scores.items() if score.value is not None}
    if not voted:
        return next(iter(scores.values()))
    merged = scores[next(iter(voted))].changed(model_scores=voted, judge=", ".join(voted))
    if several:
        each = "; ".join(f"{name}: {value:.3f}" for name, value in voted.items())
        judges = say("judges.merged", n=len(voted), how=say(f"aggregate.{how}"), each=each)
        value = aggregate(list(voted.values()), how, tolerance)
        merged = merged.changed(value=value, reason=say("joined", first=merged.reason, second=judges))
        merged = merged.with_details(agreement=agreement(list(voted.values())), n_judges=len(voted))
    if not failures:
        return merged
    excluded = tuple((f"judge_failed:{name}", text) for name, text in zip(failures, _named(failures), strict=True))
    return merged.changed(
        excluded_models=(*merged.excluded_models, *failures),
        warnings=(*merged.warnings, *excluded),
    )


def _failure(failures: Mapping[str, JudgeError], several: bool) -> JudgeError:
    first = next(iter(failures.values()))
    if not several and type(first) is not JudgeError:
        return first
    return AllJudgesFailedError(f"no judge answered ({'; '.join(_named(failures))})")


def _named(failures: Mapping[str, JudgeError]) -> list[str]:
    texts = {name: str(failure) for name, failure in failures.items()}
    return [text if text.startswith(f"{name}:") else f"{name}: {text}" for name, text in texts.items()]
