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
        outcomes: list[Outcome] = []
        for question in questions:
            answer = self._scripted(question) if self.error is None else None
            problem = f"the script has no answer to {question.kind}" if self.error is None else self.error
            outcomes.append(JudgeError(f"{self.name}: {problem}") if answer is None else answer)
        return outcomes

    def _scripted(self, question: Question[Any]) -> Outcome:
        """Return the answer in the script, or ``None``."""
        if isinstance(question, Claims):
            claims = self.response_claims if question.role == "answer" else self.reference_claims
            facts = None if self.facts is None else [str(fact["text"]) for fact in self.facts]
            return _all(str, facts if claims is None else claims)
        if isinstance(question, Verify):
            verdicts = self.response_verdicts if question.role == "answer" else self.reference_verdicts
            if question.against == "contexts" and self.facts is not None:
                verdicts = ["SUPPORTED" if fact["ok"] else "NEUTRAL" for fact in self.facts]
            return _all(lambda verdict: Finding(str(verdict)), verdicts)
        if isinstance(question, RelatedChunks):
            return _all(Related, self.used_chunks)
        if isinstance(question, Relevance):
            return _all(PassageGrade, self.relevance)
        if isinstance(question, Nuggets):
            return None if self.nuggets is None else tuple(map(Nugget, self.nuggets, self.nuggets.values()))
        if isinstance(question, Sufficiency):
            return None if self.sufficiency is None else Finding("", support=self.sufficiency)
        if isinstance(question, Prefer):
            choose = self.preference
            verdict = choose(question.first, question.second) if callable(choose) else choose
            return None if verdict is None else Finding(verdict)
        if not isinstance(question, (Grade, Tone)):
            return None
        rating = self.tone if isinstance(question, Tone) else (self.ratings or {}).get(question.aspect, self.rating)
        return None if rating is _ABSENT else Rating(rating)


def _all(kind: Callable[[Any], object], values: Sequence[Any] | None) -> Outcome:
    return None if values is None else tuple(map(kind, values))
