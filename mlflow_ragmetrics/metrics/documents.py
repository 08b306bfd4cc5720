"""Retrieved and relevant documents: their ids, counts and ranks, and run-level figures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import compress, count, repeat
from typing import Annotated, Literal, Union

from pydantic import AfterValidator, Field

from mlflow_ragmetrics.core.score import CompactItems, Score, Verdict
from mlflow_ragmetrics.text.messages import Text, said, say

_MARKS = ("::chunk-", "<urn:uuid:")
_CHUNK = re.compile(r"(?:doc-(?=<urn:uuid:))?(?P<document>.+)::chunk-\d+", re.DOTALL)
_WRAPPED = re.compile(r"doc-(?P<document><urn:uuid:[^>]*>)")


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


def _zero_or_one(value: float | str) -> float | str:
    if value not in (0.0, 1.0, "skip"):
        raise ValueError("use 0.0, 1.0 or 'skip'")
    return value


IdPattern = Annotated[str, AfterValidator(_compiles)] | None
"""A regular expression whose first group, or else its whole match, is the document of a chunk id."""

ZeroDivision = Annotated[Union[float, Literal["skip"]], AfterValidator(_zero_or_one)]
"""The score of a row without relevant documents."""

Cutoff = Annotated[int, Field(ge=1, strict=True)]
"""The number of ranks that count."""


@dataclass(frozen=True)
class Match:
    """The distinct documents of one row: retrieved ones in rank order, relevant ones, and those that are both."""

    retrieved: tuple[str, ...]
    gold: tuple[str, ...]
    correct: frozenset[str]

    @property
    def counts(self) -> dict[str, int]:
        """The counts, by their names in ``Score.details``."""
        return {
            "retrieved_docs_count": len(self.retrieved),
            "gold_docs_count": len(self.gold),
            "correct_docs_count": len(self.correct),
        }

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks, from 1, of the relevant documents among the retrieved ones."""
        return tuple(compress(count(1), map(self.correct.__contains__, self.retrieved)))

    def score(self, value: float | None, reason: Text, zero_division: float | str) -> Score:
        """A score with the counts and one item per document, created on first access.

        Without relevant documents, the value is ``zero_division``.
        """
        if not self.gold:
            value, reason = None if isinstance(zero_division, str) else zero_division, say("retrieval.no_gold")
        return Score(value=value, reason=reason, details=self.counts).with_items(DocumentItems(self))


class DocumentItems(CompactItems):
    """The retrieved documents in rank order, FOUND if relevant, else NOT_FOUND; then the missed documents."""

    __slots__ = ()
    kind = "document"
    source: Match

    def columns(self) -> tuple[Sequence[str], Sequence[Verdict], Sequence[str]]:
        """The documents, whether they are relevant and retrieved, and their ranks."""
        retrieved, correct = self.source.retrieved, self.source.correct
        missed = [document for document in self.source.gold if document not in correct]
        verdicts: list[Verdict] = ["FOUND" if document in correct else "NOT_FOUND" for document in retrieved]
        reasons = [_reason(rank, verdict, self.language) for rank, verdict in enumerate(verdicts, 1)]
        verdicts += repeat("NOT_FOUND", len(missed))
        reasons += repeat(_reason(None, "NOT_FOUND", self.language), len(missed))
        return [*retrieved, *missed], verdicts, reasons


@lru_cache(maxsize=4096)
def _reason(rank: int | None, verdict: Verdict, language: str) -> str:
    if rank is None:
        return said("retrieval.missed", language)
    return said("retrieval.rank" if verdict == "FOUND" else "retrieval.irrelevant", language, rank=rank)


def document_id(chunk_id: str, pattern: re.Pattern[str] | None = None) -> str:
    """The document of a chunk: ``doc-<urn:uuid:U>::chunk-N`` gives ``<urn:uuid:U>``, ``id::chunk-N`` gives ``id``.

    Other ids are unchanged. A ``pattern`` replaces these rules: the document is its first group, or else its whole
    match; an id without a match is unchanged.
    >>> document_id("doc-<urn:uuid:7>::chunk-0"), document_id("doc-42::chunk-3"), document_id("doc-7")
    ('<urn:uuid:7>', 'doc-42', 'doc-7')
    """
    if pattern is not None:
        found = pattern.search(chunk_id)
        return chunk_id if found is None else (found[1] if pattern.groups and found[1] is not None else found[0])
    if not any(mark in chunk_id for mark in _MARKS):
        return chunk_id
    match = _CHUNK.fullmatch(chunk_id) or _WRAPPED.fullmatch(chunk_id)
    return match["document"] if match else chunk_id


