"""The claims of answer and reference held against the other text and against each passage, as RAGChecker does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow_ragmetrics.core.question import Finding, Role, Steps, together
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Evidence, Item, Score
from mlflow_ragmetrics.metrics.answer_states import Indistinct, States, has_context, states_of, without_context
from mlflow_ragmetrics.metrics.claims import Verified, Warnings, joined, to_do, verified_claims
from mlflow_ragmetrics.text.messages import Text, say

__all__ = [
    "CheckedClaims",
    "Texts",
    "held_by",
    "is_held",
    "is_right",
    "rate_of_answer",
    "reference_facts",
    "unscored",
]


@dataclass(frozen=True)
class Texts:
    """The texts of one row, with the states of answer and reference."""

    answer: str
    reference: str
    contexts: Sequence[str]
    question: str | None
    history: Sequence[Message] | None
    states: States

    @classmethod
    def of(
        cls,
        answer: str,
        reference: str,
        contexts: Sequence[str],
        question: str | None,
        history: Sequence[Message] | None,
        indistinct: Indistinct,
    ) -> Texts:
        """The texts; ``indistinct`` is the metric's option of that name."""
        return cls(answer, reference, contexts, question, history, states_of(answer, reference, indistinct))

    def unusable(self, *, answer_too: bool) -> Score | None:
        """The score of a row that has nothing to check: no passage, a reference or an answer that states nothing."""
        if not has_context(self.contexts):
            return without_context("skip", None, self.states.details("no_context"))
        if self.states.reference == "indistinct":
            return self.unscored("indistinct_reference")
        if answer_too and self.states.answer == "indistinct":
            return self.unscored("indistinct_answer")
        return None

    def unscored(self, rule: str, checked: CheckedClaims | None = None) -> Score:
        """No score, by a rule whose sentence stands under ``checked.<rule>``."""
        return unscored(rule, self.states, checked)

    def against(self, role: Role, other: str) -> Steps[Verified]:
        """The claims of the text of ``role`` with the other text's verdicts; ``other`` is that text."""
        against: Role = "reference" if role == "answer" else "answer"
        return self._verified(role, (other,), against)

    def by_passages(self, role: Role) -> Steps[Verified]:
        """The claims of the text of ``role`` with the passages' verdicts."""
        return self._verified(role, self.contexts, "contexts")

    def _verified(self, role: Role, passages: Sequence[str], against: Any) -> Steps[Verified]:
        text = self.answer if role == "answer" else self.reference
        options: dict[str, Any] = {"question": self.question, "history": self.history}
        return verified_claims(text, passages, role=role, against=against, **options)


@dataclass(frozen=True)
class CheckedClaims:
    """The claims of one text: the other text's verdicts on them, and as evidence the passages that hold them.

    A claim without evidence is held by no passage; evidence without a number is that of a judge that does not say
    which passage it was.
    """

    items: tuple[Item, ...] = ()
    warnings: Warnings = ()

    @classmethod
    def of(cls, role: Role, by_other: Verified, by_passages: Verified) -> CheckedClaims:
        """What other text and passages say of the claims of the text of ``role``, joined."""
        items = tuple(_joined(role, *each) for each in zip(by_other.items, by_passages.items, strict=True))
        return cls(items, tuple(dict.fromkeys((*by_other.warnings, *by_passages.warnings))))


def _joined(role: Role, by_other: Item, by_passages: Item) -> Item:
    evidence: tuple[Evidence, ...] = ()
    if by_passages.verdict == "SUPPORTED":
        evidence = by_passages.evidence or (Evidence(),)
    reason = say("joined", first=say(f"claim.of_{role}"), second=_where(evidence))
    if by_other.reason:
        reason = say("joined", first=reason, second=by_other.reason)
    return by_other.changed(reason=reason, evidence=evidence)


def _where(evidence: Sequence[Evidence]) -> Text:
    numbers = held_by(evidence)
    if not evidence:
        return say("checked.not_held")
    if not numbers:
        return say("checked.held_somewhere")
    return say("checked.held", n=len(numbers), passages=", ".join(map(str, numbers)))


def held_by(evidence: Iterable[Evidence]) -> list[int]:
    """The numbers of the passages, each once, in order."""
    return sorted({each.chunk for each in evidence if each.chunk is not None})


def is_right(item: Item) -> bool:
    """Whether the other text supports the claim."""
    return item.verdict == "SUPPORTED"


def is_held(item: Item) -> bool:
    """Whether a passage holds the claim."""
    return bool(item.evidence)


def unscored(rule: str, states: States, checked: CheckedClaims | None = None) -> Score:
    """No score, by a rule whose sentence stands under ``checked.<rule>``."""
    checked = checked or CheckedClaims()
    details = states.details(rule, no_context=False)
    return Score(reason=say(f"checked.{rule}"), items=checked.items, details=details, warnings=checked.warnings)


Counted = Callable[[Item, Sequence[int]], bool]
"""Whether a claim of the answer counts; the numbers are those of the passages that hold a fact of the reference."""


def rate_of_answer(
    texts: Texts, code: str, counted: Counted, *, by_relevance: bool = False, faults: bool = True
) -> Steps[Score]:
    """The share of the answer's claims that are ``counted``; the sentence stands under ``checked.<code>``.

    ``faults``: those that count are to be corrected, and the reason names them.
    ``by_relevance``: it matters which passages hold a fact of the reference, which is then asked as well. Unscored:
    nothing to check, and where it matters a judge that does not say which passages hold a wrong claim or a fact.
    """
    found = texts.unusable(answer_too=True)
    if found is not None:
        return found
    programs = [texts.by_passages("answer"), texts.against("answer", texts.reference)]
    verified = yield from together(*programs, *([texts.by_passages("reference")] if by_relevance else []))
    checked = CheckedClaims.of("answer", verified[1], verified[0])
    if not checked.items:
        return texts.unscored("no_claims", checked)
    relevant: list[int] = []
    if by_relevance:
        facts = [item for item in verified[2].items if is_right(item)]
        wrong = [item for item in checked.items if is_held(item) and not is_right(item)]
        if not all(held_by(item.evidence) for item in (*facts, *wrong)):
            return texts.unscored("unnamed_passages", checked)
        relevant = held_by(each for item in facts for each in item.evidence)
    found_claims = [item for item in checked.items if counted(item, relevant)]
    number = len(found_claims)
    counts: Mapping[str, Any] = {
        "counted": number,
        "total": len(checked.items),
        "right": sum(map(is_right, checked.items)),
        "held": sum(map(is_held, checked.items)),
        **({"relevant_passages": len(relevant)} if by_relevance else {}),
    }
    return Score(
        value=number / len(checked.items),
        reason=joined(
            say(f"checked.{code}", n=len(checked.items), counted=number),
            to_do("not_in_reference", [item.text for item in found_claims]) if faults else None,
        ),
        items=checked.items,
        details=texts.states.details("judged", counts, no_context=False),
        warnings=checked.warnings,
    )


def reference_facts(texts: Texts) -> Steps[CheckedClaims]:
    """The facts of the reference, with the answer's verdicts; an answer that states nothing is not asked about."""
    if texts.states.answer == "indistinct":
        by_passages = yield from texts.by_passages("reference")
        unstated = Verified(by_passages.claims, (Finding("NEUTRAL"),) * len(by_passages.claims))
        return CheckedClaims.of("reference", unstated, by_passages)
    sides = yield from together(texts.by_passages("reference"), texts.against("reference", texts.answer))
    return CheckedClaims.of("reference", sides[1], sides[0])
