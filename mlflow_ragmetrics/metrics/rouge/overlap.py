"""ROUGE counts: the tokens and units of answers and references, and the number of matches.

Many pairs are counted together, in arrays. ``rougeLsum`` finds longest common subsequences with bit operations (H.
Hyyrö, "Bit-parallel LCS-length computation revisited", 2004), for one line of the answer and all lines of the reference
at once. The reference lines are adjacent, separated by a free bit that stops the carry of an addition. Among several
longest subsequences, it chooses the one that ``rouge_score`` finds: a backward walk through the full table that, on a
tie, drops the last token of the reference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import count, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from mlflow_ragmetrics.metrics.rouge.porter import stem
from mlflow_ragmetrics.text.sentences import normalize

RougeKind = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]
Tokenizer = Literal["whitespace", "rouge_score"]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]
Counts = Ints
"""Matched units, units of the answers and units of the references (rows), by pair (columns)."""

_TOGETHER = 1_500_000  # characters counted together
_LINE, _TEXT = 0, 1  # the ids that end a line and a text
_LANES = 1 << 12  # lines processed together; some of their arrays fit into the processor's cache
_TABLE = 1 << 20  # words stored for them
_SHORTEST_STEMMED = 4
_SURROGATES = {code: 0xF0000 + code for code in range(0xD800, 0xE000)}  # Arrow rejects lone surrogates
_TO_TOKENS = bytearray(b" " * 256)  # the replacement for each byte
_TO_TOKENS[ord("0") : ord("9") + 1] = b"0123456789"
_TO_TOKENS[ord("a") : ord("z") + 1] = b"abcdefghijklmnopqrstuvwxyz"
_TO_TOKENS[ord("\n")] = ord("|")
_TO_TOKENS[0xFF] = ord("#")  # not a byte of UTF-8


def overlaps(
    answers: Sequence[str], references: Sequence[str], kind: RougeKind, tokenizer: Tokenizer, stemmer: bool
) -> Counts:
    """Count the matched units of each answer and its reference, the answer's units and the reference's units.

    Texts are tokenised once for all kinds. ``rougeLsum`` needs memory proportional to the tokens of an answer's line
    times the tokens of the reference.

    >>> overlaps(["the cat sat"], ["the cat lay down"], "rouge2", "whitespace", False).tolist()
    [[1], [2], [3]]
    """
    blocks = _blocks_of(tuple(answers), tuple(references), tokenizer, stemmer)
    return np.concatenate([np.zeros((3, 0), np.int64), *(pairs.overlaps(kind) for pairs in blocks)], axis=1)


@lru_cache(maxsize=2)
def _blocks_of(
    answers: tuple[str, ...], references: tuple[str, ...], tokenizer: Tokenizer, stemmer: bool
) -> list[_Pairs]:
    """The pairs, in blocks that are counted together; cached because many variants score the same rows."""
    lengths = np.array([[*map(len, answers)], [*map(len, references)]]).sum(axis=0)
    ends = np.flatnonzero(np.diff(np.cumsum(lengths) // _TOGETHER)) + 1
    places = [0, *ends.tolist(), len(answers)]
    parts = [slice(*each) for each in pairwise(places) if each[0] < each[1]]
    return [_Pairs([*answers[part], *references[part]], tokenizer, stemmer) for part in parts]


class _Pairs:
    """Answers followed by their references, tokenised once for all kinds of ROUGE.

    ``slots``: equal for equal tokens of one pair, in the order of the pairs. ``shared``: the tokens that occur in both
    texts of their pair; no others match.
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
        self._on_both: Bools = self._counts.min(axis=0) > 0
        self._shared = self._on_both[self._slots]

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
        """Common subsequence lengths, of strings with one character per shared token."""
        texts = self._texts[self._shared]
        codes = self._slots[self._shared] - self._first_slots[texts % self._size]
        characters = codes.astype("<u4").tobytes().decode("utf-32-le")
        ends = np.cumsum(np.bincount(texts, minlength=2 * self._size)).tolist()
        sides = [characters[start:end] for start, end in pairwise([0, *ends])]
        return np.array(list(map(LCSseq.similarity, sides[: self._size], sides[self._size :])), np.int64)

    def _summary(self) -> Ints:
        """Tokens of the references' lines that the answers' lines match, clipped by token counts."""
        lines, size = self._lines, self._size
        is_single = (np.bincount(self._line_texts, minlength=2 * size).reshape(2, -1) == 1).all(axis=0)
        kept = self._shared & ~is_single[self._texts % size]
        follows = kept[:-1] & (np.diff(lines) == 0)
        # also keep one token after a shared one: it can decide a tie
        kept[1 : self._answered] |= follows[: max(0, self._answered - 1)]
        own, others = np.split(np.flatnonzero(kept), [np.count_nonzero(kept[: self._answered])])
        others = others[self._is_matched(own, others)]
        found = np.bincount(self._slots[others], minlength=len(self._slot_pairs))
        matched = self._by_pair(np.minimum(found, self._counts[0]), self._slot_pairs)
        return np.where(is_single, self._common_lengths, matched) if is_single.any() else matched

    def _is_matched(self, own: Ints, others: Ints) -> Bools:
        """Which of the references' tokens ``others`` match some line of the answers' tokens ``own``.

        Each token of a reference is a bit. A free bit follows each line.
        """
        pairs = self._texts[others] - self._size
        bits = np.arange(len(others)) + np.cumsum(np.diff(self._lines[others], prepend=-1) != 0)
        bits -= bits[np.searchsorted(pairs, pairs)]
        words, bits = bits >> 6, np.left_shift(np.uint64(1), (bits & 63).astype(np.uint64))
        many = np.zeros(self._size, np.int64)
        np.maximum.at(many, pairs, words + 1)
        places = (np.cumsum(many) - many)[pairs] + words
        full = _joined(places, bits, int(many.sum()))
        widths = np.where(self._on_both, many[self._slot_pairs], 0)
        end = int(widths.sum())  # the words for tokens that are not in the reference
        masks_of = np.where(widths, np.cumsum(widths) - widths, end)
        masks = _joined(masks_of[self._slots[others]] + words, bits, end + int(many.max(initial=0)))

        starts = np.flatnonzero(np.diff(self._lines[own], prepend=-1))
        sizes, of_pair = np.diff(starts, append=len(own)), self._texts[own[starts]]
        reads, union = masks_of[self._slots[own]], np.zeros_like(full)
        order = np.lexsort((-sizes, many[of_pair]))
        for group in np.split(order, np.flatnonzero(np.diff(many[of_pair[order]])) + 1):
            width = np.arange(many[of_pair[group[:1]]].sum())[:, None]
            begin = 0
            while begin < len(group):
                most = _TABLE // (len(width) * int(sizes[group[begin]]))
                lanes = group[begin : begin + min(_LANES, max(1, most))]
                begin += len(lanes)
                lengths = np.searchsorted(-sizes[lanes], -np.arange(sizes[lanes[0]]))
                steps = [masks[reads[starts[lanes[:n]] + step] + width] for step, n in enumerate(lengths)]
                at = (np.cumsum(many) - many)[of_pair[lanes]] + width
                np.bitwise_or.at(union, at, _matched(full[at], steps))
        found: Bools = (union[places] & bits) != 0
        return found


