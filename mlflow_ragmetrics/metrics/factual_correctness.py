"""Does the answer agree with the reference in facts and in meaning?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationInfo

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.options import spelled
from mlflow_ragmetrics.core.question import Steps, together
from mlflow_ragmetrics.core.score import Message, Score
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.claims import correspond, to_do
from mlflow_ragmetrics.metrics.semantic_similarity import similarity
from mlflow_ragmetrics.text.messages import joined, say

Mode = Annotated[Literal["F1", "PRECISION", "RECALL"], spelled("F1", "PRECISION", "RECALL", f1score="F1")]


def _key(options: BaseModel) -> str:
    mode = str(getattr(options, "mode", "F1"))
    return "factual_correctness" if mode == "F1" else f"factual_correctness_{mode.lower()}"


@metric(key=_key, key_pattern="factual_correctness_(?P<mode>f1|precision|recall)", source="ragas")
def factual_correctness(
    answer: str,
    reference: str,
    question: str | None = None,
    history: Sequence[Message] | None = None,
    *,
    mode: Mode = "F1",
) -> Steps[Score]:
    """How far the claims of the answer and of the reference support each other.

    Formula: precision = claims of the answer that the reference supports / claims of the answer; recall = claims of
    the reference that the answer supports / claims of the reference; F1 = 2PR / (P + R). Each claim is SUPPORTED,
    CONTRADICTED or NEUTRAL, and only SUPPORTED counts; a missing or unknown verdict is NEUTRAL, with a warning. All
    modes check both directions and report both in ``details``. 0 to 1. A text without claims has a share of 0.0. If
    either text is blank, the score is 0.0 without a call. Unscored: answer or reference missing.

    Options: ``mode`` F1, PRECISION or RECALL, ignoring case (keys ``factual_correctness``, ``…_precision``,
    ``…_recall``). Source: the ragas project, Factual Correctness.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> judge = rm.ScriptedJudge(
    ...     response_claims=["Paris is a capital."],
    ...     response_verdicts=["supported"],
    ...     reference_claims=["Paris is a capital.", "It is big."],
    ...     reference_verdicts=["supported", "neutral"],
    ... )
    >>> record = {
    ...     "answer": "Paris is a capital.",
    ...     "reference": "Paris is a capital. It is big.",
    ... }
    >>> rm.score("factual_correctness", record, judge=judge, mode="recall").value
    0.5
    """
    outcome = yield from correspond(answer, reference, question, history)
    value = {"F1": outcome.f1, "PRECISION": outcome.precision, "RECALL": outcome.recall}[mode]
    counts = outcome.details
    reason = joined(
        say("factual_correctness.counts", value=value, mode=say(f"factual_correctness.{mode.lower()}"), **counts),
        to_do("not_in_reference", outcome.answer.of("NEUTRAL", "CONTRADICTED")),
        to_do("not_in_answer", outcome.reference.of("NEUTRAL", "CONTRADICTED")),
    )
    blank = not answer.strip() or not reference.strip()
    return Score(
        value=value,
        reason=say("factual_correctness.blank") if blank else reason,
        details=counts,
        warnings=outcome.warnings,
    ).with_items(outcome.made)


_PRESETS = {
    "default": (0.75, 0.25),
    "equal_weights": (0.5, 0.5),
    "factual_focused": (0.9, 0.1),
    "semantic_focused": (0.1, 0.9),
}


def _checked_weights(semantic_weight: float | None, info: ValidationInfo) -> float | None:
    weights = _weights({**info.data, "semantic_weight": semantic_weight})
    if min(weights) < 0 or not any(weights):
        message = "factual_weight and semantic_weight must be at least 0, and one of them above 0"
        raise InvalidOptionError(message, param="weights")
    return semantic_weight


def _weights(options: Mapping[str, Any]) -> tuple[float, float]:
    factual, semantic = _PRESETS[options.get("preset") or "default"]
    weights = options.get("factual_weight"), options.get("semantic_weight")
    return factual if weights[0] is None else weights[0], semantic if weights[1] is None else weights[1]


Preset = Annotated[
    Literal["default", "equal_weights", "factual_focused", "semantic_focused"],
    spelled(*_PRESETS, defaultconfig="default", equal="equal_weights"),
]
SemanticWeight = Annotated[float | None, Field(validate_default=True), AfterValidator(_checked_weights)]


@metric(asks=("judge", "embeddings"), source="ragas")
def answer_correctness(
    answer: str,
    reference: str,
    question: str | None = None,
    history: Sequence[Message] | None = None,
    *,
    preset: Preset = "default",
    factual_weight: float | None = None,
    semantic_weight: SemanticWeight = None,
) -> Steps[Score]:
    """Weighted mean of the factual F1 and the semantic similarity to the reference.

    Formula: (w_f × F1 + w_s × max(0, cosine)) / (w_f + w_s), with F1 as in ``factual_correctness`` and the cosine as
    in ``semantic_similarity``. The default weights are 0.75 and 0.25. 0 to 1. A component of weight 0 is not computed.
    If a component fails, the metric is unscored and reports the error. Unscored: answer or reference missing.

    Options: ``preset`` default (.75/.25), equal_weights (.5/.5), factual_focused (.9/.1), semantic_focused (.1/.9);
    ``factual_weight`` and ``semantic_weight`` (0 or more) override the preset. Source: the ragas project, Answer
    Correctness.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> judge = rm.ScriptedJudge(
    ...     response_claims=["It is red."],
    ...     response_verdicts=["NEUTRAL"],
    ...     reference_claims=["It is blue."],
    ...     reference_verdicts=["NEUTRAL"],
    ... )
    >>> record = {"answer": "It is red.", "reference": "It is red."}
    >>> round(
    ...     rm.score(
    ...         "answer_correctness", record, judge=judge, preset="equal_weights"
    ...     ).value,
    ...     6,
    ... )
    0.5
    """
    options = {"preset": preset, "factual_weight": factual_weight, "semantic_weight": semantic_weight}
    factual, semantic = _weights(options)
    total = factual + semantic
    weights = {"factual_weight": factual / total, "semantic_weight": semantic / total}
    programs: tuple[Steps[Any], Steps[Any]] = (  # blank texts cost no call
        correspond(answer if factual else "", reference, question, history),
        similarity(answer if semantic else "", reference),
    )
    claims, meaning = yield from together(*programs)
    values = {"factual": claims.f1} if factual else {}
    if semantic:
        values["semantic"] = max(0.0, meaning.value)
    reasons = [
        say(f"answer_correctness.{name}", value=value, weight=weights[f"{name}_weight"])
        for name, value in values.items()
    ]
    return Score(
        value=sum(weights[f"{name}_weight"] * value for name, value in values.items()),
        reason=joined(*reasons),
        details={**weights, **values, **claims.details, **({"band": meaning.band} if semantic else {})},
        excluded_models=tuple(meaning.failures),
        warnings=(*claims.warnings, *meaning.warnings),
    ).with_items(claims.made)
