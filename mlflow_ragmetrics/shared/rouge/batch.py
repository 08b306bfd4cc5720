"""ROUGE of many pairs at once: token ids in arrays, and common subsequences of all pairs in a few long integers.

What ``overlap`` counts for one pair is counted here for many together, with the same numbers. The steps of a common
subsequence are those of ``lcs``; but the tokens of hundreds of references stand side by side in one integer, each with
an answer, or a line of one, so that a step of the interpreter moves them all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.core.text import normalize
from mlflow_ragmetrics.shared.rouge.overlap import Overlap, RougeKind, Tokenizer, overlap, stemmed

__all__ = ["overlaps"]

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Bits = NDArray[np.uint8]

_FEW = 16  # pairs: fewer are counted faster one by one
_LONG = 5000  # characters: tables of longer texts are too large to be kept together
_LINE, _TEXT = 0, 1  # the ids of what ends a line and a text
_BLOCK = 1 << 16  # bytes of one integer: some of them fit into the processor's cache
_TO_TOKENS = bytearray(b" " * 256)  # what becomes of each byte
_TO_TOKENS[ord("0") : ord("9") + 1] = b"0123456789"
_TO_TOKENS[ord("a") : ord("z") + 1] = b"abcdefghijklmnopqrstuvwxyz"
_TO_TOKENS[ord("\n")] = ord("|")
_TO_TOKENS[0xFF] = ord("#")  # no byte of UTF-8


def overlaps(
    answers: Sequence[str], references: Sequence[str], kind: RougeKind, tokenizer: Tokenizer, stemmer: bool
) -> list[Overlap]:
    """``overlap`` of each answer with its reference; the tokens of the same texts are found once for all kinds.

    >>> overlaps(["the cat sat"], ["the cat lay down"], "rouge2", "whitespace", False)
    [Overlap(matched=1, answer_units=2, reference_units=3)]
    """
    pairs = list(zip(answers, references, strict=True))
    short = [place for place, texts in enumerate(pairs) if max(map(len, texts)) <= _LONG]
    found: dict[int, Overlap] = {}
    if len(short) >= _FEW:
        sides = tuple(answers[place] for place in short), tuple(references[place] for place in short)
        found = dict(zip(short, _pairs_of(*sides, tokenizer, stemmer).overlaps(kind), strict=True))
    return [
        found[place] if place in found else overlap(*texts, kind, tokenizer, stemmer)
        for place, texts in enumerate(pairs)
    ]


@lru_cache(maxsize=2)
def _pairs_of(answers: tuple[str, ...], references: tuple[str, ...], tokenizer: Tokenizer, stemmer: bool) -> _Pairs:
    """The last ones are cached, as many variants score the same rows."""
    return _Pairs(answers, references, tokenizer, stemmer)


class _Entries(NamedTuple):
    """What is read step by step beside a reference: where its tokens start, how many they are, and of which pair."""

    starts: Ints
    sizes: Ints
    pairs: Ints


class _Pairs:
    """Answers and references, tokenised once for all kinds of ROUGE.

    Inside, pairs are sorted by the lengths of their answers, so that those of one block take equally many steps. The
    tokens of all answers come first, then those of all references. ``slots``: equal for equal tokens of one pair, and
    in the order of the pairs.
    """

    def __init__(self, answers: Sequence[str], references: Sequence[str], tokenizer: Tokenizer, stemmer: bool) -> None:
        size = self._size = len(answers)
        self._order = np.array(sorted(range(size), key=lambda pair: len(answers[pair])), dtype=np.int64)
        marked = _ids_of([side[pair] for side in (answers, references) for pair in self._order], tokenizer, stemmer)
        is_token = marked > _TEXT
        ids = marked[is_token]
        self._text = np.cumsum(marked == _TEXT)[is_token]
        self._is_first = np.diff(np.cumsum(~is_token)[is_token], prepend=-1) != 0  # of its line
        self._sizes = np.bincount(self._text, minlength=2 * size)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._answered = int(self._sizes[:size].sum())
        self._pair = self._text % max(1, size)
        self._slots = _slots(self._pair * (int(ids.max(initial=0)) + 1) + ids)

    def overlaps(self, kind: RougeKind) -> list[Overlap]:
        matched = {"rouge1": self._unigrams, "rouge2": self._bigrams, "rougeL": self._common}.get(kind, self._summary)()
        units = np.maximum(self._sizes - (kind == "rouge2"), 0)
        found = np.empty((3, self._size), np.int64)
        found[:, self._order] = matched, units[: self._size], units[self._size :]
        return list(map(Overlap, *found.tolist()))

    def _unigrams(self) -> Ints:
        return self._clipped(self._slots[: self._answered], self._slots[self._answered :], self._slots, self._pair)

    def _bigrams(self) -> Ints:
        inside = np.flatnonzero(self._text[1:] == self._text[:-1])
        slots = _slots(self._slots[inside] * (len(self._slots) + 1) + self._slots[inside + 1])
        answered = int(np.searchsorted(inside, self._answered - 1))
        return self._clipped(slots[:answered], slots[answered:], slots, self._pair[inside])

    def _clipped(self, own: Ints, others: Ints, slots: Ints, pairs: Ints) -> Ints:
        """By pair, how many of its ``own`` units find a partner among ``others``; ``pairs`` are those of ``slots``."""
        of_slot = _pair_of(slots, pairs)
        matched = np.minimum(np.bincount(own, minlength=len(of_slot)), np.bincount(others, minlength=len(of_slot)))
        return np.bincount(of_slot, matched, self._size).astype(np.int64)

    def _common(self) -> Ints:
        return self._common_lengths

    @cached_property
    def _common_lengths(self) -> Ints:
        found = np.zeros(self._size, np.int64)
        answers = _Entries(self._starts[: self._size], self._sizes[: self._size], np.arange(self._size))
        places = np.arange(len(self._text)) - self._starts[self._text]
        for block in self._blocks(answers, places):
            found[block.pairs] = block.common().sum(axis=1)
        return found

    def _summary(self) -> Ints:
        """Tokens of the references' lines that the answers' lines match, each at most as often as it occurs there."""
        starts = np.flatnonzero(self._is_first)
        sizes = np.diff(starts, append=len(self._text))
        text = self._text[starts]
        lines = np.bincount(text, minlength=2 * self._size)
        is_single = (lines[: self._size] == 1) & (lines[self._size :] == 1)
        chosen = np.flatnonzero((text < self._size) & ~is_single[text % max(1, self._size)])
        places = np.arange(len(self._text)) - self._starts[self._text]  # and a free bit after each line
        places += np.cumsum(self._is_first) - np.cumsum(self._is_first)[self._starts[self._text]]
        is_matched = np.zeros(len(self._text), bool)
        for block in self._blocks(_Entries(starts[chosen], sizes[chosen], text[chosen]), places):
            firsts = np.flatnonzero(np.diff(block.pairs, prepend=-1))
            union = np.bitwise_or.reduceat(block.matched(), firsts, axis=0)
            references = block.pairs[firsts] + self._size
            tokens = _ranges(self._starts[references], self._sizes[references])
            own = np.repeat(np.arange(len(firsts)), self._sizes[references])
            is_matched[tokens] |= union[own, places[tokens]].astype(bool)
        others = self._slots[self._answered :][is_matched[self._answered :]]
        found = self._clipped(others, self._slots[: self._answered], self._slots, self._pair)
        return np.where(is_single, self._common_lengths, found) if is_single.any() else found

    def _blocks(self, entries: _Entries, places: Ints) -> Iterator[_Block]:
        """The entries, some at a time, with their references; ``places``: the bit of each token of these."""
        last = np.zeros(self._size, np.int64)
        np.maximum.at(last, self._pair[self._answered :], places[self._answered :])
        widths = (last + 2 + 7) // 8  # bytes, a free bit at the end
        first_slots = np.searchsorted(_pair_of(self._slots, self._pair), np.arange(self._size + 1))
        ends = self._starts + self._sizes
        begin = 0
        while begin < len(entries.pairs):
            end = begin + max(1, _BLOCK // int(widths[entries.pairs[begin]]))
            first = int(entries.pairs[begin])
            width = int(widths[first : entries.pairs[:end][-1] + 1].max())
            end = min(end, begin + max(1, _BLOCK // width))
            part = _Entries(*(column[begin:end] for column in entries))
            after = int(part.pairs[-1]) + 1
            tokens = slice(self._starts[first + self._size], ends[after - 1 + self._size])
            where, bits = places[tokens] >> 3, np.left_shift(1, places[tokens] & 7).astype(np.uint8)
            slots = int(first_slots[after] - first_slots[first])
            masks = np.zeros((slots + 1, width), np.uint8)  # the last one is that of no token
            np.bitwise_or.at(masks.ravel(), (self._slots[tokens] - first_slots[first]) * width + where, bits)
            full = np.zeros((after - first, width), np.uint8)
            np.bitwise_or.at(full.ravel(), (self._pair[tokens] - first) * width + where, bits)
            steps = np.full((len(part.pairs), int(part.sizes.max())), slots)  # their last tokens are read together
            read = self._slots[_ranges(part.starts, part.sizes)] - first_slots[first]
            steps[np.arange(steps.shape[1]) >= (steps.shape[1] - part.sizes)[:, None]] = read
            yield _Block(part.pairs, masks, steps.T.copy(), full[part.pairs - first])
            begin = end


class _Block:
    """Entries side by side in one integer: all places of their references, and for each step where its tokens stand."""

    def __init__(self, pairs: Ints, masks: Bytes, steps: Ints, full: Bytes) -> None:
        self.pairs = pairs
        self.full = int.from_bytes(full.tobytes(), "little")
        self._shape = full.shape
        self._masks, self._steps = masks, steps

    def common(self) -> Bits:
        """By entry, where its longest common subsequence grows."""
        *_, (_, row) = chain([(0, self.full)], self._rows())
        return self._bits(self.full ^ row)

    def matched(self) -> Bits:
        """By entry, the places of one longest common subsequence of each line of the reference, as ``lcs.Lines``."""
        inner = within = self.full & self.full >> 1  # places that are not the last ones of their lines
        shifts: list[tuple[int, int]] = []
        while within:
            shift = 1 << len(shifts)
            shifts.append((shift, within))
            within &= within >> shift
        matched, left = 0, self.full
        for bits, row in reversed(list(self._rows())):
            reached = left & (bits | self.full ^ row)
            for shift, mask in shifts:
                reached |= reached >> shift & mask
            hit = (reached ^ (reached >> 1 & inner)) & bits  # the highest place reached in each line, where it matches
            matched |= hit
            left = reached ^ hit
        return self._bits(matched)

    def _rows(self) -> Iterator[tuple[int, int]]:
        """For each step where its tokens stand, and where the table has not grown once they are read."""
        full = row = self.full
        for step in self._steps:
            bits = int.from_bytes(self._masks[step].tobytes(), "little")
            grown = row & bits
            row = ((row + grown) | (row - grown)) & full
            yield bits, row

    def _bits(self, places: int) -> Bits:
        found = np.frombuffer(places.to_bytes(self._shape[0] * self._shape[1], "little"), np.uint8)
        return np.unpackbits(found.reshape(self._shape), axis=1, bitorder="little")


def _ids_of(texts: Sequence[str], tokenizer: Tokenizer, stemmer: bool) -> Ints:
    """The tokens of all texts as ids from 2, with ``_LINE`` where a line ends and ``_TEXT`` where a text does."""
    tokens: list[Any]
    line: str | bytes
    end: str | bytes
    if tokenizer == "whitespace":
        normal = [normalize("NFC", text) for text in texts]
        mark = "\0"
        while any(mark in text for text in normal):
            mark += "\0"
        line, end = mark, mark + mark
        tokens = f" {end} ".join(normal).replace("\n", f" {line} ").split()
    else:
        line, end = b"|", b"#"
        encoded = b"\xff".join([text.lower().encode("utf-8", "surrogatepass") for text in texts])
        tokens = encoded.translate(_TO_TOKENS).replace(b"|", b" | ").replace(b"#", b" # ").split()
    known: defaultdict[Any, int] = defaultdict(count(2).__next__, {line: _LINE, end: _TEXT})
    ids = np.fromiter(map(known.__getitem__, tokens), np.int64, len(tokens))
    if not stemmer:
        return ids
    stems: defaultdict[str, int] = defaultdict(count(2).__next__)
    return np.array([_LINE, _TEXT, *(stems[stemmed(token.decode())] for token in list(known)[2:])])[ids]


def _slots(keys: Ints) -> Ints:
    """The same number for equal keys, from 0, in the order of the keys."""
    order = np.argsort(keys)
    slots = np.empty(len(keys), np.int64)
    slots[order] = np.cumsum(np.diff(keys[order], prepend=keys[order[:1]]) != 0)
    return slots


def _pair_of(slots: Ints, pairs: Ints) -> Ints:
    """The pair of each slot."""
    found = np.zeros(int(slots.max(initial=-1)) + 1, np.int64)
    found[slots] = pairs
    return found


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """The numbers from each start on, so many of them, one range after another."""
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
