"""The analysis of a text, made once for each content: its sentences and their terms."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from mlflow_ragmetrics.judges.wording.sentences import sentence_spans
from mlflow_ragmetrics.judges.wording.terms import Term, terms_of

__all__ = ["Recent", "Sentence", "sentences_of"]

_CHARACTERS_KEPT: Final = 400_000

Key = TypeVar("Key")
Value = TypeVar("Value")


class Sentence(NamedTuple):
    """A sentence: where it stands in its text, and its terms, their places counted in the text."""

    start: int
    end: int
    terms: tuple[Term, ...]


class Recent(Generic[Key, Value]):
    """The values made for the most recently asked keys, kept while their sizes sum to ``capacity`` at most."""

    def __init__(self, make: Callable[[Key], Value], size: Callable[[Key], int], capacity: int) -> None:
        self._make, self._size, self._capacity = make, size, capacity
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    def __call__(self, key: Key) -> Value:
        """The value of ``key``, made now or kept from before."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = self._make(key)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = value
                self._total += self._size(key)
            while self._total > self._capacity and len(self._kept) > 1:
                oldest, _ = self._kept.popitem(last=False)
                self._total -= self._size(oldest)
        return value


def _analyse(text: str) -> tuple[Sentence, ...]:
    terms = terms_of(text)
    sentences: list[Sentence] = []
    place = 0
    for start, end in sentence_spans(text):
        while place < len(terms) and terms[place].start < start:
            place += 1
        first = place
        while place < len(terms) and terms[place].start < end:
            place += 1
        sentences.append(Sentence(start, end, tuple(terms[first:place])))
    return tuple(sentences)


sentences_of = Recent(_analyse, len, _CHARACTERS_KEPT)
