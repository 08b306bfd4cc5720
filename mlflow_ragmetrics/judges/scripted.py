"""A judge with fixed answers, for tests and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlflow_ragmetrics.core.question import (
    Claims,
    Finding,
    Grade,
    Judge,
    Nugget,
    Nuggets,
    Outcome,
    PassageGrade,
    Prefer,
    Question,
    Rating,
    Related,
    RelatedChunks,
    Relevance,
    Sufficiency,
    Tone,
    Verify,
)
from mlflow_ragmetrics.errors import JudgeError

_ABSENT: Any = object()


@dataclass(kw_only=True, eq=False, repr=False)
class ScriptedJudge(Judge):
    """Answers from its arguments; a question without an answer there fails.

    ``facts`` (each ``{"text", "ok"}``): the claims of either text, and whether the contexts support them.
    ``used_chunks``: the related chunks. ``rating``: every grade (``None`` acts as an unreadable reply); ``ratings``:
    grades of single aspects, such as ``{"politeness": 4}``. ``tone``: the tone. ``relevance``: the grades of
    the passages, 0 to 3. ``sufficiency``: how far the passages suffice, 0 to 1. ``nuggets``: the facts of a good
    answer, ``True`` if vital. ``preference``: the better answer, ``"first"``, ``"second"`` or ``"tie"``, or a function
    of both answers. ``response_claims`` and ``reference_claims``: the claims of answer and reference;
    ``response_verdicts`` and ``reference_verdicts``: their verdicts against the other text.
    ``error``: every question fails with this text. ``asked`` lists the questions received.
    """

    local = True
    facts: Sequence[Mapping[str, Any]] | None = None
    used_chunks: Sequence[int] | None = None
    rating: Any = _ABSENT
    tone: Any = _ABSENT
    relevance: Sequence[float] | None = None
    sufficiency: float | None = None
    nuggets: Mapping[str, bool] | None = None
    ratings: Mapping[str, Any] | None = None
    preference: str | Callable[[str, str], str] | None = None
    response_claims: Sequence[str] | None = None
    reference_claims: Sequence[str] | None = None
    response_verdicts: Sequence[str] | None = None
    reference_verdicts: Sequence[str] | None = None
    name: str = "scripted"
    error: str | None = None
    asked: list[Question[Any]] = field(default_factory=list, init=False)

    def answer(self, questions: Sequence[Question[Any]]) -> list[Outcome]:
        """Return one scripted outcome per question."""
        self.asked.extend(questions)
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question[Any]) -> Outcome:
        if self.error is not None:
            return JudgeError(f"{self.name}: {self.error}")
        answer = self._scripted(question)
        return JudgeError(f"{self.name}: the script has no answer to {question.kind}") if answer is _ABSENT else answer

    def _scripted(self, question: Question[Any]) -> Outcome:
        if isinstance(question, Claims):
            return self._claims(question)
        if isinstance(question, Verify):
            return self._findings(question)
        if isinstance(question, RelatedChunks):
            return _ABSENT if self.used_chunks is None else tuple(map(Related, self.used_chunks))
        if isinstance(question, Relevance):
            return _ABSENT if self.relevance is None else tuple(map(PassageGrade, self.relevance))
        if isinstance(question, Nuggets):
            return _ABSENT if self.nuggets is None else tuple(Nugget(*nugget) for nugget in self.nuggets.items())
        if isinstance(question, Sufficiency):
            return _ABSENT if self.sufficiency is None else Finding("", support=self.sufficiency)
        if isinstance(question, Prefer):
            if callable(self.preference):
                return Finding(self.preference(question.first, question.second))
            return _ABSENT if self.preference is None else Finding(self.preference)
        if not isinstance(question, (Grade, Tone)):
            return _ABSENT
        rating = self.tone if isinstance(question, Tone) else (self.ratings or {}).get(question.aspect, self.rating)
        return rating if rating is _ABSENT else Rating(rating)

    def _claims(self, question: Claims) -> Outcome:
        claims = self.response_claims if question.role == "answer" else self.reference_claims
        if claims is None and self.facts is not None:
            claims = [str(fact["text"]) for fact in self.facts]
        return _ABSENT if claims is None else tuple(claims)

    def _findings(self, question: Verify) -> Outcome:
        verdicts = self.response_verdicts if question.role == "answer" else self.reference_verdicts
        if question.against == "contexts" and self.facts is not None:
            verdicts = ["SUPPORTED" if fact["ok"] else "NEUTRAL" for fact in self.facts]
        return _ABSENT if verdicts is None else tuple(Finding(str(verdict)) for verdict in verdicts)
