"""The claims of answer and reference, compared with the other text and with each passage, as RAGChecker does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Finding, Role, Steps, together
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Evidence, Item, Score
from mlflow_ragmetrics.metrics.answer_states import Indistinct, States, has_context, states_of, without_context
from mlflow_ragmetrics.metrics.claims import Verified, Warnings, joined, to_do, verified_claims
from mlflow_ragmetrics.text.messages import Text, say


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


@metric(higher_is_better=False, source="RAGChecker")
def hallucination_rate(
    answer: str,
    reference: str,
    contexts: Sequence[str],
    question: str | None = None,
    history: Sequence[Message] | None = None,
    *,
    indistinct: Indistinct = "rules",
) -> Steps[Score]:
    """Share of the answer's claims that neither a passage nor the reference supports; lower is better.

    Formula: claims of the answer that neither ``contexts`` nor the reference support / claims of the answer. 0 to 1.
    Each claim is an item: the reference's verdict on it, and as evidence every passage that holds it. Beside
    ``faithfulness`` and ``factual_correctness`` it costs no question.

    Unscored: nothing was retrieved; answer or reference is a non-answer; the answer makes no claims; answer, reference
    or contexts missing.

    Options: ``indistinct`` ("rules", "off", further phrases, or a function of the text).
    Source: Ru et al., "RAGChecker", 2024, hallucination.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "The tower is red. The bridge is green.",
    ...     "reference": "The tower is red.",
    ...     "contexts": ["The tower is red."],
    ... }
    >>> rm.score("hallucination_rate", record).reason
    '1 of 2 claims of the answer is in no passage, and the reference
    does not support it. Leave out or correct what the reference does not
    support: “The bridge is green.”'
    """
    texts = Texts.of(answer, reference, contexts, question, history, indistinct)
    return (yield from rate_of_answer(texts, "hallucination_rate", _hallucinated))


@metric(higher_is_better=None, source="RAGChecker")
def self_knowledge(
    answer: str,
    reference: str,
    contexts: Sequence[str],
    question: str | None = None,
    history: Sequence[Message] | None = None,
    *,
    indistinct: Indistinct = "rules",
) -> Steps[Score]:
    """Share of the answer's claims that are right though no passage holds them: what the model knew by itself.

    Formula: claims of the answer that the reference supports and ``contexts`` do not / claims of the answer. 0 to 1;
    neither side is better: it helps where retrieval fails, and shows that the model does not keep to the passages.
    Items and costs are those of ``hallucination_rate``.

    Unscored: nothing was retrieved; answer or reference is a non-answer; the answer makes no claims; answer, reference
    or contexts missing.

    Options: ``indistinct`` ("rules", "off", further phrases, or a function of the text).
    Source: Ru et al., "RAGChecker", 2024, self-knowledge.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "The tower is red. The bridge is green.",
    ...     "reference": "The tower is red. The bridge is green.",
    ...     "contexts": ["The tower is red."],
    ... }
    >>> rm.score("self_knowledge", record).value
    0.5
    """
    texts = Texts.of(answer, reference, contexts, question, history, indistinct)
    return (yield from rate_of_answer(texts, "self_knowledge", _known, faults=False))


def _hallucinated(item: Item, relevant: Sequence[int]) -> bool:
    return not is_held(item) and not is_right(item)


def _known(item: Item, relevant: Sequence[int]) -> bool:
    return not is_held(item) and is_right(item)


@metric(higher_is_better=False, source="RAGChecker")
def noise_sensitivity_relevant(
    answer: str,
    reference: str,
    contexts: Sequence[str],
    question: str | None = None,
    history: Sequence[Message] | None = None,
    *,
    indistinct: Indistinct = "rules",
) -> Steps[Score]:
    """Share of the answer's claims that are wrong and come from a passage with facts of the reference.

    Formula: claims of the answer that the reference does not support and a relevant passage does / claims of the
    answer; lower is better. A passage is relevant when it supports a claim of the reference. 0 to 1. Each claim is an
    item: the reference's verdict on it, and as evidence every passage that holds it. Beside ``faithfulness``,
    ``factual_correctness`` and ``fact_recall(target="reference")`` it costs no question. A reference that says less
    than a good answer may makes true claims count as wrong.

    Unscored: nothing was retrieved; answer or reference is a non-answer; the answer makes no claims; a judge that does
    not say which passages support a claim; answer, reference or contexts missing.

    Options: ``indistinct`` ("rules", "off", further phrases, or a function of the text).
    Source: Ru et al., "RAGChecker", 2024, relevant noise sensitivity.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "The tower is red. The bridge is green.",
    ...     "reference": "The tower is red.",
    ...     "contexts": ["The tower is red. The bridge is green."],
    ... }
    >>> rm.score("noise_sensitivity_relevant", record).value
    0.5
    """
    texts = Texts.of(answer, reference, contexts, question, history, indistinct)
    return (yield from rate_of_answer(texts, "noise_sensitivity_relevant", _from_relevant, by_relevance=True))


@metric(higher_is_better=False, source="RAGChecker")
def noise_sensitivity_irrelevant(
    answer: str,
    reference: str,
    contexts: Sequence[str],
    question: str | None = None,
    history: Sequence[Message] | None = None,
    *,
    indistinct: Indistinct = "rules",
) -> Steps[Score]:
    """Share of the answer's claims that are wrong and come from passages without any fact of the reference alone.

    Formula: claims of the answer that the reference does not support, no relevant passage does either, and an
    irrelevant one does / claims of the answer; lower is better. A passage is relevant when it supports a claim of the
    reference. 0 to 1. Items and costs are those of ``noise_sensitivity_relevant``.

    Unscored: nothing was retrieved; answer or reference is a non-answer; the answer makes no claims; a judge that does
    not say which passages support a claim; answer, reference or contexts missing.

    Options: ``indistinct`` ("rules", "off", further phrases, or a function of the text).
    Source: Ru et al., "RAGChecker", 2024, irrelevant noise sensitivity.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "The tower is red. The bridge is green.",
    ...     "reference": "The tower is red.",
    ...     "contexts": ["The tower is red.", "The bridge is green."],
    ... }
    >>> rm.score("noise_sensitivity_irrelevant", record).value
    0.5
    """
    texts = Texts.of(answer, reference, contexts, question, history, indistinct)
    return (yield from rate_of_answer(texts, "noise_sensitivity_irrelevant", _from_irrelevant, by_relevance=True))


def _from_relevant(item: Item, relevant: Sequence[int]) -> bool:
    return not is_right(item) and bool(set(held_by(item.evidence)).intersection(relevant))


def _from_irrelevant(item: Item, relevant: Sequence[int]) -> bool:
    return is_held(item) and not is_right(item) and not _from_relevant(item, relevant)


@metric(source="RAGChecker")
def context_utilization(
    answer: str,
    reference: str,
    contexts: Sequence[str],
    question: str | None = None,
    history: Sequence[Message] | None = None,
    *,
    indistinct: Indistinct = "rules",
) -> Steps[Score]:
    """Share of the reference's facts in the passages that the answer states: what generation makes of retrieval.

    Formula: facts of the reference that a passage holds and the answer states / facts of the reference that a passage
    holds. 0 to 1. Each fact is an item: the answer's verdict on it, and as evidence every passage that holds it. Beside
    ``factual_correctness`` and ``fact_recall(target="reference")`` it costs no question.

    Unscored: no passage holds a fact (RAGChecker gives 0.0, which would blame generation for retrieval), nothing was
    retrieved, the reference is a non-answer or states no facts; answer, reference or contexts missing. A non-answer
    states none of the facts.

    Options: ``indistinct`` ("rules", "off", further phrases, or a function of the text).
    Source: Ru et al., "RAGChecker", 2024, context utilization.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "The tower is red.",
    ...     "reference": "The tower is red. It opened in 1889.",
    ...     "contexts": ["The tower is red.", "The tower opened in 1889."],
    ... }
    >>> rm.score("context_utilization", record).reason
    'The answer states 1 of 2 facts that the passages hold. State what the
    answer lacks: “It opened in 1889.”'
    """
    texts = Texts.of(answer, reference, contexts, question, history, indistinct)
    found = texts.unusable(answer_too=False)
    if found is not None:
        return found
    facts = yield from reference_facts(texts)
    held = [item for item in facts.items if is_held(item)]
    if not held:
        return texts.unscored("nothing_held" if facts.items else "no_facts", facts)
    stated = sum(map(is_right, held))
    counts = {"stated": stated, "held": len(held), "total": len(facts.items)}
    return Score(
        value=stated / len(held),
        reason=joined(
            say("checked.context_utilization", n=len(held), stated=stated),
            to_do("not_in_answer", [item.text for item in held if not is_right(item)]),
        ),
        items=facts.items,
        details=texts.states.details("judged", counts, no_context=False),
        warnings=facts.warnings,
    )


@metric(source="RAGChecker")
def relevant_chunk_precision(
    reference: str,
    contexts: Sequence[str],
    answer: str | None = None,
    question: str | None = None,
    history: Sequence[Message] | None = None,
    *,
    indistinct: Indistinct = "rules",
) -> Steps[Score]:
    """Share of the retrieved passages that hold a fact of the reference.

    Formula: passages that support at least one claim of the reference / passages. 0 to 1. Each passage is an item,
    RELATED or UNRELATED, with the quote. It judges retrieval alone, whatever the answer says (``chunk_precision`` goes
    by the answer). Beside ``fact_recall(target="reference")`` it costs no question.

    Unscored: nothing was retrieved; the reference is a non-answer or states no facts; a judge that does not say which
    passages support a fact; reference or contexts missing.

    Options: ``indistinct`` ("rules", "off", further phrases, or a function of the text).
    Source: Ru et al., "RAGChecker", 2024, context precision.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "reference": "The tower is red.",
    ...     "contexts": ["The tower is red.", "It rains in Oslo."],
    ... }
    >>> rm.score("relevant_chunk_precision", record).reason
    '1 of 2 passages holds a fact of the reference.'
    """
    states = states_of(answer, reference, indistinct)
    if not has_context(contexts):
        return without_context("skip", None, states.details("no_context"))
    if states.reference == "indistinct":
        return unscored("indistinct_reference", states)
    facts = yield from verified_claims(reference, contexts, role="reference", question=question, history=history)
    supported = [item for item in facts.items if is_right(item)]
    if not facts.items or not all(held_by(item.evidence) for item in supported):
        rule = "unnamed_passages" if facts.items else "no_facts"
        return unscored(rule, states, CheckedClaims(warnings=facts.warnings))
    items = tuple(_chunk(number, text, supported) for number, text in enumerate(contexts, 1))
    related = sum(item.verdict == "RELATED" for item in items)
    counts = {"related": related, "unrelated": len(items) - related, "total": len(items)}
    return Score(
        value=related / len(items),
        reason=say("checked.relevant_chunk_precision", n=len(items), related=related),
        items=items,
        details=states.details("judged", counts, no_context=False),
        warnings=facts.warnings,
    )


def _chunk(number: int, text: str, facts: Sequence[Item]) -> Item:
    """A passage with the facts that it holds."""
    held = [item for item in facts if number in held_by(item.evidence)]
    if not held:
        return Item("chunk", text, "UNRELATED", evidence=(Evidence(chunk=number),))
    quotes = tuple(each for item in held for each in item.evidence if each.chunk == number)
    reason = say("checked.facts", n=len(held), first=held[0].text)
    return Item("chunk", text, "RELATED", reason, evidence=quotes)
