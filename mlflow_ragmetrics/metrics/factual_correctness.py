"""Does the answer agree with the reference in facts (by its claims) and in meaning (by the cosine of embeddings)?"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationInfo

from mlflow_ragmetrics.core.composite import agreement
from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.options import spelled
from mlflow_ragmetrics.core.question import Embed, Steps, ask, together
from mlflow_ragmetrics.core.score import Message, Score, passes
from mlflow_ragmetrics.errors import AllJudgesFailedError, InvalidOptionError, JudgeError
from mlflow_ragmetrics.metrics.claims import correspond, to_do
from mlflow_ragmetrics.text.messages import joined, say

Vectors = Sequence[Sequence[float]]
_ROUNDING = 1e-6  # noise in cosines of float32 vectors
_LONGEST_PIECE = 2000
_BANDS = (("identical", 0.9), ("very_high", 0.8), ("moderate", 0.5))


@dataclass(frozen=True)
class Similarity:
    """The mean cosine over the models that answered, −1 to 1; ``failures`` holds the errors of the others."""

    value: float = 0.0
    models: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def band(self) -> str:
        """identical at 0.9 or higher, very_high at 0.8, moderate at 0.5, else low."""
        return next((band for band, lowest in _BANDS if passes(self.value, lowest)), "low")

    @property
    def warnings(self) -> tuple[tuple[str, str], ...]:
        """One warning per failed model."""
        return tuple((f"embeddings_failed:{name}", cause) for name, cause in self.failures.items())


def similarity(answer: str, reference: str, models: tuple[str, ...] | None = None) -> Steps[Similarity]:
    """Embed both texts with all (or the named) models at once; if either text is blank, 0.0 without a call.

    Long texts are split into pieces and the pieces' vectors averaged. Models that fail, or whose vectors cannot be
    compared, are ignored; ``AllJudgesFailedError`` if none is left.
    """
    if not answer.strip() or not reference.strip():
        return Similarity()
    sides = pieces(answer), pieces(reference)
    replies = yield from ask(Embed((*sides[0], *sides[1]), models))
    cosines: dict[str, float] = {}
    failures: dict[str, str] = {}
    for name, reply in replies.items():
        try:
            cosines[name] = _compared(reply, *map(len, sides))
        except (JudgeError, ValueError, TypeError) as error:
            failures[name] = f"{name}: {error}"
    if not cosines:
        causes = "; ".join(failures.values()) or f"none of {', '.join(models or ('the models',))} is configured"
        raise AllJudgesFailedError(f"no embedding model answered ({causes})")
    return Similarity(fmean(cosines.values()), cosines, failures)


def _compared(reply: Vectors | JudgeError, answer_pieces: int, reference_pieces: int) -> float:
    if isinstance(reply, JudgeError):
        raise reply
    if len(reply) != answer_pieces + reference_pieces:
        raise ValueError(f"{len(reply)} vectors for {answer_pieces + reference_pieces} texts")
    value = cosine(_mean(reply[:answer_pieces]), _mean(reply[answer_pieces:]))
    return 1.0 if value > 1 - _ROUNDING else value


def _mean(vectors: Vectors) -> Sequence[float]:
    return vectors[0] if len(vectors) == 1 else [fmean(column) for column in zip(*vectors, strict=True)]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors, clipped to −1 to 1; 0.0 for a zero vector.

    ``ValueError`` if the vectors differ in length or have no finite direction.

    >>> cosine([3, 4], [4, 3])
    0.96
    """
    if len(one) != len(other):
        raise ValueError(f"vectors of different length, {len(one)} and {len(other)}")
    lengths = math.hypot(*one), math.hypot(*other)
    if not all(map(math.isfinite, lengths)):
        raise ValueError("a vector that is not finite")
    if not all(lengths):
        return 0.0
    dot = math.fsum(map(mul, one, other))
    return max(-1.0, min(1.0, dot / lengths[0] / lengths[1]))


def pieces(text: str) -> list[str]:
    """Split ``text`` into pieces of at most 2,000 characters, at whitespace if possible.

    >>> [len(piece) for piece in pieces("word " * 1000)]
    [1999, 1999, 999]
    """
    return textwrap.wrap(
        text.strip(), _LONGEST_PIECE, expand_tabs=False, replace_whitespace=False, break_on_hyphens=False
    )


@metric(asks=("embeddings",), range=(-1.0, 1.0), source="ragas")
def semantic_similarity(
    answer: str,
    reference: str,
    *,
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None,
    models: Annotated[tuple[str, ...], Field(min_length=1)] | None = None,
) -> Steps[Score]:
    """Cosine similarity of the embeddings of answer and reference.

    Formula: a · r / (|a| |r|), averaged over the embedding models. With a ``threshold``, the score is 1.0 if the mean
    reaches it, else 0.0. −1 to 1; a blank text or a zero vector: 0.0. Texts longer than 2,000 characters are split and
    the pieces' vectors averaged. ``details["band"]``: identical at 0.9 or higher, very_high at 0.8, moderate at 0.5,
    else low. Unscored: answer or reference missing. A failed model is ignored; if all fail: ``AllJudgesFailedError``.

    Options: ``threshold`` (above 0, up to 1), ``models`` (names of configured embedding models).
    Source: the ragas project, Semantic Similarity; Reimers and Gurevych, Sentence-BERT, 2019.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> score = rm.score(
    ...     "semantic_similarity",
    ...     {"answer": "The cat sat.", "reference": "The cat sat."},
    ... )
    >>> round(score.value, 6), score.details["band"]
    (1.0, 'identical')
    """
    similar = yield from similarity(answer, reference, models)
    cosines = list(similar.models.values())
    value = similar.value if threshold is None else float(passes(similar.value, threshold))
    reason = say("semantic_similarity.blank")
    if similar.models:
        band = say(f"band.{similar.band}")
        reason = say("semantic_similarity.cosine", value=similar.value, n=len(similar.models), band=band)
    if threshold is not None:
        code = "semantic_similarity.reached" if value else "semantic_similarity.missed"
        reason = joined(reason, say(code, threshold=threshold))
    details: dict[str, Any] = {"cosine": similar.value, "band": similar.band, "n_models": len(cosines)}
    return Score(
        value=value,
        reason=reason,
        details=details | ({"agreement": agreement(cosines)} if len(cosines) > 1 else {}),
        model_scores=similar.models,
        excluded_models=tuple(similar.failures),
        warnings=similar.warnings,
    )


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
    counts = outcome.details
    value = counts[mode.lower()]
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
    values = {"factual": claims.details["f1"]} if factual else {}
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