def _joined(places: Ints, bits: Words, size: int) -> Words:
    """``size`` words with the given bits set."""
    words = np.zeros(size, np.uint64)
    np.bitwise_or.at(words, places, bits)
    return words


def _matched(full: Words, steps: Sequence[Words]) -> Words:
    """For each lane (a column of words), the places of one longest common subsequence with each line.

    The module's docstring defines which one. ``full``: all places of the reference; ``steps``: the places of each token
    of the answer's line, for the first lanes, whose lines have that token.
    """
    row, grown = full.copy(), []
    for bits in steps:
        before = row[:, : bits.shape[1]]
        before[:] = (_sum(before, before & bits) | (before & ~bits)) & full[:, : bits.shape[1]]
        grown.append(full[:, : bits.shape[1]] ^ before)
    inner = within = full & _shifted(full, 1)  # places that are not the last of their line
    shifts: list[tuple[int, Words]] = []
    while within.any():
        shift = 1 << len(shifts)
        shifts.append((shift, within))
        within = within & _shifted(within, shift)
    matched, left = np.zeros_like(full), full
    for bits, places in zip(reversed(steps), reversed(grown), strict=True):
        some = (slice(None), slice(bits.shape[1]))
        reached = left[some] & (bits | places)
        for shift, mask in shifts:
            reached |= _shifted(reached, shift) & mask[some]
        hit = (reached ^ (_shifted(reached, 1) & inner[some])) & bits  # the highest place of each line, if it matches
        matched[some] |= hit
        left[some] = reached ^ hit
    return matched


