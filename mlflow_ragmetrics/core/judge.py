"""The protocols for judges and embedding models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from mlflow_ragmetrics.core.question import Outcome, Question
from mlflow_ragmetrics.core.safe_text import said_in
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError

Call = tuple[Question[Any], ...]


class UsageMeter(Protocol):
    """A judge's usage and cost so far."""

    def snapshot(self) -> dict[str, float]:
        """Counts by name: ``calls``, ``prompt_tokens``, …, and ``cost`` if prices are known."""


@runtime_checkable
class Judge(Protocol):
    """Answers questions. Derive from it and define ``name`` and ``answer``; everything else has a default.

    ``name``: the judge's name in results. ``local=True``: the judge runs in this process and receives large batches of
    questions about many samples; other judges are called from several threads at once. ``fingerprint``: the judge's
    identity in caches on disk (name, parameters, prompt version); ``None`` disables caching. ``usage``: its cost.
    ``form``: a chat model's call form (``full``, ``compact``, ``single``); ``None`` for other judges.
    ``knows_declines``: the judge's replies say whether an answer declines, so it answers ``Declined``.

    >>> class Yes(Judge):
    ...     name = "yes"
    ...     def answer(self, questions):
    ...         return [JudgeError("yes cannot answer") for question in questions]
    >>> Yes().local, Yes().fingerprint
    (False, None)
    """

    name: str
    local: bool = False
    fingerprint: str | None = None
    usage: UsageMeter | None = None
    form: str | None = None
    knows_declines: bool = False

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        """Return one outcome per question, in order: an answer, or the ``JudgeError`` for a question that failed."""
        raise NotImplementedError

    def calls(self, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> Sequence[Call]:
        """Group the pending questions of one sample into calls to make now; by default, one call per question.

        A question left out waits until other questions of the sample, those ``in_flight``, are answered.
        """
        return [(question,) for question in pending]


@runtime_checkable
class Embedding(Protocol):
    """Turns texts into vectors. Derive from it and define ``name`` and ``embed``.

    ``local=True``: the model runs in this process.
    """

    name: str
    local: bool = False

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, all of the same length."""
        raise NotImplementedError


@runtime_checkable
class AnswersQuestions(Protocol):
    """The minimal interface of a judge."""

    @property
    def name(self) -> str:
        """The judge's name in results."""

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        """Return one outcome per question, in order."""


def as_judge(given: AnswersQuestions) -> Judge:
    """``given`` if it is a complete ``Judge``, else a ``Judge`` with its members and default values."""
    return given if isinstance(given, Judge) else _CompletedJudge(given)  # type: ignore[abstract]


class _CompletedJudge(Judge):
    def __init__(self, given: AnswersQuestions) -> None:
        self._given = given
        for member in {"name", *dir(Judge)} - {"fingerprint"}:
            if not member.startswith("_") and hasattr(given, member):
                setattr(self, member, getattr(given, member))

    @property
    def fingerprint(self) -> str | None:  # type: ignore[override]
        """The identity of the completed judge, which may change."""
        return getattr(self._given, "fingerprint", None)


def name_of_model(model: object) -> str:
    """The name of a LangChain model: its ``model`` or ``model_name``, or its class name."""
    named = [getattr(model, attribute, None) for attribute in ("model", "model_name")]
    return next((name for name in named if isinstance(name, str) and name), type(model).__name__)


_DECISIONS = re.compile(r"langchain_(?:core|openai)\.decisions\b")  # modules of decision models and their questions


def decision_class_of(model: object) -> type | None:
    """The class of LangChain that makes ``model`` a decision model, or ``None`` if it is not one."""
    return next((kind for kind in type(model).__mro__ if _DECISIONS.match(kind.__module__)), None)


_KEY_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_KEY|TOKEN)\b")


@contextmanager
def created_by_langchain(what: str, param: str) -> Iterator[None]:
    """Convert LangChain's errors in this block: a missing package or key, an unknown provider, a wrong option."""
    try:
        yield
    except ImportError as error:
        lacks_langchain = (error.name or "").partition(".")[0] == "langchain"
        way_out = "pip install 'mlflow_ragmetrics[langchain]'" if lacks_langchain else said_in(error)
        raise MissingExtraError(f"{what} needs another package: {way_out}") from error
    except Exception as error:  # a provider's own check of its options or key
        cause_text = said_in(error, 1000)  # enough for the names of all providers
        variable = _KEY_VARIABLE.search(cause_text)
        cause = f"cannot be created: {cause_text}"
        if variable is not None:
            cause = f"needs a key: set the environment variable {variable[0]}"
        raise InvalidOptionError(f"{what} {cause}", param=param) from error
