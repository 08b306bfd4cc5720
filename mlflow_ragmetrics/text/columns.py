"""The words of many texts at once, in arrays: what several metrics read of the same rows.

A word is what stands between whitespace. No term, no sentence end and no blocked word reaches over whitespace, so that
each word is read once for all texts that have it. Texts that this does not serve are read ``alone``, one by one.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import chain, count, islice
from threading import RLock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.text.terms import ENDS_SENTENCE, HAS_CONTENT, READ_WHOLE, in_sentence, terms_of_word

__all__ = ["Sentences", "Terms", "Words", "words_of"]

Ints = NDArray[np.integer]
Bools = NDArray[np.bool_]

_LONG = 3000  # characters: the tables of longer texts are too large to be kept together
_MANY, _MOSTLY = 2000, 0.3  # words that were never seen, and their share: where there are more, arrays are slower
_COLUMNS = 4  # the last ones: answers, questions, references and contexts of the same rows
_TABLE = 1 << 22  # counts that are kept of them
_MOST_WORDS, _MOST_CHARACTERS, _MOST_FACTS = 50_000, 1_000_000, 16


class Terms(NamedTuple):
    """Terms of many texts in the order in which they stand there: their numbers, their texts, and how often."""

    ids: Ints
    texts: Ints
    counts: Ints

    def counts_in(self, others: Terms) -> Ints:
        """How often each of these terms occurs in the same text of ``others``, which are distinct ones."""
        found = np.zeros(len(self.ids), np.int64)
        if not len(self.ids) or not len(others.ids):
            return found
        is_own = np.zeros(1 + max(self.ids.max(), others.ids.max()), bool)
        is_own[self.ids] = True
        places = np.cumsum(is_own) - 1
        width = int(places[-1]) + 1
        known = is_own[others.ids]
        own_ids, ids, texts, counts = places[self.ids], places[others.ids[known]], others.texts[known], others.counts
        counts = counts[known]
        together = max(1, _TABLE // width)
        end = int(self.texts[-1]) + 1
        for first in range(0, end, together):
            last = min(first + together, end)
            own, other = (slice(*np.searchsorted(each, (first, last))) for each in (self.texts, texts))
            table = np.zeros((last - first) * width, np.uint16)
            table[(texts[other] - first) * width + ids[other]] = counts[other]
            found[own] = table[(self.texts[own] - first) * width + own_ids[own]]
        return found


class Sentences(NamedTuple):
    """Sentences of many texts: their ``texts``, the ``first`` word of each, their ``sizes`` in words, and ``of_words``.

    ``of_words`` is the number of each word's sentence, -1 where it stands in none. ``alone``: the texts whose sentences
    are to be read one by one.
    """

    texts: Ints
    first: Ints
    sizes: Ints
    of_words: Ints
    alone: Bools


class _Numbered:
    """Strings by number, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, texts: Iterable[str]) -> Ints:
        return np.fromiter(map(self._numbers.__getitem__, texts), np.int64)

    def since(self, start: int) -> list[str]:
        """All but the first ``start``."""
        return list(islice(self._numbers, start, None)) if start < len(self._numbers) else []

    def count_new(self, texts: Sequence[str]) -> int:
        return len(texts) - sum(map(self._numbers.__contains__, texts))