def _sum(one: Words, other: Words) -> Words:
    total = one + other
    carry = total < one
    for above in range(1, len(total)):
        total[above] += carry[above - 1]
        carry[above] |= carry[above - 1] & (total[above] == 0)
    return total


def _shifted(words: Words, bits: int) -> Words:
    """Shift each column's number to the right."""
    whole, rest = divmod(bits, 64)
    moved: Words = words >> np.uint64(rest)
    if len(words) == 1:
        return moved
    moved[: len(words) - whole], moved[len(words) - whole :] = moved[whole:].copy(), 0
    if rest:
        moved[: len(words) - whole - 1] |= words[whole + 1 :] << np.uint64(64 - rest)
    return moved


def _ids_of(texts: Sequence[str], tokenizer: Tokenizer, stemmer: bool) -> Ints:
    """The tokens of all texts as ids from 2, with ``_LINE`` at the end of a line and ``_TEXT`` at the end of a text."""
    from pyarrow import compute

    if tokenizer == "whitespace":
        normal = [normalize("NFC", text) for text in texts]
        line = "\0"
        while any(line in text for text in normal):
            line += "\0"
        joined = f" {line}\0 ".join(["", *normal, ""]).replace("\n", f" {line} ")
        tokens = compute.utf8_split_whitespace(_arrow_text(line + joined.rstrip(" ")))
    else:
        encoded = b"\xff".join([b"", *[text.lower().encode("utf-8", "surrogatepass") for text in texts], b""])
        joined = encoded.translate(_TO_TOKENS).replace(b"|", b" | ").replace(b"#", b" # ").decode("ascii")
        tokens = compute.ascii_split_whitespace(_arrow_text("|" + joined.rstrip(" ")))
    found = tokens.values.dictionary_encode()
    _, indices = found.indices.buffers()  # ``to_numpy`` would import pandas
    ids = np.frombuffer(indices, np.int32, len(found.indices))[2:]  # the first two only reserve ids
    if not stemmer:
        return ids.astype(np.int64)
    stems: defaultdict[str, int] = defaultdict(count(2).__next__)
    words = found.dictionary.to_pylist()[2:]
    return np.array([_LINE, _TEXT, *(stems[stem(w) if len(w) >= _SHORTEST_STEMMED else w] for w in words)])[ids]


def _arrow_text(text: str) -> Any:
    """An array of one text; ``pyarrow.array`` would import pandas."""
    import pyarrow as pa

    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.translate(_SURROGATES).encode()
    return pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data))


def _slots(keys: Ints) -> Ints:
    """The rank of each key, from 0; equal keys have equal numbers."""
    bits = len(keys).bit_length()
    if int(keys.max(initial=0)).bit_length() + bits > 63:
        return np.unique(keys, return_inverse=True)[1]
    ordered = np.sort(keys << bits | np.arange(len(keys)))  # several times as fast as an argsort
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
    """The count of each slot among the answers' units, which come first, and among the references' units."""
    return np.stack([np.bincount(side, minlength=size) for side in (slots[:answered], slots[answered:])])
