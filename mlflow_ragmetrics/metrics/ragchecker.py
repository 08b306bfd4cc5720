"""RAGChecker metrics: claims of the answer and the reference, checked against the other text and each passage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from mlflow_ragmetrics.core.metric import metric, named_as
from mlflow_ragmetrics.core.question import Against, Finding, Role, Steps, together
from mlflow_ragmetrics.core.score import Evidence, Item, Message, Score, Warnings, held_by, is_held, is_right
from mlflow_ragmetrics.metrics.claims import Verified, as_judged, has_context, to_do, verified_claims, without_context
from mlflow_ragmetrics.text.messages import Text, joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, States, states_of


@dataclass(frozen=True)
class Texts:
    """The texts of one row; ``indistinct`` is the metric option."""

    answer: str | None
    reference: str
    contexts: Sequence[str]
    question: str | None
    history: Sequence[Message] | None
    indistinct: Indistinct

    @cached_property
    def states(self) -> States:
        """The states of answer and reference."""
        return states_of(self.answer, self.reference, self.indistinct)

    def unusable(self, *, answer_too: bool) -> Score | None:
        """The score of a row with nothing to check: no passage, or a non-answer as reference or answer."""
        if not has_context(self.contexts):
            return without_context("skip", None, self.states.details("no_context"))
        if self.states.reference == "indistinct":
            return self.unscored("indistinct_reference")
        if answer_too and self.states.answer == "indistinct":
            return self.unscored("indistinct_answer")
        return None

    def unscored(
        self, rule: str, items: tuple[Item, ...] = (), warnings: Warnings = (), states: States | None = None
    ) -> Score:
        """No score; the reason is the message ``checked.<rule>``."""
        details = (states or self.states).details(rule, no_context=False)
        return Score(reason=say(f"checked.{rule}"), items=items, details=details, warnings=warnings)

    def verified(self, role: Role, against: Against) -> Steps[Verified]:
        """The claims of the text ``role``, checked against the passages or the other text."""
        texts = {"answer": self.answer or "", "reference": self.reference}
        passages = self.contexts if against == "contexts" else (texts[against],)
        return verified_claims(
            texts[role], passages, role=role, against=against, question=self.question, history=self.history
        )


def checked_claims(role: Role, by_other: Verified, by_passages: Verified) -> tuple[tuple[Item, ...], Warnings]:
    """The claims of the text ``role``: verdicts by the other text, and the passages that support them as evidence.

    A claim without evidence is in no passage. Evidence without a number comes from a judge that does not name the
    passage.
    """
    items = []
    for item, other_item in zip(by_other.items, by_passages.items, strict=True):
        evidence = (other_item.evidence or (Evidence(),)) if is_right(other_item) else ()
        reason = joined(say(f"claim.of_{role}"), _where(evidence), item.reason)
        items.append(item.changed(reason=reason, evidence=evidence))
    return tuple(items), tuple(dict.fromkeys((*by_other.warnings, *by_passages.warnings)))


def _where(evidence: Sequence[Evidence]) -> Text:
    numbers = held_by(evidence)
    if not evidence:
        return say("checked.not_held")
    if not numbers:
        return say("checked.held_somewhere")
    return say("checked.held", n=len(numbers), passages=", ".join(map(str, numbers)))


def _of_claims(rate: Callable[[Texts], Steps[Score]]) -> Callable[..., Steps[Score]]:
    """A metric function from a function of ``Texts``."""

    def score(
        answer: str,
        reference: str,
        contexts: Sequence[str],
        question: str | None = None,
        history: Sequence[Message] | None = None,
        *,
        indistinct: Indistinct = "rules",
    ) -> Steps[Score]:
        return (yield from rate(Texts(answer, reference, contexts, question, history, indistinct)))

    return named_as(rate, score)


def _share_of_answer(
    is_counted: Callable[[Item, Sequence[int]], bool], *, by_relevance: bool = False, faults: bool = True
) -> Callable[..., Steps[Score]]:
    """A metric function: the share of the answer's claims that are counted; the reason is ``checked.<its name>``.

    ``is_counted`` takes a claim and the numbers of the relevant passages. ``faults``: counted claims are errors, and
    the reason lists them. ``by_relevance``: also find the passages that support a fact of the reference, which takes
    another question. Unscored: nothing to check, or, with ``by_relevance``, a judge that does not name the passages.
    """

    def rate(texts: Texts) -> Steps[Score]:
        if (unusable := texts.unusable(answer_too=True)) is not None:
            return unusable
        programs = [texts.verified("answer", "contexts"), texts.verified("answer", "reference")]
        if by_relevance:
            programs.append(texts.verified("reference", "contexts"))
        by_passages, by_reference, *of_reference = yield from together(*programs)
        word = by_passages.extraction.declines
        states = yield from as_judged(texts.states, texts.answer or "", texts.question, word, texts.indistinct)
        if states.answer == "indistinct":
            return texts.unscored("indistinct_answer", states=states)
        items, warnings = checked_claims("answer", by_reference, by_passages)
        if not items:
            return texts.unscored("no_claims", warnings=warnings)
        facts = [item for verified in of_reference for item in verified.items if is_right(item)]
        wrong = [item for item in items if is_held(item) and not is_right(item)]
        if by_relevance and not all(held_by(item.evidence) for item in (*facts, *wrong)):
            return texts.unscored("unnamed_passages", items, warnings)
        relevant = held_by(evidence for item in facts for evidence in item.evidence)
        counted = [item.text for item in items if is_counted(item, relevant)]
        counts = {
            "counted": len(counted),
            "total": len(items),
            "right": sum(map(is_right, items)),
            "held": sum(map(is_held, items)),
            **({"relevant_passages": len(relevant)} if by_relevance else {}),
        }
        reason = say(f"checked.{is_counted.__name__}", n=len(items), counted=len(counted))
        return Score(
            value=len(counted) / len(items),
            reason=joined(reason, to_do("not_in_reference", counted) if faults else None),
            items=items,
            details=texts.states.details("judged", counts, no_context=False),
            warnings=warnings,
        )

    return _of_claims(named_as(is_counted, rate))


@metric(higher_is_better=False, source="RAGChecker")
@_share_of_answer
def hallucination_rate(item: Item, relevant: Sequence[int]) -> bool:
    """Share of the answer's claims that neither a passage nor the reference supports; lower is better.

    Formula: claims of the answer that neither ``contexts`` nor the reference support / claims of the answer. 0 to 1.
    Each claim is an item with the reference's verdict; its evidence is every passage that supports it. Costs no
    further questions if you also use ``faithfulness`` and ``factual_correctness``.

    Unscored: nothing was retrieved; answer or reference is a non-answer; the answer makes no claims; answer, reference
    or contexts missing.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text).
    Source: Ru et al., "RAGChecker", 2024, hallucination.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "The tower is red. The bridge is green.",
    ...     "reference": "The tower is red.",
    ...     "contexts": ["The tower is red."],
    ... }
    >>> rm.score("hallucination_rate", record).reason
    '1 of 2 claims of the answer is not in the passages, and the reference
    does not support it. Leave out or correct what the reference does not
    support: “The bridge is green.”'
    """
    return not is_held(item) and not is_right(item)


@metric(higher_is_better=None, source="RAGChecker")
@partial(_share_of_answer, faults=False)
def self_knowledge(item: Item, relevant: Sequence[int]) -> bool:
    """Share of the answer's claims that are right although no passage supports them: the model's own knowledge.

    Formula: claims of the answer that the reference supports and ``contexts`` do not / claims of the answer. 0 to 1.
    Neither higher nor lower is better: own knowledge compensates for poor retrieval, but also shows that the model does
    not keep to the passages. Items and questions are those of ``hallucination_rate``.

    Unscored: nothing was retrieved; answer or reference is a non-answer; the answer makes no claims; answer, reference
    or contexts missing.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text).
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
    return not is_held(item) and is_right(item)


