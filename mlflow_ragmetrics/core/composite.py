"""Composite scores: weighted means of several metrics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from itertools import combinations
from typing import Annotated, Any, TypedDict, Union

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass
from typing_extensions import Unpack

from mlflow_ragmetrics.core.options import Aggregate, Share, check_aggregate, check_options, shown
from mlflow_ragmetrics.core.score import DOUBTS, Score, passes, score_of
from mlflow_ragmetrics.errors import AllJudgesFailedError, InvalidFieldError, InvalidOptionError, NoConsensusError
from mlflow_ragmetrics.text.messages import joined, render, say


def _some_weight(weights: Mapping[str, float]) -> Mapping[str, float]:
    if math.fsum(weights.values()) <= 0:
        raise ValueError("the weights sum to zero; give at least one metric a weight")
    return weights


def _identifier(name: str) -> str:
    if not name.isidentifier():
        raise ValueError("not an identifier, such as my_score")
    return name


Name = Annotated[str, AfterValidator(_identifier)]
Weights = Annotated[
    Mapping[str, Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]], AfterValidator(_some_weight)
]
"""Weights by metric key: no number is negative, and at least one is positive."""

Span = tuple[float, float]
Scores = Union[Mapping[str, Union[Score, float, None]], Iterable[Mapping[str, Any]]]


class _Options(TypedDict, total=False):
    weights: Weights
    threshold: float | None
    min_coverage: float
    key: str


class _Weighting(BaseModel):
    weights: Weights


def check_weights(name: str, weights: Weights) -> Mapping[str, float]:
    """The weights as floats; ``InvalidOptionError`` if one is negative or not finite, or if they sum to zero."""
    return check_options(name, _Weighting, {"weights": weights}).weights


def to_unit(value: float, span: Span) -> float:
    """``value`` rescaled from ``span`` to 0–1. If the span starts below zero (cosines), negative values become 0."""
    low, high = span
    return min(1.0, max(0.0, (value - max(0.0, low)) / (high - max(0.0, low))))


def combine(scores: Scores, weights: Weights | None = None) -> Score:
    """The weighted mean of the scored metrics. It passes only if every metric with a threshold passes.

    ``scores`` maps keys to a ``Score``, a number or ``None`` (NaN counts as ``None``), or is a list of mappings with
    metric, score and threshold. ``weights`` are equal by default; metrics without a weight are ignored. The weights of
    metrics without a score are redistributed: ``details["coverage"]`` is the weight of the scored metrics as a share
    of the total, ``details["skipped"]`` the number of metrics left out, ``details["scores"]`` each value. If lower is
    better for a metric, it counts as 1 − value and is listed in ``details["inverted"]``. The result is skipped if no
    metric with a positive weight has a score. ``InvalidOptionError`` for invalid weights, and for a weight on a metric
    for which neither higher nor lower is better.

    >>> combine({"a": 1.0, "b": 0.2}, {"a": 0.75, "b": 0.25}).value
    0.8
    """
    by_key = _by_key(scores)
    chosen = dict.fromkeys(by_key, 1.0) if weights is None else weights
    share = check_weights("combine", chosen) if by_key or weights is not None else {}
    values: dict[str, float] = {}
    for key, score in by_key.items():
        if score.value is None or key not in share:
            continue
        if score.quality is None and share[key] > 0:
            message = f"weight of {key}: neither a high nor a low value is better, so it cannot be weighted"
            raise InvalidOptionError(message, param="weights")
        values[key] = score.value if score.quality is None else score.quality
    inverted = [key for key in values if by_key[key].higher_is_better is False]
    present = math.fsum(share[key] for key in values)
    missing = [key for key, weight in share.items() if weight > 0 and key not in values]
    details: dict[str, Any] = {
        "scores": values,
        "skipped": len(missing),
        "coverage": present / math.fsum(share.values()) if share else 0.0,
        "weights": share,
        **({"inverted": inverted} if inverted else {}),
    }
    if present <= 0:
        return Score(status="skipped", reason=say("combine.nothing"), details=details)
    value = math.fsum(share[key] * number for key, number in values.items()) / present
    weighed = {key: f"(1 − {key})" if key in inverted else key for key in values if share[key] > 0}
    verdicts = [by_key[key].passed for key in weighed if by_key[key].passed is not None]
    parts = ", ".join(f"{named} {values[key]:.3f} × {share[key]:g}" for key, named in weighed.items())
    reason = say("combine.reason", n=len(weighed), parts=parts)
    if missing:
        reason = joined(reason, say("combine.skipped", names=", ".join(missing)))
    return Score(value=value, reason=reason, details=details, passed=all(verdicts) if verdicts else None)


def _by_key(scores: Scores) -> dict[str, Score]:
    if isinstance(scores, Mapping):
        return {_key(key): score_of(score, key) for key, score in scores.items()}
    rows = list(scores) if isinstance(scores, Iterable) else [scores]
    if not all(isinstance(row, Mapping) and "metric" in row for row in rows):
        message = "combine needs a mapping from metric keys to scores, or mappings with metric, score and threshold"
        raise InvalidFieldError(message, field="scores")
    return {_key(row["metric"]): score_of(row.get("score"), row["metric"], row.get("threshold")) for row in rows}


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise InvalidFieldError(f"metric keys must be text, not {shown(key)}", field="scores")
    return key


_OTHER = ("instead_of_answer", "other_text")
_FORMULA = """\
Formula: weighted mean of the metrics that have a score, each rescaled to 0 to 1; metrics for which lower is better
count as 1 − value. The weights are normalised. ``details["coverage"]`` is the share of the weight that has a score.
Unscored: that share is below ``min_coverage`` (default 0.5).

