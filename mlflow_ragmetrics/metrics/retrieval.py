"""Did the retriever find the relevant documents and rank them first? Measures over distinct documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mlflow_ragmetrics.core.metric import Metric, metric, named_as
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.context_relevance import judged_map, judged_mrr, judged_ndcg, judged_precision_k
from mlflow_ragmetrics.metrics.documents import Cutoff, IdPattern, Match, ZeroDivision, gain, match_documents
from mlflow_ragmetrics.text.messages import Text, say

Measured = tuple[float, Text]
_BOOK = "Manning, Raghavan and Schütze (2008)"


def _of_documents(measure: Callable[[Match], Measured]) -> Callable[..., Score]:
    """A metric function from a measure; rows without relevant documents get ``zero_division``."""

    def score(
        retrieved_doc_ids: Sequence[str],
        gold_doc_ids: Sequence[str],
        *,
        zero_division: ZeroDivision = 0.0,
        id_pattern: IdPattern = None,
    ) -> Score:
        match = match_documents(retrieved_doc_ids, gold_doc_ids, id_pattern)
        return match.score(*measure(match), zero_division)

    return named_as(measure, score)


def _of_first_ranks(
    name: str, *other_names: str, source: str = "trec_eval", **facts: Any
) -> Callable[[Callable[[Match, int], Measured]], Metric]:
    """Make a metric from a measure of the first ``k`` ranks. Its key is ``<name>_<k>``; ``<name>@<k>`` is accepted."""
    pattern = rf"(?i)(?:{'|'.join((name, *other_names))})(?:_at_|[_@])?(?P<k>\d+)"

    def metric_of(measure: Callable[[Match, int], Measured]) -> Metric:
        def score(
            retrieved_doc_ids: Sequence[str],
            gold_doc_ids: Sequence[str],
            *,
            k: Cutoff = 10,
            zero_division: ZeroDivision = 0.0,
            id_pattern: IdPattern = None,
        ) -> Score:
            match = match_documents(retrieved_doc_ids, gold_doc_ids, id_pattern)
            return match.score(*measure(match, k), zero_division)

        return metric(source=source, key=f"{name}_{{k}}", key_pattern=pattern, **facts)(named_as(measure, score))

    return metric_of


@metric(source=_BOOK, aliases=("context_recall_evaluator", "id_based_context_recall"))
@_of_documents
def context_recall(match: Match) -> Measured:
    """Share of the relevant documents that were retrieved.

    Formula: |R ∩ G| / |G| over distinct documents. The chunk id ``doc-<urn:uuid:U>::chunk-N`` belongs to the document
    ``<urn:uuid:U>``, ``id::chunk-N`` to ``id``. 0 to 1; nothing retrieved: 0.0. Unscored: either list missing.

    Options: ``zero_division``, the score without relevant documents (0.0, 1.0 or "skip"); ``id_pattern``, a regular
    expression whose first group is the document.
    Source: Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, chapter 8.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score(
    ...     "context_recall",
    ...     {"retrieved_doc_ids": ["a::chunk-2", "x"], "gold_doc_ids": ["a", "b"]},
    ... ).value
    0.5
    """
    return len(match.correct) / max(1, len(match.gold)), _reason("recall", match)


@metric(source=_BOOK, aliases=("context_precision_evaluator", "id_based_context_precision"))
@_of_documents
def context_precision(match: Match) -> Measured:
    """Share of the retrieved documents that are relevant.

    Formula: |R ∩ G| / |R| over distinct documents, as in ``context_recall``. 0 to 1; nothing retrieved: 0.0.
    Unscored: either list missing. Options: ``zero_division``, the score without relevant documents; ``id_pattern``.
    Source: Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, chapter 8.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score(
    ...     "context_precision",
    ...     {"retrieved_doc_ids": ["a", "x", "y"], "gold_doc_ids": ["a"]},
    ... ).reason
    '1 of 3 retrieved documents is relevant.'
    """
    return len(match.correct) / max(1, len(match.retrieved)), _reason("precision", match)


@metric(source=_BOOK, aliases=("context_f1_evaluator",))
@_of_documents
def context_f1(match: Match) -> Measured:
    """Harmonic mean of precision and recall of the retrieved documents.

    Formula: 2PR / (P + R) with ``context_precision`` and ``context_recall``. 0 to 1; nothing relevant retrieved: 0.0.
    Unscored: either list missing. Options: ``zero_division``, the score without relevant documents; ``id_pattern``.
    Source: Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, chapter 8.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score(
    ...     "context_f1", {"retrieved_doc_ids": ["a", "x"], "gold_doc_ids": ["a"]}
    ... ).value
    0.6666666666666666
    """
    value = 2 * len(match.correct) / max(1, len(match.retrieved) + len(match.gold))
    return value, _reason("f1", match)


@_of_first_ranks("ndcg", source="Järvelin and Kekäläinen (2002)", judged=judged_ndcg)
def ndcg(match: Match, k: int) -> Measured:
    """Normalised discounted cumulative gain: how high the relevant documents rank among the first k.

    Formula: DCG / ideal DCG with binary gain and discount 1 / log2(rank + 1), on distinct documents (repeats keep
    their first rank). The ideal covers min(k, |G|) documents, as in trec_eval's ``ndcg_cut``. 0 to 1; nothing
    retrieved: 0.0. Unscored: either list missing. Options: ``k`` (1 or more); ``zero_division``, the score without
    relevant documents; ``id_pattern``; ``gold="judge"``, which grades the passages instead (``judged_ndcg``).
    Source: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> score = rm.score(
    ...     "ndcg_5", {"retrieved_doc_ids": ["x", "a"], "gold_doc_ids": ["a"]}
    ... )
    >>> round(score.value, 3), score.details["correct_docs_count"]
    (0.631, 1)
    """
    value = gain(match, k)
    return value, _reason("ndcg", match, value)


@_of_first_ranks("precision", "p", aliases=("precision_at_k",), judged=judged_precision_k)
def precision_k(match: Match, k: int) -> Measured:
    """Share of the first k ranks with a relevant document.

    Formula: relevant documents among the first k / k, even if fewer than k were retrieved. Documents as in
    ``context_recall``; repeats keep their first rank. 0 to 1; nothing retrieved: 0.0. Unscored: either list missing.

    Options: ``k`` (1 or more); ``zero_division``, the score without relevant documents (0.0, 1.0 or "skip");
    ``id_pattern``; ``gold="judge"``, which grades the passages instead (``judged_precision_k``).
    Source: trec_eval, ``P``.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> gold = ["a", "b", "c"]
    >>> record = {"retrieved_doc_ids": ["a", "x", "b"], "gold_doc_ids": gold}
    >>> score = rm.score("precision_5", record)
    >>> score.value, score.reason
    (0.4, '2 of the first 5 ranks contain a relevant document (3 retrieved).')
    """
    n_found = _found(match, k)
    return n_found / k, say("retrieval.precision_k", found=n_found, k=k, retrieved=len(match.retrieved))


@_of_first_ranks("recall", "r", aliases=("recall_at_k",))
def recall_k(match: Match, k: int) -> Measured:
    """Share of the relevant documents that are among the first k.

    Formula: relevant documents among the first k / relevant documents. Documents as in ``context_recall``; repeats keep
    their first rank. 0 to 1; nothing retrieved: 0.0. Unscored: either list missing.

    Options: ``k`` (1 or more); ``zero_division``, the score without relevant documents (0.0, 1.0 or "skip");
    ``id_pattern``.
    Source: trec_eval, ``recall``.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"retrieved_doc_ids": ["x", "a", "b"], "gold_doc_ids": ["a", "b"]}
    >>> rm.score("recall_2", record).value
    0.5
    """
    n_found, n = _found(match, k), len(match.gold)
    return n_found / max(1, n), say("retrieval.recall_k", found=n_found, n=n, k=k)


@_of_first_ranks("hit_rate", "hitrate", "hits?", "success", aliases=("hit_rate", "hit_rate_at_k"))
def hit_rate_k(match: Match, k: int) -> Measured:
    """Whether any of the first k documents is relevant; the mean over rows is the hit rate.

    Formula: 1.0 if a relevant document is among the first k, else 0.0. Documents as in ``context_recall``; repeats keep
    their first rank. 0 to 1; nothing retrieved: 0.0. Unscored: either list missing.

    Options: ``k`` (1 or more); ``zero_division``, the score without relevant documents (0.0, 1.0 or "skip");
    ``id_pattern``.
    Source: trec_eval, ``success``.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"retrieved_doc_ids": ["x", "a"], "gold_doc_ids": ["a"]}
    >>> rm.score("hit_rate_1", record).value, rm.score("hit_rate_5", record).value
    (0.0, 1.0)
    """
    hit = _found(match, k) > 0
    reason = say("retrieval.hit", rank=match.ranks[0], k=k) if hit else say("retrieval.no_hit", k=k)
    return float(hit), reason


@metric(source="trec_eval", aliases=("reciprocal_rank", "mean_reciprocal_rank", "recip_rank"), judged=judged_mrr)
@_of_documents
def mrr(match: Match) -> Measured:
    """Reciprocal rank of the first relevant document; the mean over rows is the MRR.

    Formula: 1 / rank of the first relevant document. Documents as in ``context_recall``; repeats keep their first rank.
    0 to 1; no relevant document retrieved: 0.0. Unscored: either list missing.

    Options: ``zero_division``, the score without relevant documents (0.0, 1.0 or "skip"); ``id_pattern``;
    ``gold="judge"``, which grades the passages instead (``judged_mrr``).
    Source: trec_eval, ``recip_rank``; Voorhees, "The TREC-8 question answering track report", 1999.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> gold = ["a", "b"]
    >>> record = {"retrieved_doc_ids": ["x", "y", "a", "b"], "gold_doc_ids": gold}
    >>> score = rm.score("mrr", record)
    >>> round(score.value, 3), score.reason
    (0.333, 'The first relevant document is at rank 3.')
    """
    if not match.ranks:
        return 0.0, say("retrieval.none_found", retrieved=len(match.retrieved))
    return 1.0 / match.ranks[0], say("retrieval.first", rank=match.ranks[0])


@metric(source="trec_eval", name="map", aliases=("average_precision", "mean_average_precision"), judged=judged_map)
@_of_documents
def average_precision(match: Match) -> Measured:
    """Average precision of the ranking; the mean over rows is the MAP.

    Formula: sum of the precisions at the ranks of the relevant documents retrieved / relevant documents. Documents as
    in ``context_recall``; repeats keep their first rank. 0 to 1; no relevant document retrieved: 0.0. Unscored: either
    list missing.

    Options: ``zero_division``, the score without relevant documents (0.0, 1.0 or "skip"); ``id_pattern``;
    ``gold="judge"``, which grades the passages instead (``judged_map``).
    Source: trec_eval, ``map``; Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, chapter 8.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"retrieved_doc_ids": ["a", "x", "b"], "gold_doc_ids": ["a", "b"]}
    >>> round(rm.score("map", record).value, 3)  # (1/1 + 2/3) / 2
    0.833
    """
    precisions = [n_found / rank for n_found, rank in enumerate(match.ranks, 1)]
    value = math.fsum(precisions) / max(1, len(match.gold))
    return value, _reason("map", match, value)


def _found(match: Match, k: int) -> int:
    return sum(rank <= k for rank in match.ranks)


def _reason(measure: str, match: Match, value: float = 0.0) -> Text:
    counts = {"correct": len(match.correct), "retrieved": len(match.retrieved), "n": len(match.gold)}
    return say(f"retrieval.{measure}", value=value, **counts)
