"""Did the retriever find the relevant documents, and rank them first?"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Literal, Union

from pydantic import AfterValidator, Field

from mlflow_ragmetrics.core.language import Text, say
from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.shared.retrieval import Match, gain, match_documents

__all__ = ["context_f1", "context_precision", "context_recall", "ndcg"]


def _compiles(pattern: str | None) -> str | None:
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
    return pattern


def _zero_or_one(value: float | str) -> float | str:
    if value not in (0.0, 1.0, "skip"):
        raise ValueError("use 0.0, 1.0 or 'skip'")
    return value


IdPattern = Annotated[str | None, AfterValidator(_compiles)]
ZeroDivision = Annotated[Union[float, Literal["skip"]], AfterValidator(_zero_or_one)]
Cutoff = Annotated[int, Field(ge=1, strict=True)]


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
    whose first group is the document. Source: seed 003.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score(
    ...     "context_recall",
    ...     {"retrieved_doc_ids": ["a::chunk-2", "x"], "gold_doc_ids": ["a", "b"]},
    ... ).value
    0.5
    """
    return _scored("recall", retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, _recall)


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
    Source: seed 003.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score(
    ...     "context_precision",
    ...     {"retrieved_doc_ids": ["a", "x", "y"], "gold_doc_ids": ["a"]},
    ... ).reason
    '1 of 3 retrieved documents is relevant.'
    """
    return _scored("precision", retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, _precision)


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
    Source: seed 003.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score(
    ...     "context_f1", {"retrieved_doc_ids": ["a", "x"], "gold_doc_ids": ["a"]}
    ... ).value
    0.6666666666666666
    """
    return _scored("f1", retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, _f1)


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
    ``id_pattern``. Source: seed 003; Järvelin and Kekäläinen, 2002.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> score = rm.score(
    ...     "ndcg_5", {"retrieved_doc_ids": ["x", "a"], "gold_doc_ids": ["a"]}
    ... )
    >>> round(score.value, 3), score.details["correct_docs_count"]
    (0.631, 1)
    """
    return _scored("ndcg", retrieved_doc_ids, gold_doc_ids, zero_division, id_pattern, lambda match: gain(match, k))


def _recall(match: Match) -> float:
    return len(match.correct) / len(match.gold)


def _precision(match: Match) -> float:
    return len(match.correct) / len(match.retrieved) if match.retrieved else 0.0


def _f1(match: Match) -> float:
    return 2 * len(match.correct) / (len(match.retrieved) + len(match.gold))


def _scored(
    kind: str,
    retrieved: Sequence[str],
    gold: Sequence[str],
    zero_division: float | str,
    id_pattern: str | None,
    measure: Callable[[Match], float],
) -> Score:
    match = match_documents(retrieved, gold, re.compile(id_pattern) if id_pattern else None)
    counts = match.counts
    if not match.gold:
        value = None if isinstance(zero_division, str) else zero_division
        return Score(value=value, reason=say("retrieval.no_gold"), details=counts, items=_items(match))
    value = measure(match)
    said = say(
        f"retrieval.{kind}",
        value=value,
        correct=len(match.correct),
        retrieved=len(match.retrieved),
        gold=len(match.gold),
        n=len(match.retrieved if kind == "precision" else match.gold),
    )
    return Score(value=value, reason=said, details=counts, items=_items(match))


@lru_cache(maxsize=4)  # several metrics look at the same row
def _items(match: Match) -> tuple[Item, ...]:
    """The retrieved documents in rank order, FOUND among the relevant ones or not, then those that were missed."""
    ranked = (
        Item("document", each, "FOUND" if each in match.correct else "NOT_FOUND", _at_rank(rank, each in match.correct))
        for rank, each in enumerate(match.retrieved, 1)
    )
    missed = (Item("document", each, "NOT_FOUND", _at_rank(None)) for each in match.gold if each not in match.correct)
    return (*ranked, *missed)


@lru_cache(maxsize=1024)
def _at_rank(rank: int | None, relevant: bool = True) -> Text:
    if rank is None:
        return say("retrieval.missed")
    return say("retrieval.rank" if relevant else "retrieval.irrelevant", rank=rank)