Options: ``weights``, ``threshold``, ``min_coverage``, ``key``, as in ``{0}(weights={1})``."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Composite:
    """A weighted composite of other metrics in a suite.

    ``name``: the composite's key. ``weights``: by metric key. ``threshold``: the lowest passing value.
    ``min_coverage``: the share of the weight that must have a score for the composite to have one.
    ``summary``: a one-sentence description. ``scaled``: also shown on a 1–5 scale, for the white-paper family.
    """

    name: Name
    weights: Weights
    scaled: bool = False
    threshold: Share | None = None
    min_coverage: Share = 0.5
    summary: str = field(default="Weighted mean of other metrics, 0 to 1.", compare=False)

    def __post_init__(self) -> None:
        """Make ``help(composite)`` show its formula and weights instead of this class's docstring."""
        object.__setattr__(self, "__doc__", f"{self.summary}\n\n{_FORMULA.format(self.name, dict(self.weights))}")

    @property
    def key(self) -> str:
        """The name of the score."""
        return self.name

    @property
    def spelling(self) -> str:
        """A Python-like expression for this composite, used to describe a suite."""
        coverage = "" if self.min_coverage == 0.5 else f", min_coverage={self.min_coverage!r}"
        return f"{self.name}(weights={dict(self.weights)!r}{coverage})"

    def __call__(self, **options: Unpack[_Options]) -> Composite:
        """The same composite with other ``weights``, or another ``threshold``, ``min_coverage`` or ``key``."""
        current = {member.name: getattr(self, member.name) for member in fields(self)}
        fixed = next((name for name in options if name in current and name not in _Options.__annotations__), None)
        if fixed is not None:
            message = f"{self.name}: no option {fixed!r}; a composite accepts {', '.join(_Options.__annotations__)}"
            raise InvalidOptionError(message, param=fixed, metric=self.name)
        name = options.pop("key", self.name)
        return check_options(self.name, Composite, {**current, **options, "name": name})

    def score(self, scores: Mapping[str, Score], spans: Mapping[str, Span], language: str = "en") -> Score:
        """The composite score of one sample; ``spans`` gives the range of each metric that is not on 0–1."""
        present = {key: scores[key] for key in self.weights if key in scores}
        # a component that scored a different text from the one in its formula is left out
        present = {key: s.changed(value=None) if s.details.get("rule") in _OTHER else s for key, s in present.items()}
        units = {
            key: s if s.value is None else s.changed(value=to_unit(s.value, spans.get(key, (0.0, 1.0))))
            for key, s in present.items()
        }
        score = self._marked(combine(units, self.weights), present, language)
        value = score.value
        return score.changed(
            scaled=1.0 + 4.0 * value if self.scaled and value is not None else None,
            threshold=self.threshold,
            passed=score.passed if self.threshold is None or value is None else passes(value, self.threshold),
            reason=render(score.reason, language),
            judge=", ".join(dict.fromkeys(member.judge for member in present.values() if member.judge)) or None,
        )

    def _marked(self, score: Score, present: Mapping[str, Score], language: str) -> Score:
        """``score``, skipped if coverage is too low; ``unmeasured`` names the components that are not measured."""
        coverage = score.details["coverage"]
        if score.value is not None and coverage < self.min_coverage - 1e-9:
            reason = say("combine.coverage", share=100 * coverage, least=100 * self.min_coverage)
            return score.changed(value=None, status="skipped", passed=None, reason=reason)
        weighed = {key: member for key, member in present.items() if self.weights[key] > 0}
        vain = [k for k, s in weighed.items() if s.status == "error" or (s.value is not None and not s.measured)]
        doubts = {code: text for member in weighed.values() for code, text in member.warnings if code in DOUBTS}
        score = score.changed(warnings=(*score.warnings, *doubts.items())) if doubts else score
        if not vain:
            return score
        return score.with_details(unmeasured=render(say("unmeasured.components", names=", ".join(vain)), language))


