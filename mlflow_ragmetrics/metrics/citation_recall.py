"""Is what the answer says backed by the passages that it cites for it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.metrics.citations import checked_citations
from mlflow_ragmetrics.text.messages import say

__all__ = ["citation_recall"]


@metric(source="ALCE (Gao et al., EMNLP 2023)")
def citation_recall(
    answer: str,
    contexts: Sequence[str],
    question: str | None = None,
    context_ids: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Steps[Score]:
    """Share of the answer's sentences that the passages which they cite back.

    Formula: sentences that their cited passages, taken together, support / sentences that assert something, 0 to 1. A
    sentence without a citation, or one that cites what was not retrieved, is not backed. Each sentence is an item.

    Unscored: no answer, no contexts field, an answer without a sentence that asserts something.

    Citations are read as [1], [1][2], [1, 2], [1-3], (source 2), [doc 3], footnotes, superscripts, ids of the contexts
    in brackets, and from the record's ``citations`` (numbers, ids, or objects as Anthropic, Cohere and LangChain give
    them). One question for each distinct set of cited passages, and for each passage of it, shared with
    ``citation_precision``.

    Source: Gao et al., "Enabling Large Language Models to Generate Text with Citations" (ALCE), EMNLP 2023; Thakur et
    al., "Support Evaluation for the TREC 2024 RAG Track", 2025.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "It is red [1]. It is old [1].",
    ...     "contexts": ["The house is red."],
    ... }
    >>> judge = rm.ScriptedJudge(
    ...     facts=[{"text": "red", "ok": True}, {"text": "old", "ok": False}]
    ... )
    >>> rm.score("citation_recall", record, judge=judge).value
    0.5
    """
    checked = yield from checked_citations(answer, contexts, context_ids, question, metadata)
    total = len(checked.statements)
    if not total:
        return Score(reason=say("citation_recall.nothing"), details={"backed": 0, "uncited": 0, "total": 0})
    backed = sum(item.verdict == "SUPPORTED" for item, _ in checked.statements)
    uncited = sum(not cites for _, cites in checked.statements)
    return Score(
        value=backed / total,
        reason=say("citation_recall.judged", backed=backed, n=total, uncited=uncited),
        items=tuple(item if cites else _uncited(item) for item, cites in checked.statements),
        details={"backed": backed, "uncited": uncited, "total": total},
    )


def _uncited(item: Item) -> Item:
    return item.changed(reason=say("citation_recall.uncited"))