@metric(higher_is_better=False, source="RAGChecker")
@partial(_share_of_answer, by_relevance=True)
def noise_sensitivity_relevant(item: Item, relevant: Sequence[int]) -> bool:
    """Share of the answer's claims that are wrong and come from a relevant passage; lower is better.

    Formula: claims of the answer that a relevant passage supports and the reference does not / claims of the answer. A
    passage is relevant if it supports a claim of the reference. 0 to 1. Each claim is an item with the reference's
    verdict; its evidence is every passage that supports it. Costs no further questions if you also use
    ``faithfulness``, ``factual_correctness`` and ``fact_recall(target="reference")``. If the reference is less
    complete than a good answer, true claims count as wrong.

    Unscored: nothing was retrieved; answer or reference is a non-answer; the answer makes no claims; the judge does not
    name the passages that support a claim; answer, reference or contexts missing.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text).
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
    return not is_right(item) and not set(held_by(item.evidence)).isdisjoint(relevant)


@metric(higher_is_better=False, source="RAGChecker")
@partial(_share_of_answer, by_relevance=True)
def noise_sensitivity_irrelevant(item: Item, relevant: Sequence[int]) -> bool:
    """Share of the answer's claims that are wrong and come only from irrelevant passages; lower is better.

    Formula: claims of the answer that an irrelevant passage supports, but neither a relevant passage nor the reference
    does / claims of the answer. A passage is relevant if it supports a claim of the reference. 0 to 1. Items and
    questions are those of ``noise_sensitivity_relevant``.

    Unscored: nothing was retrieved; answer or reference is a non-answer; the answer makes no claims; the judge does not
    name the passages that support a claim; answer, reference or contexts missing.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text).
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
    return is_held(item) and not is_right(item) and set(held_by(item.evidence)).isdisjoint(relevant)