def composite(name: str, weights: Weights, *, threshold: float | None = None, min_coverage: float = 0.5) -> Composite:
    """A composite metric ``name`` of the metrics in ``weights``, passed at ``threshold`` or higher.

    It has no score if less than ``min_coverage`` of the weight has one. ``InvalidOptionError`` if the name is not an
    identifier, or if a weight, the threshold or the coverage is invalid.

    >>> composite("overall", {"faithfulness": 2, "rouge1_f1": 1}).key
    'overall'
    """
    options = {"name": name, "weights": weights, "threshold": threshold, "min_coverage": min_coverage}
    return check_options("composite", Composite, options)


def aggregate(values: Sequence[float], how: Aggregate = "mean", tolerance: float = 0.1) -> float:
    """Combine several judges' scores into one number.

    ``majority`` is 1.0 if more than half of the values are at least 0.5, else 0.0. ``consensus`` is the mean if the
    values differ by at most ``tolerance``, else a ``NoConsensusError``. Raises ``AllJudgesFailedError`` if there are no
    values, and ``InvalidOptionError`` for an unknown ``how`` or a negative tolerance.

    >>> aggregate([0.2, 0.4, 0.9], "median")
    0.4
    """
    how, tolerance = check_aggregate(how, tolerance)
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)):
        raise InvalidOptionError("aggregate needs a list of scores", param="values")
    numbers = [score.value for score in map(score_of, values) if score.value is not None]
    if not numbers:
        raise AllJudgesFailedError("no judge returned a score")
    if how == "majority":
        return 1.0 if 2 * sum(number >= 0.5 for number in numbers) > len(numbers) else 0.0
    if how == "consensus" and max(numbers) - min(numbers) > tolerance + 1e-9:
        spread = f"{min(numbers):.3f} to {max(numbers):.3f}"
        raise NoConsensusError(f"the judges' scores range from {spread}, a wider gap than tolerance={tolerance}")
    reductions: dict[str, Callable[[list[float]], float]] = {"median": statistics.median, "min": min, "max": max}
    return float(reductions.get(how, statistics.fmean)(numbers))


def agreement(values: Sequence[float]) -> float:
    """1 − the mean absolute difference over all pairs of judges, 0 to 1; 1.0 for a single judge."""
    pairs = list(combinations(values, 2))
    return 1.0 - statistics.fmean(abs(a - b) for a, b in pairs) if pairs else 1.0
