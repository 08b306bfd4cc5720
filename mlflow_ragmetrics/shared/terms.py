"""The terms of a row's texts, counted once for all metrics, and the items that say which of them were found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial, wraps
from itertools import chain
from typing import NamedTuple, TypeVar

from mlflow_ragmetrics.core.score import Item, token_item
from mlflow_ragmetrics.core.text import sentences, terms, terms_of_each

__all__ = ["AnswerTerms", "answer_terms", "distinct_terms", "term_counts", "token_items"]

_TEXTS = 8  # the last ones, which are those of one row
_LONGEST_KEPT = 20_000

T = TypeVar("T")


def _kept(read: Callable[[str], T]) -> Callable[[str], T]:
    """``read`` that keeps what it read of the last texts, for the other metrics of a row; long texts are not kept."""
    kept = lru_cache(_TEXTS)(read)

    @wraps(read)
    def reading(text: str) -> T:
        return kept(text) if len(text) <= _LONGEST_KEPT else read(text)

    return reading


class AnswerTerms(NamedTuple):
    """The sentences of an answer, the terms of each, and how often each term occurs, in the order of first places."""

    sentences: Sequence[str]
    terms: Sequence[Sequence[str]]
    counts: Mapping[str, int]


@_kept
def answer_terms(answer: str) -> AnswerTerms:
    """What several metrics read of one answer.

    >>> answer_terms("The cat saw. The other cat?").terms
    [['the', 'cat', 'saw'], ['the', 'other', 'cat']]
    """
    found = sentences(answer)
    each = terms_of_each(found)
    in_pieces = answer.isascii()  # a piece that is no sentence has no term
    return AnswerTerms(found, each, Counter(chain.from_iterable(each) if in_pieces else terms(answer)))


@_kept
def term_counts(text: str) -> Mapping[str, int]:
    """How often each term of ``text`` occurs, in the order of their first places."""
    return Counter(terms(text))


@_kept
def distinct_terms(text: str) -> frozenset[str]:
    """The terms of ``text``, each once."""
    return frozenset(terms(text))


def token_items(terms: Iterable[str], found: Iterable[bool]) -> Callable[[], tuple[Item, ...]]:
    """What makes an item of each term when it is asked for, and takes little room until then.

    >>> [(item.text, item.verdict) for item in token_items(["cat", "dog"], [True, False])()]
    [('cat', 'FOUND'), ('dog', 'NOT_FOUND')]
    """
    return partial(_token_items, " ".join(terms), bytes(found))


def _token_items(joined: str, found: bytes) -> tuple[Item, ...]:
    return tuple(map(token_item, joined.split(), map(bool, found)))
