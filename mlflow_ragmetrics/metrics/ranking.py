"""Did the retriever rank the relevant documents first? The measures of trec_eval, on distinct documents."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.documents import Cutoff, IdPattern, Match, ZeroDivision, score_documents
from mlflow_ragmetrics.text.messages import Text, say

__all__ = ["average_precision", "hit_rate_k", "mrr", "precision_k", "recall_k"]


@metric(
    source="trec_eval",
    key="precision_{k}",
    key_pattern=r"(?i)(?:precision|p)(?:_at_|[_@])?(?P<k>\d+)",
    aliases=("precision_at_k",),
)
def precision_k(
    retrieved_doc_ids: Sequence[str],
    gold_doc_ids: Sequence[str],
    *,
    k: Cutoff = 10,
    zero_division: ZeroDivision = 0.0,
    id_pattern: IdPattern = None,
) -> Score:
    """Share of the first k ranks that hold a relevant document.

    Formula: relevant documents among the first k / k, also where fewer than k were retrieved; documents as in
    ``context_recall``, and repeats keep their first rank. 0 to 1; nothing retrieved: 0.0. Unscored: either list
    missing.

    Options: ``k`` (1 or more), ``zero_division`` for no relevant documents (0.0, 1.0 or "skip"), ``id_pattern``.
    Source: trec_eval, ``P``.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> gold = ["a", "b", "c"]
    >>> record = {"retrieved_doc_ids": ["a", "x", "b"], "gold_doc_ids": gold}
    >>> score = rm.score("precision_5", record)
    >>> score.value, score.reason
    (0.4, '2 of the first 5 ranks hold a relevant document (3 retrieved).')
    """

    def measure(match: Match) -> tuple[float, Text]:
        found = _found(match, k)
        return found / k, say("retrieval.precision_k", found=found, k=k, retrieved=len(match.retrieved))

    return score_documents(retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, measure)


@metric(
    source="trec_eval",
    key="recall_{k}",
    key_pattern=r"(?i)(?:recall|r)(?:_at_|[_@])?(?P<k>\d+)",
    aliases=("recall_at_k",),
)
def recall_k(
    retrieved_doc_ids: Sequence[str],
    gold_doc_ids: Sequence[str],
    *,
    k: Cutoff = 10,
    zero_division: ZeroDivision = 0.0,
    id_pattern: IdPattern = None,
) -> Score:
    """Share of the relevant documents that are among the first k.

    Formula: relevant documents among the first k / relevant documents; documents as in ``context_recall``, and
    repeats keep their first rank. 0 to 1; nothing retrieved: 0.0. Unscored: either list missing.

    Options: ``k`` (1 or more), ``zero_division`` for no relevant documents (0.0, 1.0 or "skip"), ``id_pattern``.
    Source: trec_eval, ``recall``.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"retrieved_doc_ids": ["x", "a", "b"], "gold_doc_ids": ["a", "b"]}
    >>> rm.score("recall_2", record).value
    0.5
    """

    def measure(match: Match) -> tuple[float, Text]:
        found, n = _found(match, k), len(match.gold)
        return found / n, say("retrieval.recall_k", found=found, n=n, k=k)

    return score_documents(retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, measure)


@metric(
    source="trec_eval",
    key="hit_rate_{k}",
    key_pattern=r"(?i)(?:hit_?rate|hits?|success)(?:_at_|[_@])?(?P<k>\d+)",
    aliases=("hit_rate", "hit_rate_at_k"),
)
def hit_rate_k(
    retrieved_doc_ids: Sequence[str],
    gold_doc_ids: Sequence[str],
    *,
    k: Cutoff = 10,
    zero_division: ZeroDivision = 0.0,
    id_pattern: IdPattern = None,
) -> Score:
    """Whether any of the first k documents is relevant; the mean over rows is the hit rate.

    Formula: 1.0 where a relevant document is among the first k, else 0.0; documents as in ``context_recall``, and
    repeats keep their first rank. 0 to 1; nothing retrieved: 0.0. Unscored: either list missing.

    Options: ``k`` (1 or more), ``zero_division`` for no relevant documents (0.0, 1.0 or "skip"), ``id_pattern``.
    Source: trec_eval, ``success``.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"retrieved_doc_ids": ["x", "a"], "gold_doc_ids": ["a"]}
    >>> rm.score("hit_rate_1", record).value, rm.score("hit_rate_5", record).value
    (0.0, 1.0)
    """

    def measure(match: Match) -> tuple[float, Text]:
        if _found(match, k):
            return 1.0, say("retrieval.hit", rank=match.ranks[0], k=k)
        return 0.0, say("retrieval.no_hit", k=k)

    return score_documents(retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, measure)


@metric(source="trec_eval", aliases=("reciprocal_rank", "mean_reciprocal_rank", "recip_rank"))
def mrr(
    retrieved_doc_ids: Sequence[str],
    gold_doc_ids: Sequence[str],
    *,
    zero_division: ZeroDivision = 0.0,
    id_pattern: IdPattern = None,
) -> Score:
    """Reciprocal rank of the first relevant document; the mean over rows is the MRR.

    Formula: 1 / rank of the first relevant document; documents as in ``context_recall``, and repeats keep their first
    rank. 0 to 1; no relevant document retrieved: 0.0. Unscored: either list missing.

    Options: ``zero_division`` for no relevant documents (0.0, 1.0 or "skip"), ``id_pattern``.
    Source: trec_eval, ``recip_rank``; Voorhees, "The TREC-8 question answering track report", 1999.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> gold = ["a", "b"]
    >>> record = {"retrieved_doc_ids": ["x", "y", "a", "b"], "gold_doc_ids": gold}
    >>> score = rm.score("mrr", record)
    >>> round(score.value, 3), score.reason
    (0.333, 'The first relevant document is at rank 3.')
    """

    def measure(match: Match) -> tuple[float, Text]:
        if match.ranks:
            return 1.0 / match.ranks[0], say("retrieval.first", rank=match.ranks[0])
        return 0.0, say("retrieval.none_found", retrieved=len(match.retrieved))

    return score_documents(retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, measure)


@metric(source="trec_eval", name="map", aliases=("average_precision", "mean_average_precision"))
def average_precision(
    retrieved_doc_ids: Sequence[str],
    gold_doc_ids: Sequence[str],
    *,
    zero_division: ZeroDivision = 0.0,
    id_pattern: IdPattern = None,
) -> Score:
    """Average precision of the ranking; the mean over rows is the MAP.

    Formula: the precision at the rank of each relevant document that was retrieved, summed / relevant documents;
    documents as in ``context_recall``, and repeats keep their first rank. 0 to 1; no relevant document retrieved: 0.0.
    Unscored: either list missing.

    Options: ``zero_division`` for no relevant documents (0.0, 1.0 or "skip"), ``id_pattern``.
    Source: trec_eval, ``map``; Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, chapter 8.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"retrieved_doc_ids": ["a", "x", "b"], "gold_doc_ids": ["a", "b"]}
    >>> round(rm.score("map", record).value, 3)  # (1/1 + 2/3) / 2
    0.833
    """

    def measure(match: Match) -> tuple[float, Text]:
        value = math.fsum(found / rank for found, rank in enumerate(match.ranks, 1)) / len(match.gold)
        counts = {"correct": len(match.correct), "retrieved": len(match.retrieved), "n": len(match.gold)}
        return value, say("retrieval.map", value=value, **counts)

    return score_documents(retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, measure)


def _found(match: Match, k: int) -> int:
    return sum(rank <= k for rank in match.ranks)
