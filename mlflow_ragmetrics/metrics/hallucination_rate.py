"""Claims of the answer that no passage holds: the wrong ones, and those that are right all the same."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.metrics.answer_states import Indistinct
from mlflow_ragmetrics.metrics.checked_claims import Texts, is_held, is_right, rate_of_answer

__all__ = ["hallucination_rate", "self_knowledge"]


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
