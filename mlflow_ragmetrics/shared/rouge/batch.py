"""ROUGE of many pairs at once: token ids in arrays, and the lines of all texts in a few long integers.

What ``overlap`` counts for one pair is counted here for many together, with the same numbers. The steps of
``rougeLsum`` are those of ``lcs.Lines``; but the tokens of hundreds of references stand side by side in one integer,
each with a line of an answer, so that a step of the interpreter moves them all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from mlflow_ragmetrics.core.text import normalize
from mlflow_ragmetrics.shared.rouge.overlap import RougeKind, Tokenizer, overlap, stemmed

__all__ = ["Counts", "Shares", "overlaps", "shares_of"]

Ints = NDArray[np.int64]
Bits = NDArray[np.uint8]
Counts = Ints
"""Matched units, units of the answers and units of the references (rows), by pair (columns)."""
Shares = NDArray[np.float64]

_FEW = 16  # pairs: fewer are counted faster one by one
_LONG = 5000  # characters: tables of longer texts are too large to be kept together
_TOGETHER = 2_000_000  # characters: two numbers of tokens and a place among them fit into 63 bits
_LINE, _TEXT = 0, 1  # the ids of what ends a line and a text
_BLOCK = 1 << 16  # bytes of one integer: some of them fit into the processor's cache
_TO_TOKENS = bytearray(b" " * 256)  # what becomes of each byte
_TO_TOKENS[ord("0") : ord("9") + 1] = b"0123456789"
_TO_TOKENS[ord("a") : ord("z") + 1] = b"abcdefghijklmnopqrstuvwxyz"
_TO_TOKENS[ord("\n")] = ord("|")
_TO_TOKENS[0xFF] = ord("#")  # no byte of UTF-8


def overlaps(
    answers: Sequence[str], references: Sequence[str], kind: RougeKind, tokenizer: Tokenizer, stemmer: bool
) -> Counts:
    """The ``overlap`` of each answer with its reference; the tokens of the same texts are found once for all kinds.

    >>> overlaps(["the cat sat"], ["the cat lay down"], "rouge2", "whitespace", False).tolist()
    [[1], [2], [3]]
    """
    answers, references = tuple(answers), tuple(references)
    found = np.zeros((3, len(answers)), np.int64)
    alone = set(range(len(answers)))
    for places, pairs in _blocks_of(answers, references, tokenizer, stemmer):
        found[:, places] = pairs.overlaps(kind)
        alone.difference_update(places)
    for place in alone:
        found[:, place] = overlap(answers[place], references[place], kind, tokenizer, stemmer)
    return found


def shares_of(counts: Counts) -> dict[str, Shares]:
    """Precision, recall and f1 by pair, as those of an ``Overlap``."""
    matched, own, others = counts
    precision, recall = matched / np.maximum(own, 1), matched / np.maximum(others, 1)
    f1 = 2 * precision * recall / np.where(matched, precision + recall, 1.0)
    return {"precision": precision, "recall": recall, "f1": f1}


@lru_cache(maxsize=2)
def _blocks_of(
    answers: tuple[str, ...], references: tuple[str, ...], tokenizer: Tokenizer, stemmer: bool
) -> list[tuple[list[int], _Pairs]]:
    """The pairs that are counted together, and their places; cached, as many variants score the same rows."""
    lengths = np.array([list(map(len, answers)), list(map(len, references))])
    short = np.flatnonzero(lengths.max(axis=0) <= _LONG)
    numbers = np.cumsum(lengths.sum(axis=0)[short]) // _TOGETHER
    blocks = []
    for part in np.split(short, np.flatnonzero(np.diff(numbers)) + 1):
        places = part.tolist()
        if len(places) >= _FEW:
            try:
                pairs = _Pairs([side[place] for side in (answers, references) for place in places], tokenizer, stemmer)
            except UnicodeEncodeError:  # a lone surrogate, which only Python's own strings have
                continue
            blocks.append((places, pairs))
    return blocks


class _Pairs:
    """Answers, and as many references after them, tokenised once for all kinds of ROUGE.

    ``slots``: equal for equal tokens of one pair, and in the order of the pairs. ``shared``: the tokens that stand on
    both sides of their pair; no others match.
    """

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer, stemmer: bool) -> None:
        self._size = len(texts) // 2
        marked = _ids_of(texts, tokenizer, stemmer)
        ends = np.flatnonzero(marked <= _TEXT)
        sizes = np.diff(ends, prepend=-1) - 1
        ends_text = marked[ends] == _TEXT
        self._line_texts = (np.cumsum(ends_text) - ends_text)[sizes > 0]
        self._lines = np.repeat(np.arange(len(self._line_texts)), sizes[sizes > 0])
        self._texts = self._line_texts[self._lines]
        self._sizes = np.bincount(self._texts, minlength=len(texts))
        self._answered = int(self._sizes[: self._size].sum())
        ids = marked[marked > _TEXT]
        pairs = self._texts % self._size
        self._slots = _slots(pairs * (int(ids.max(initial=0)) + 1) + ids)
        self._slot_pairs = _pair_of(self._slots, pairs)
        self._first_slots = np.searchsorted(self._slot_pairs, np.arange(self._size + 1))
        self._counts = _counts(self._slots, self._answered, len(self._slot_pairs))
        self._shared = self._counts.all(axis=0)[self._slots]

    def overlaps(self, kind: RougeKind) -> Counts:
        count_matched = {"rouge1": self._unigrams, "rouge2": self._bigrams, "rougeLsum": self._summary}.get(kind)
        matched = count_matched() if count_matched else self._common_lengths
        units = np.maximum(self._sizes - (kind == "rouge2"), 0)
        return np.stack([matched, units[: self._size], units[self._size :]])

    def _unigrams(self) -> Ints:
        return self._by_pair(self._counts.min(axis=0), self._slot_pairs)

    def _bigrams(self) -> Ints:
        firsts = np.flatnonzero(self._shared[1:] & self._shared[:-1] & (np.diff(self._texts) == 0))
        slots = _slots(self._slots[firsts] * len(self._slot_pairs) + self._slots[firsts + 1])
        pairs = _pair_of(slots, self._texts[firsts] % self._size)
        answered = int(np.searchsorted(firsts, self._answered))
        return self._by_pair(_counts(slots, answered, len(pairs)).min(axis=0), pairs)

    def _by_pair(self, counts: Ints, pairs: Ints) -> Ints:
        return np.bincount(pairs, counts, self._size).astype(np.int64)

    @cached_property
    def _common_lengths(self) -> Ints:
        """Of strings in which a character stands for each shared token."""
        texts = self._texts[self._shared]
        codes = self._slots[self._shared] - self._first_slots[texts % self._size]
        characters = codes.astype("<u4").tobytes().decode("utf-32-le")
        ends = np.cumsum(np.bincount(texts, minlength=2 * self._size)).tolist()
        sides = [characters[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        return np.array(list(map(LCSseq.similarity, sides[: self._size], sides[self._size :])), np.int64)

    def _summary(self) -> Ints:
        """Tokens of the references' lines that the answers' lines match, each at most as often as it occurs there."""
        lines, texts, size = self._lines, self._texts, self._size
        is_single = (np.bincount(self._line_texts, minlength=2 * size).reshape(2, -1) == 1).all(axis=0)
        kept = self._shared & ~is_single[texts % size]
        follows = kept[:-1] & (np.diff(lines) == 0)
        kept[1 : self._answered] |= follows[: max(0, self._answered - 1)]  # as in ``lcs.Lines``: the first foreign one
        own, others = np.split(np.flatnonzero(kept), [np.count_nonzero(kept[: self._answered])])
        starts = np.flatnonzero(np.diff(lines[own], prepend=-1))
        entries = _Entries(starts, np.diff(starts, append=len(own)), texts[own[starts]])
        firsts = np.searchsorted(texts[others], np.arange(size, 2 * size + 1))
        places = np.arange(len(others)) + np.cumsum(np.diff(lines[others], prepend=-1) != 0)  # a free bit after a line
        places -= places[firsts[texts[others] - size]]
        is_matched = np.zeros(len(others), bool)
        for block in self._blocks(entries, self._slots[own], self._slots[others], places, firsts):
            begins = np.flatnonzero(np.diff(block.pairs, prepend=-1))
            union = np.bitwise_or.reduceat(block.matched(), begins, axis=0)
            pairs = block.pairs[begins]
            sizes = firsts[pairs + 1] - firsts[pairs]
            tokens = _ranges(firsts[pairs], sizes)
            is_matched[tokens] |= union[np.repeat(np.arange(len(pairs)), sizes), places[tokens]].astype(bool)
        found = np.bincount(self._slots[others[is_matched]], minlength=len(self._slot_pairs))
        matched = self._by_pair(np.minimum(found, self._counts[0]), self._slot_pairs)
        return np.where(is_single, self._common_lengths, matched) if is_single.any() else matched

    def _blocks(self, entries: _Entries, slots: Ints, others: Ints, places: Ints, firsts: Ints) -> Iterator[_Block]:
        """The entries, some at a time, with their references.

        ``slots`` are those of the entries' tokens, ``others`` those of the references, which stand at the bits
        ``places``; ``firsts``: where the tokens of each reference begin.
        """
        widths = (np.append(places, 0)[firsts[1:] - 1] + 2 + 7) // 8  # bytes, a free bit at the end
        begin = 0
        while begin < len(entries.pairs):
            end = begin + max(1, _BLOCK // int(widths[entries.pairs[begin]]))
            first = int(entries.pairs[begin])
            width = int(widths[first : entries.pairs[:end][-1] + 1].max())
            end = min(end, begin + max(1, _BLOCK // width))
            part = _Entries(*(column[begin:end] for column in entries))
            after = int(part.pairs[-1]) + 1
            tokens = slice(firsts[first], firsts[after])
            first_slot, foreign = self._first_slots[first], self._first_slots[after] - self._first_slots[first]
            masks = np.zeros((foreign + 1, 8 * width), bool)  # the last one is that of foreign tokens
            masks[others[tokens] - first_slot, places[tokens]] = True
            full = np.zeros((after - first, 8 * width), bool)
            full[self._slot_pairs[others[tokens]] - first, places[tokens]] = True
            steps = np.full((len(part.pairs), int(part.sizes.max())), foreign)  # their last tokens are read together
            read = slots[part.starts[0] : part.starts[-1] + part.sizes[-1]] - first_slot
            steps[np.arange(steps.shape[1]) >= (steps.shape[1] - part.sizes)[:, None]] = read
            packed = [np.packbits(bits, axis=1, bitorder="little") for bits in (masks, full)]
            yield _Block(part.pairs, packed[0], steps.T.copy(), packed[1][part.pairs - first])
            begin = end


class _Entries(NamedTuple):
    """Lines of answers: where their tokens start, how many they are, and of which pair."""

    starts: Ints
    sizes: Ints
    pairs: Ints


class _Block:
    """Entries side by side in one integer: all places of their references, and for each step where its tokens stand."""

    def __init__(self, pairs: Ints, masks: Bits, steps: Ints, full: Bits) -> None:
        self.pairs = pairs
        self._full = int.from_bytes(full.tobytes(), "little")
        self._shape = full.shape
        self._masks, self._steps = masks, steps

    def matched(self) -> Bits:
        """By entry, the places of one longest common subsequence of each line of the reference, as ``lcs.Lines``."""
        inner = within = self._full & self._full >> 1  # places that are not the last ones of their lines
        shifts: list[tuple[int, int]] = []
        while within:
            shift = 1 << len(shifts)
            shifts.append((shift, within))
            within &= within >> shift
        matched, left = 0, self._full
        for bits, grown in reversed(list(self._rows())):
            reached = left & (bits | grown)
            for shift, mask in shifts:
                reached |= reached >> shift & mask
            hit = (reached ^ (reached >> 1 & inner)) & bits  # the highest place reached in each line, where it matches
            matched |= hit
            left = reached ^ hit
        found = np.frombuffer(matched.to_bytes(self._shape[0] * self._shape[1], "little"), np.uint8)
        return np.unpackbits(found.reshape(self._shape), axis=1, bitorder="little")

    def _rows(self) -> Iterator[tuple[int, int]]:
        """For each step where its tokens stand, and where the table has grown once they are read."""
        full = row = self._full
        for step in self._steps:
            bits = int.from_bytes(self._masks[step].tobytes(), "little")
            grown = row & bits
            row = ((row + grown) | (row - grown)) & full
            yield bits, full ^ row


def _ids_of(texts: Sequence[str], tokenizer: Tokenizer, stemmer: bool) -> Ints:
    """The tokens of all texts as ids from 2, with ``_LINE`` where a line ends and ``_TEXT`` where a text does."""
    import pyarrow as pa
    from pyarrow import compute

    if tokenizer == "whitespace":
        normal = [normalize("NFC", text) for text in texts]
        line = "\0"
        while any(line in text for text in normal):
            line += "\0"
        joined = f" {line}\0 ".join(["", *normal, ""]).replace("\n", f" {line} ")
        tokens = compute.utf8_split_whitespace(pa.array([line + joined.rstrip(" ")]))
    else:
        encoded = b"\xff".join([b"", *[text.lower().encode("utf-8", "surrogatepass") for text in texts], b""])
        joined = encoded.translate(_TO_TOKENS).replace(b"|", b" | ").replace(b"#", b" # ").decode("ascii")
        tokens = compute.ascii_split_whitespace(pa.array(["|" + joined.rstrip(" ")]))
    found = tokens.values.dictionary_encode()
    ids: Ints = found.indices.to_numpy()[2:]  # without the two with which it begins, that they have their ids
    if not stemmer:
        return ids
    stems: defaultdict[str, int] = defaultdict(count(2).__next__)
    return np.array([_LINE, _TEXT, *(stems[stemmed(token)] for token in found.dictionary.to_pylist()[2:])])[ids]


def _slots(keys: Ints) -> Ints:
    """The same number for equal keys, from 0, in the order of the keys."""
    bits = len(keys).bit_length()
    ordered = np.sort(keys << bits | np.arange(len(keys)))  # several times as fast as to sort only their places
    ranks = np.cumsum(np.diff(ordered >> bits, prepend=ordered[:1] >> bits) != 0)
    slots = np.empty(len(keys), np.int64)
    slots[ordered & ((1 << bits) - 1)] = ranks
    return slots


def _pair_of(slots: Ints, pairs: Ints) -> Ints:
    """The pair of each slot."""
    found = np.zeros(int(slots.max(initial=-1)) + 1, np.int64)
    found[slots] = pairs
    return found


def _counts(slots: Ints, answered: int, size: int) -> Ints:
    """How often each slot occurs among the answers' units, which come first, and among the references'."""
    return np.stack([np.bincount(side, minlength=size) for side in (slots[:answered], slots[answered:])])


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """The numbers from each start on, so many of them, one range after another."""
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
