"""Who answers questions: the protocols that every judge and every embedding model follows."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Protocol, runtime_checkable

from mlflow_ragmetrics.core.question import Outcome, Question

Call = tuple[Question[Any], ...]


class UsageMeter(Protocol):
    """What a judge has cost so far."""

    def snapshot(self) -> dict[str, float]:
        """Counts by name: ``calls``, ``prompt_tokens``, …, and ``cost`` where the prices are known."""


@runtime_checkable
class Judge(Protocol):
    """Answers questions. Derive from it and write ``name`` and ``answer``; all else has a default.

    ``name``: what results call this judge. ``local=True``: it computes in this process and is given large batches of
    questions about many samples; other judges are asked from several threads at once. ``fingerprint``: its identity for
    stores on disk (name, parameters, version of its prompts); without one nothing is stored. ``usage``: what it cost.
    ``form``: how a chat model is asked (``full``, ``compact``, ``single``); ``None`` for other judges.

    >>> class Yes(Judge):
    ...     name = "yes"
    ...     def answer(self, questions):
    ...         return [JudgeError("yes answers nothing") for question in questions]
    >>> Yes().local, Yes().fingerprint
    (False, None)
    """

    name: str
    local: bool = False
    fingerprint: str | None = None
    usage: UsageMeter | None = None
    form: str | None = None

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        """One outcome per question, in order: an answer, or the ``JudgeError`` with which the question failed."""
        raise NotImplementedError

    def calls(self, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> Sequence[Call]:
        """The calls to make now for the pending questions of one sample: by default one per question.

        What is in none of them waits until others of that sample, which are ``in_flight``, are answered.
        """
        return [(question,) for question in pending]


@runtime_checkable
class Embedding(Protocol):
    """Turns texts into vectors. Derive from it and write ``name`` and ``embed``.

    ``local=True``: it computes in this process.
    """

    name: str
    local: bool = False

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector per text, all of the same length."""
        raise NotImplementedError


@runtime_checkable
class AnswersQuestions(Protocol):
    """The least that an object needs to be used as a judge."""

    @property
    def name(self) -> str:
        """What results call it."""

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        """One outcome per question, in order."""


@runtime_checkable
class EmbedsTexts(Protocol):
    """The least that an object needs to be used as an embedding model."""

    @property
    def name(self) -> str:
        """What results call it."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector per text."""


def take_over(adapted: object, given: object, members: Sequence[str]) -> None:
    """Give ``adapted`` the optional members that ``given`` has; done once, nobody asks later what a judge lacks."""
    for member in set(members).intersection(dir(given)):
        setattr(adapted, member, attrgetter(member)(given))


def name_of_model(model: object) -> str:
    """The name of a LangChain model: its ``model`` or ``model_name``, else its class's name."""
    named = [getattr(model, attribute, None) for attribute in ("model", "model_name")]
    return next((name for name in named if isinstance(name, str) and name), type(model).__name__)
