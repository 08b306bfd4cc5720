"""Wrong claims of the answer that come from the passages: is generation misled by what was retrieved?"""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.metrics.answer_states import Indistinct
from mlflow_ragmetrics.metrics.checked_claims import Texts, held_by, is_held, is_right, rate_of_answer

__all__ = ["noise_sensitivity_irrelevant", "noise_sensitivity_relevant"]


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
