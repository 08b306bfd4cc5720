"""Does the answer say what the passages hold?"""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.answer_states import Indistinct
from mlflow_ragmetrics.metrics.checked_claims import Texts, is_held, is_right, reference_facts
from mlflow_ragmetrics.metrics.claims import joined, to_do
from mlflow_ragmetrics.text.messages import say

__all__ = ["context_utilization"]


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