class _Lexicon:
    """Words by number, and what is known of each, found out once; for several threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._words, self._terms = _Numbered(), _Numbered()
        self._characters = 0
        self._facts: dict[Callable[[str], int], Ints] = {}
        self._of_words: tuple[Ints, Ints] = np.zeros(0, np.int64), np.zeros(0, np.int32)

    @property
    def is_full(self) -> bool:
        """Whether another should begin, as this one would become large."""
        sizes = (len(self._words), _MOST_WORDS), (self._characters, _MOST_CHARACTERS), (len(self._facts), _MOST_FACTS)
        return any(size > most for size, most in sizes)

    def count_new(self, words: Sequence[str]) -> int:
        """How many of these words were never seen."""
        return self._words.count_new(words)

    def numbers(self, words: Sequence[str]) -> Ints:
        """The number of each word, which it has from now on."""
        with self._lock:
            known = len(self._words)
            found = self._words.numbers(words)
            self._characters += sum(map(len, self._words.since(known)))
            return found

    def facts(self, read: Callable[[str], int]) -> Ints:
        """What ``read`` says of each word."""
        with self._lock:
            known: Ints = self._facts.get(read, np.zeros(0, np.int64))
            if new := self._words.since(len(known)):
                self._facts[read] = known = np.append(known, np.fromiter(map(read, new), np.int64, len(new)))
            return known

    def terms(self) -> tuple[Ints, Ints]:
        """How many terms each word has, and the terms of all."""
        with self._lock:
            sizes, terms = self._of_words
            if new := list(map(terms_of_word, self._words.since(len(sizes)))):
                sizes = np.append(sizes, np.fromiter(map(len, new), np.int64))
                terms = np.append(terms, self._terms.numbers(chain.from_iterable(new)).astype(np.int32))
                self._of_words = sizes, terms
            return self._of_words

    def names(self) -> list[str]:
        """What the terms are."""
        with self._lock:
            return self._terms.since(0)


class Words:
    """The words of texts: their numbers ``ids`` in the lexicon, and their ``texts``.

    A text that is ``blank``, or to be read ``alone``, is one empty word.
    """

    def __init__(self, texts: Sequence[str], lexicon: _Lexicon) -> None:
        self.alone: Bools = np.array([len(text) > _LONG or not _is_whole(text) for text in texts], bool)
        stripped = ["" if alone else text.strip() for text, alone in zip(texts, self.alone.tolist(), strict=True)]
        self.blank: Bools = np.array([not text for text in stripped], bool)
        vocabulary, words, firsts = _split(stripped)
        most = max(_MANY, _MOSTLY * len(words))
        if len(vocabulary) > most and lexicon.count_new(vocabulary) > most:
            self.alone[:] = True
            vocabulary, words, firsts = _split([""] * len(texts))
        self.size, self.lexicon, self.firsts = len(texts), lexicon, firsts
        self.ids: Ints = lexicon.numbers(vocabulary).astype(np.int32)[words]
        self.texts: Ints = np.repeat(np.arange(len(texts), dtype=np.int32), np.diff(firsts, append=len(words)))

    def read(self, facts: Callable[[str], int]) -> Ints:
        """What ``facts``, always the same function, says of each word."""
        found: Ints = self.lexicon.facts(facts)[self.ids]
        return found

    def by_text(self, texts: Ints, values: Ints | Bools | None = None) -> Ints:
        """How often each text is among ``texts``, or the sum of its values."""
        return np.bincount(texts, values, self.size).astype(np.int64)

    @cached_property
    def terms(self) -> tuple[Terms, Ints]:
        """All terms, and which word each of them is of."""
        sizes, terms = self.lexicon.terms()
        many = sizes[self.ids]
        words = np.repeat(np.arange(len(many)), many)
        firsts = (np.cumsum(sizes) - sizes)[self.ids] - (np.cumsum(many) - many)
        ids, once = terms[firsts[words] + np.arange(len(words))], np.broadcast_to(np.int64(1), len(words))
        return Terms(ids, self.texts[words], once), words

    @cached_property
    def distinct_terms(self) -> Terms:
        """Each term of a text where it first stands, with how often it occurs there."""
        ids, texts, _ = self.terms[0]
        bits = len(ids).bit_length()
        ordered = np.sort((texts.astype(np.int64) * (int(ids.max(initial=0)) + 1) + ids) << bits | np.arange(len(ids)))
        begins = np.flatnonzero(np.diff(ordered >> bits, prepend=-1))
        counts = np.zeros(len(ids), np.int64)
        counts[ordered[begins] & ((1 << bits) - 1)] = np.diff(begins, append=len(ordered))
        first = np.flatnonzero(counts)
        return Terms(ids[first], texts[first], counts[first])

    @cached_property
    def sentences(self) -> Sentences:
        """The sentences of the texts that have no Han or Kana and no sentence end within a word."""
        facts = self.read(in_sentence)
        begins = np.ones(len(facts), bool)
        begins[1:] = facts[:-1] & ENDS_SENTENCE > 0
        begins[self.firsts] = True
        first = np.flatnonzero(begins)
        has_content = np.bitwise_or.reduceat(facts, first) & HAS_CONTENT > 0
        numbers = np.where(has_content, np.cumsum(has_content) - 1, -1)[np.cumsum(begins) - 1]
        sizes = np.diff(first, append=len(facts))[has_content]
        first = first[has_content]
        alone = self.alone.copy()
        alone[self.texts[facts & READ_WHOLE > 0]] = True
        return Sentences(self.texts[first], first, sizes, numbers, alone)


def _split(texts: Sequence[str]) -> tuple[list[str], Ints, Ints]:
    """The distinct words of the texts, all words as places among them, and the place of each text's first word."""
    import pyarrow as pa
    from pyarrow import compute

    split = compute.utf8_split_whitespace(pa.array(texts, pa.string()))
    found = split.values.dictionary_encode()
    return found.dictionary.to_pylist(), found.indices.to_numpy(), split.offsets.to_numpy()[:-1]


def words_of(*columns: Iterable[str]) -> list[Words]:
    """The words of each column of texts; the last ones are kept, for the other metrics of the same rows."""
    lexicon = _in_use()
    return [_kept(tuple(texts), lexicon) for texts in columns]


_kept = lru_cache(maxsize=_COLUMNS)(Words)
_lexicons = [_Lexicon()]


def _in_use() -> _Lexicon:
    lexicon = _lexicons[0]
    if lexicon.is_full:
        lexicon = _lexicons[0] = _Lexicon()
    return lexicon


def _forget() -> None:
    _lexicons[0] = _Lexicon()
    _kept.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)  # a thread of the parent may have been about to change it


def _is_whole(text: str) -> bool:
    """Whether it has no half of a surrogate pair, which only Python's own strings have."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
