"""What ROUGE counts: the tokens and units of answer and reference, and how many of them match."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple

from rapidfuzz.distance import LCSseq

from mlflow_ragmetrics.metrics.rouge.lcs import clipped_matches
from mlflow_ragmetrics.metrics.rouge.porter import stem
from mlflow_ragmetrics.text.terms import normalize

__all__ = [
    "Tokenizer",
    "Tokens",
    "sentence_tokens",
    "tokens_of",
    "Overlap",
    "RougeKind",
    "harmonic_mean",
    "overlap",
    "stemmed",
]

Tokenizer = Literal["whitespace", "rouge_score"]
Tokens = tuple[str, ...]

_ALPHANUMERICS = re.compile("[a-z0-9]+")
_SHORTEST_STEMMED = 4


@lru_cache(maxsize=16)
def tokens_of(text: str, tokenizer: Tokenizer, stemmer: bool) -> Tokens:
    """The tokens of ``text``; the last texts are cached, as many variants score the same row."""
    return tuple(chain.from_iterable(sentence_tokens(text, tokenizer, stemmer)))


@lru_cache(maxsize=16)
def sentence_tokens(text: str, tokenizer: Tokenizer, stemmer: bool) -> tuple[Tokens, ...]:
    """The tokens of each line of ``text`` that has any."""
    if tokenizer == "whitespace":
        lines = map(str.split, normalize("NFC", text).split("\n"))
    else:
        lines = map(_ALPHANUMERICS.findall, text.lower().split("\n"))
    return tuple(tuple(map(stemmed, tokens) if stemmer else tokens) for tokens in lines if tokens)


def stemmed(token: str) -> str:
    """The stem of ``token`` where it is long enough to be stemmed."""
    return stem(token) if len(token) >= _SHORTEST_STEMMED else token


RougeKind = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]


class Overlap(NamedTuple):
    """Matched units, and all units of either side."""

    matched: int
    answer_units: int
    reference_units: int

    @property
    def precision(self) -> float:
        """The share of the answer's units that match; 0.0 without units."""
        return self.matched / self.answer_units if self.answer_units else 0.0

    @property
    def recall(self) -> float:
        """The share of the reference's units that match; 0.0 without units."""
        return self.matched / self.reference_units if self.reference_units else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0.0 where nothing matches."""
        return harmonic_mean(self.precision, self.recall)


def harmonic_mean(precision: float, recall: float) -> float:
    """The harmonic mean of two shares; 0.0 where they are 0."""
    return 2 * precision * recall / (precision + recall) if precision else 0.0


def overlap(answer: str, reference: str, kind: RougeKind, tokenizer: Tokenizer, stemmer: bool) -> Overlap:
    """The overlap of two texts; what several kinds need of the same texts is computed once.

    >>> overlap("the cat sat", "the cat lay down", "rouge2", "whitespace", False)
    Overlap(matched=1, answer_units=2, reference_units=3)
    """
    if kind == "rougeLsum":
        lines, accepted = sentence_tokens(answer, tokenizer, stemmer), sentence_tokens(reference, tokenizer, stemmer)
        return Overlap(_summary_hits(lines, accepted), sum(map(len, lines)), sum(map(len, accepted)))
    tokens, others = tokens_of(answer, tokenizer, stemmer), tokens_of(reference, tokenizer, stemmer)
    if kind == "rougeL":
        return Overlap(_common(tokens, others), len(tokens), len(others))
    n = int(kind[-1])
    grams, expected = _ngrams(tokens, n), _ngrams(others, n)
    matched = sum(min(grams[gram], expected[gram]) for gram in grams.keys() & expected.keys())
    return Overlap(matched, max(0, len(tokens) - n + 1), max(0, len(others) - n + 1))


@lru_cache(maxsize=16)
def _ngrams(tokens: Tokens, n: int) -> Counter[Hashable]:
    return Counter(tokens) if n == 1 else Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


@lru_cache(maxsize=8)
def _common(tokens: Tokens, others: Tokens) -> int:
    return LCSseq.similarity(tokens, others)


@lru_cache(maxsize=8)
def _summary_hits(lines: tuple[Tokens, ...], accepted: tuple[Tokens, ...]) -> int:
    """Tokens of the reference's lines that the answer's lines match, each at most as often as it occurs there."""
    if len(lines) == len(accepted) == 1:
        return LCSseq.similarity(lines[0], accepted[0])
    return clipped_matches(accepted, lines)
