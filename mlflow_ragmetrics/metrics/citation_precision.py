"""Do the passages that the answer cites back what they are cited for?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.score import Evidence, Item, Score
from mlflow_ragmetrics.metrics.citations import checked_citations
from mlflow_ragmetrics.text.messages import say

__all__ = ["citation_precision"]


@metric(source="ALCE (Gao et al., EMNLP 2023)")
def citation_precision(
    answer: str,
    contexts: Sequence[str],
    question: str | None = None,
    context_ids: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Steps[Score]:
    """Share of the answer's citations that back the sentence which they stand behind.

    Formula: right citations / citations, 0 to 1. A citation is right where the passages that its sentence cites support
    it together, and not "needless": where its passage alone does not support the sentence, the others without it must
    not either. A citation of what was not retrieved is wrong. One for the whole answer is right where it is for any
    sentence. Each citation is an item with its sentence, saying which of these it is.

    Unscored: no answer, no contexts field, an answer that cites nothing (``citation_recall`` is 0.0 there).

    Citations are read as [1], [1][2], [1, 2], [1-3], (source 2), [doc 3], footnotes, superscripts, ids of the contexts
    in brackets, and from the record's ``citations`` (numbers, ids, or objects as Anthropic, Cohere and LangChain give
    them). One question for each distinct set of cited passages, and for each passage of it, shared with
    ``citation_recall``.

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
    >>> rm.score("citation_precision", record, judge=judge).value
    0.5
    """
    checked = yield from checked_citations(answer, contexts, context_ids, question, metadata)
    total = len(checked.citations)
    grades = [grade for *_, grade in checked.citations]
    counts = {name: grades.count(name) for name in ("right", "wrong", "needless", "unknown")}
    if not total:
        return Score(reason=say("citation_precision.nothing"), details={**counts, "total": 0})
    items = tuple(
        Item(
            "sentence",
            text,
            "SUPPORTED" if grade == "right" else "NEUTRAL",
            say(f"citation_precision.{grade}", label=citation.label),
            evidence=(Evidence(citation.passage),) if citation.passage else (),
        )
        for citation, text, grade in checked.citations
    )
    reason = say("citation_precision.judged", n=total, **counts)
    return Score(value=counts["right"] / total, reason=reason, items=items, details={**counts, "total": total})
