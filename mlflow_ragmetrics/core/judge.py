"""Who answers questions: the protocol that every judge and embedding model follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from mlflow_ragmetrics.core.question import Outcome, Question

__all__ = ["Call", "Embedding", "Judge", "calls_of", "fingerprint_of", "is_local"]

Call = tuple[Question, ...]


@runtime_checkable
class Judge(Protocol):
    """Anything with a ``name`` that answers questions.

    Optional attributes: ``local`` (True: it computes in this process, and gets large batches from many samples),
    ``fingerprint`` (its identity for stores on disk: name, parameters, prompt version; without it nothing is stored)
    and ``calls(pending, in_flight)``, which groups the pending questions of one sample into calls and may hold some
    back while others of that sample are still in flight (default: one call a question).
    """

    @property
    def name(self) -> str:
        """What results call this judge."""

    def answer(self, questions: Sequence[Question]) -> Sequence[Outcome]:
        """As many outcomes as questions, in order: an answer, or the ``JudgeError`` with which it failed."""


@runtime_checkable
class Embedding(Protocol):
    """Anything with a ``name`` that turns texts into vectors."""

    @property
    def name(self) -> str:
        """What results call this model."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector a text, all of the same length."""


def is_local(judge: Judge) -> bool:
    """Whether the judge computes in this process and likes large batches."""
    return bool(getattr(judge, "local", False))


def fingerprint_of(judge: Judge) -> str | None:
    """The judge's identity for stores on disk, or ``None`` where its answers must not be stored."""
    fingerprint = getattr(judge, "fingerprint", None)
    return None if fingerprint is None else str(fingerprint)


def calls_of(judge: Judge, pending: Sequence[Question], in_flight: Sequence[Question]) -> list[Call]:
    """The calls to make now for the pending questions of one sample.

    A judge that holds everything back with nothing in flight is asked each question apart, so that no sample hangs.
    """
    group = getattr(judge, "calls", None)
    if group is None:
        return [(question,) for question in pending]
    calls: list[Call] = [tuple(call) for call in group(pending, in_flight)]
    if not calls and not in_flight:
        return [(question,) for question in pending]
    return calls