@metric(source="RAGChecker")
@_of_claims
def context_utilization(texts: Texts) -> Steps[Score]:
    """Share of the reference's facts in the passages that the answer states: how well generation uses retrieval.

    Formula: facts of the reference that a passage supports and the answer states / facts of the reference that a
    passage supports. 0 to 1. Each fact is an item with the answer's verdict; its evidence is every passage that
    supports it. Costs no further questions if you also use ``factual_correctness`` and
    ``fact_recall(target="reference")``.

    Unscored: no passage supports a fact (RAGChecker gives 0.0, which blames generation for a retrieval fault); nothing
    was retrieved; the reference is a non-answer or states no facts; answer, reference or contexts missing. A non-answer
    states no facts.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text).
    Source: Ru et al., "RAGChecker", 2024, context utilization.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "The tower is red.",
    ...     "reference": "The tower is red. It opened in 1889.",
    ...     "contexts": ["The tower is red.", "The tower opened in 1889."],
    ... }
    >>> rm.score("context_utilization", record).reason
    'The answer states 1 of 2 facts in the passages. State what the answer
    lacks: “It opened in 1889.”'
    """
    if (unusable := texts.unusable(answer_too=False)) is not None:
        return unusable
    programs = [texts.verified("reference", "contexts")]
    if texts.states.answer != "indistinct":  # a non-answer states no facts
        programs.append(texts.verified("reference", "answer"))
    by_passages, *others = yield from together(*programs)
    unstated = Verified(by_passages.claims, (Finding("NEUTRAL"),) * len(by_passages.claims))
    items, warnings = checked_claims("reference", others[0] if others else unstated, by_passages)
    held = [item for item in items if is_held(item)]
    if not held:
        return texts.unscored("nothing_held" if items else "no_facts", items, warnings)
    stated = sum(map(is_right, held))
    counts = {"stated": stated, "held": len(held), "total": len(items)}
    return Score(
        value=stated / len(held),
        reason=joined(
            say("checked.context_utilization", n=len(held), stated=stated),
            to_do("not_in_answer", [item.text for item in held if not is_right(item)]),
        ),
        items=items,
        details=texts.states.details("judged", counts, no_context=False),
        warnings=warnings,
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
    """Share of the retrieved passages that support a fact of the reference.

    Formula: passages that support at least one claim of the reference / passages. 0 to 1. Each passage is an item,
    RELATED or UNRELATED, with the quote. Measures only retrieval: unlike ``chunk_precision``, it ignores the answer.
    Costs no further questions if you also use ``fact_recall(target="reference")``.

    Unscored: nothing was retrieved; the reference is a non-answer or states no facts; the judge does not name the
    passages that support a fact; reference or contexts missing.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text).
    Source: Ru et al., "RAGChecker", 2024, context precision.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "reference": "The tower is red.",
    ...     "contexts": ["The tower is red.", "It rains in Oslo."],
    ... }
    >>> rm.score("relevant_chunk_precision", record).reason
    '1 of 2 passages supports a fact of the reference.'
    """
    texts = Texts(answer, reference, contexts, question, history, indistinct)
    if (unusable := texts.unusable(answer_too=False)) is not None:
        return unusable
    facts = yield from texts.verified("reference", "contexts")
    supported = [item for item in facts.items if is_right(item)]
    if not facts.items or not all(held_by(item.evidence) for item in supported):
        rule = "unnamed_passages" if facts.items else "no_facts"
        return texts.unscored(rule, warnings=facts.warnings)
    items = tuple(_chunk(number, text, supported) for number, text in enumerate(contexts, 1))
    related = sum(item.verdict == "RELATED" for item in items)
    counts = {"related": related, "unrelated": len(items) - related, "total": len(items)}
    return Score(
        value=related / len(items),
        reason=say("checked.relevant_chunk_precision", n=len(items), related=related),
        items=items,
        details=texts.states.details("judged", counts, no_context=False),
        warnings=facts.warnings,
    )


def _chunk(number: int, text: str, facts: Sequence[Item]) -> Item:
    """A passage with the facts that it supports."""
    held = [item for item in facts if number in held_by(item.evidence)]
    if not held:
        return Item("chunk", text, "UNRELATED", evidence=(Evidence(chunk=number),))
    quotes = tuple(evidence for item in held for evidence in item.evidence if evidence.chunk == number)
    reason = say("checked.facts", n=len(held), first=held[0].text)
    return Item("chunk", text, "RELATED", reason, evidence=quotes)
