"""Do answer and reference mean nearly the same? Cosine similarity from one or several embedding models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from statistics import fmean
from typing import Annotated, Union

from pydantic import Field

from mlflow_ragmetrics.core.composite import agreement
from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Embed, Steps, ask
from mlflow_ragmetrics.core.score import Score, passes
from mlflow_ragmetrics.errors import AllJudgesFailedError, JudgeError
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
    def details(self) -> dict[str, float]:
        """The number of models that answered and, for several models, their agreement."""
        count = len(self.models)
        return {"n_models": count, **({"agreement": agreement(list(self.models.values()))} if count > 1 else {})}

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
    sides = tuple(pieces(answer)), tuple(pieces(reference))
    replies: Mapping[str, Union[Vectors, JudgeError]] = yield from ask(Embed(sides[0] + sides[1], models))
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


def pieces(text: str) -> Iterator[str]:
    """Split ``text`` into pieces of at most 2,000 characters, at whitespace if possible.

    >>> [len(piece) for piece in pieces("word " * 1000)]
    [1999, 1999, 999]
    """
    rest = text.strip()
    while len(rest) > _LONGEST_PIECE:
        head = rest[: _LONGEST_PIECE + 1]
        cut = max(head.rfind(" "), head.rfind("\n"))
        cut = cut if cut != -1 else _LONGEST_PIECE
        yield rest[:cut].rstrip()
        rest = rest[cut:].lstrip()
    if rest:
        yield rest


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
    value = similar.value if threshold is None else float(passes(similar.value, threshold))
    reason = say("semantic_similarity.blank")
    if similar.models:
        band = say(f"band.{similar.band}")
        reason = say("semantic_similarity.cosine", value=similar.value, n=len(similar.models), band=band)
    if threshold is not None:
        code = "semantic_similarity.reached" if value else "semantic_similarity.missed"
        reason = joined(reason, say(code, threshold=threshold))
    return Score(
        value=value,
        reason=reason,
        details={"cosine": similar.value, "band": similar.band, **similar.details},
        model_scores=similar.models,
        excluded_models=tuple(similar.failures),
        warnings=similar.warnings,
    )
