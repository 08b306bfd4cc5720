"""How many of the retrieved passages hold something that a good answer needs?"""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Evidence, Item, Score
from mlflow_ragmetrics.metrics.answer_states import Indistinct, has_context, states_of, without_context
from mlflow_ragmetrics.metrics.checked_claims import CheckedClaims, held_by, is_right, unscored
from mlflow_ragmetrics.metrics.claims import verified_claims
from mlflow_ragmetrics.text.messages import say

__all__ = ["relevant_chunk_precision"]


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
