"""Did the retriever find the relevant documents? Measures of the retrieved set, and NDCG."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.documents import Cutoff, IdPattern, Match, ZeroDivision, gain, score_documents
from mlflow_ragmetrics.text.messages import Text, say

__all__ = ["context_f1", "context_precision", "context_recall", "ndcg"]


@metric(source="Manning, Raghavan and Schütze (2008)", aliases=("context_recall_evaluator",))
def context_recall(
    retrieved_doc_ids: Sequence[str],
    gold_doc_ids: Sequence[str],
    *,
    zero_division: ZeroDivision = 0.0,
    id_pattern: IdPattern = None,
) -> Score:
    """Share of the relevant documents that were retrieved.

    Formula: |R ∩ G| / |G| over distinct documents; the chunk id ``doc-<urn:uuid:U>::chunk-N`` stands for the document
    ``<urn:uuid:U>``, ``id::chunk-N`` for ``id``. 0 to 1; nothing retrieved: 0.0. Unscored: either list missing.

    Options: ``zero_division`` for no relevant documents (0.0, 1.0 or "skip"); ``id_pattern``, a regular expression
    whose first group is the document.
    Source: Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, chapter 8.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score(
    ...     "context_recall",
    ...     {"retrieved_doc_ids": ["a::chunk-2", "x"], "gold_doc_ids": ["a", "b"]},
    ... ).value
    0.5
    """

    def measure(match: Match) -> tuple[float, Text]:
        return len(match.correct) / len(match.gold), _reason("recall", match)

    return score_documents(retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, measure)


@metric(source="Manning, Raghavan and Schütze (2008)", aliases=("context_precision_evaluator",))
def context_precision(
    retrieved_doc_ids: Sequence[str],
    gold_doc_ids: Sequence[str],
    *,
    zero_division: ZeroDivision = 0.0,
    id_pattern: IdPattern = None,
) -> Score:
    """Share of the retrieved documents that are relevant.

    Formula: |R ∩ G| / |R| over distinct documents, as in ``context_recall``. 0 to 1; nothing retrieved: 0.0.
    Unscored: either list missing. Options: ``zero_division`` for no relevant documents, ``id_pattern``.
    Source: Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, chapter 8.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score(
    ...     "context_precision",
    ...     {"retrieved_doc_ids": ["a", "x", "y"], "gold_doc_ids": ["a"]},
    ... ).reason
    '1 of 3 retrieved documents is relevant.'
    """

    def measure(match: Match) -> tuple[float, Text]:
        return len(match.correct) / max(1, len(match.retrieved)), _reason("precision", match)

    return score_documents(retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, measure)


@metric(source="Manning, Raghavan and Schütze (2008)", aliases=("context_f1_evaluator",))
def context_f1(
    retrieved_doc_ids: Sequence[str],
    gold_doc_ids: Sequence[str],
    *,
    zero_division: ZeroDivision = 0.0,
    id_pattern: IdPattern = None,
) -> Score:
    """Harmonic mean of the precision and the recall of the retrieved documents.

    Formula: 2PR / (P + R) with ``context_precision`` and ``context_recall``. 0 to 1; nothing relevant retrieved: 0.0.
    Unscored: either list missing. Options: ``zero_division`` for no relevant documents, ``id_pattern``.
    Source: Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, chapter 8.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score(
    ...     "context_f1", {"retrieved_doc_ids": ["a", "x"], "gold_doc_ids": ["a"]}
    ... ).value
    0.6666666666666666
    """

    def measure(match: Match) -> tuple[float, Text]:
        return 2 * len(match.correct) / (len(match.retrieved) + len(match.gold)), _reason("f1", match)

    return score_documents(retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, measure)


@metric(source="Järvelin and Kekäläinen (2002)", key="ndcg_{k}", key_pattern=r"(?i)ndcg[_@]?(?P<k>\d+)")
def ndcg(
    retrieved_doc_ids: Sequence[str],
    gold_doc_ids: Sequence[str],
    *,
    k: Cutoff = 10,
    zero_division: ZeroDivision = 0.0,
    id_pattern: IdPattern = None,
) -> Score:
    """How far in front the relevant documents are ranked among the first k.

    Formula: DCG / ideal DCG with binary gain and discount 1 / log2(rank + 1), on distinct documents (repeats keep
    their first rank), the ideal over min(k, |G|): ``ndcg_cut`` of trec_eval. 0 to 1; nothing retrieved: 0.0.
    Unscored: either list missing. Options: ``k`` (1 or more), ``zero_division`` for no relevant documents,
    ``id_pattern``. Source: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> score = rm.score(
    ...     "ndcg_5", {"retrieved_doc_ids": ["x", "a"], "gold_doc_ids": ["a"]}
    ... )
    >>> round(score.value, 3), score.details["correct_docs_count"]
    (0.631, 1)
    """

    def measure(match: Match) -> tuple[float, Text]:
        value = gain(match, k)
        return value, _reason("ndcg", match, value)

    return score_documents(retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, measure)


def _reason(measure: str, match: Match, value: float = 0.0) -> Text:
    counts = {"correct": len(match.correct), "retrieved": len(match.retrieved), "n": len(match.gold)}
    return say(f"retrieval.{measure}", value=value, **counts)