def match_documents(retrieved: Sequence[str], gold: Sequence[str], id_pattern: IdPattern = None) -> Match:
    """The distinct documents of both lists; repeats keep their first rank."""
    return _matched(tuple(retrieved), tuple(gold), id_pattern)


@lru_cache(maxsize=4)  # several metrics use the same row
def _matched(retrieved: tuple[str, ...], gold: tuple[str, ...], id_pattern: IdPattern) -> Match:
    documents, relevant = (dict.fromkeys(_document_ids(ids, id_pattern)) for ids in (retrieved, gold))
    return Match(tuple(documents), tuple(relevant), frozenset(documents.keys() & relevant.keys()))


def _document_ids(chunk_ids: Sequence[str], id_pattern: IdPattern) -> Sequence[str]:
    joined = "\n".join(chunk_ids)
    if not id_pattern and not any(mark in joined for mark in _MARKS):
        return chunk_ids  # most ids are those of documents; one search is faster than one per id
    pattern = re.compile(id_pattern) if id_pattern else None
    return [document_id(chunk_id, pattern) for chunk_id in chunk_ids]


def gain(match: Match, k: int) -> float:
    """Normalised discounted cumulative gain at ``k``, 0 to 1: binary gain, discount 1 / log2(rank + 1).

    The ideal ranking has min(k, relevant documents) at the top, as in trec_eval's ``ndcg_cut``. 0.0 without relevant
    documents.
    """
    if not match.correct:
        return 0.0
    gain_of_ranks = math.fsum(discount(rank) for rank in match.ranks if rank <= k)
    return gain_of_ranks / _ideal(min(k, len(match.gold)))


def discount(rank: int) -> float:
    """The weight of a rank from 1 in discounted cumulative gain."""
    return 1.0 / math.log2(rank + 1)


@lru_cache(maxsize=1024)
def _ideal(relevant: int) -> float:
    return math.fsum(discount(rank) for rank in range(1, relevant + 1))


@dataclass
class RetrievalCounts:
    """Running counts for the run-level retrieval figures.

    ``keys``: the retrieval metrics. ``rows``: rows scored by any of them. ``with_gold``: those rows that have relevant
    documents; ``some`` and ``every`` count the ones with at least one, or all, retrieved.
    """

    keys: dict[str, None] = field(default_factory=dict)
    rows: int = 0
    with_gold: int = 0
    some: int = 0
    every: int = 0

    def add(self, scores: Mapping[str, Score]) -> None:
        """Add a row's scores to the counts."""
        details_by_key = {key: s.details for key, s in scores.items() if s.scored and "gold_docs_count" in s.details}
        if details_by_key:
            self.keys |= dict.fromkeys(details_by_key)
            counts = next(iter(details_by_key.values()))
            gold, correct = counts["gold_docs_count"], counts["correct_docs_count"]
            self.rows += 1
            self.with_gold += gold > 0
            self.some += correct > 0
            self.every += 0 < gold == correct

    def figures(self, means: Mapping[str, float]) -> dict[str, float]:
        """The run-level figures; ``means`` holds ``<key>/mean``.

        They are the means of the metrics (``avg_context_recall``, ``avg_context_precision``, ``avg_context_f1``; others
        under their keys, such as ``ndcg_k`` and ``mrr``), ``sample_count`` (rows scored by any retrieval metric), and,
        over those of these rows that have relevant documents, ``pct_records_with_at_least_one_ref`` and
        ``pct_records_with_all_refs`` (0 to 100). Figures without any row are left out.
        """
        # the suite's prefix, if there is one, stays in front
        names = {key: re.sub("context_(?=(?:recall|precision|f1)$)", "avg_context_", key) for key in self.keys}
        figures: dict[str, float] = {name: means[f"{key}/mean"] for key, name in names.items()}
        if self.rows:
            figures["sample_count"] = self.rows
        if self.with_gold:
            figures["pct_records_with_at_least_one_ref"] = 100.0 * self.some / self.with_gold
            figures["pct_records_with_all_refs"] = 100.0 * self.every / self.with_gold
        return figures
