"""Longest common subsequences, of two texts and of many lines with a text, with bit-parallel integers.

One integer per token of ``other`` holds a whole row of the dynamic programme as the bits where it does not grow
(H. Hyyrö, "Bit-parallel LCS-length computation revisited", 2004).

The lines stand side by side in one integer, a free bit after each, so that the carry of one line's addition ends
there; the walk back through the table moves in all lines with the same few operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import isqrt

__all__ = ["common_places", "places_of", "Lines", "clipped_matches"]

_LARGEST_TABLE = 1 << 28  # bits of rows kept at once: 32 MiB


def places_of(tokens: Sequence[Hashable]) -> dict[Hashable, int]:
    """Each token with the places where it stands in ``tokens``, as bits."""
    places: dict[Hashable, int] = {}
    bit = 1
    for token in tokens:
        places[token] = places.get(token, 0) | bit
        bit <<= 1
    return places


def common_places(tokens: Sequence[Hashable], places: Mapping[Hashable, int], other: Sequence[Hashable]) -> list[int]:
    """The places in ``tokens`` of one longest common subsequence, last one first; ``places`` as of ``places_of``.

    Of several longest ones it is the one that a backward walk through the full table finds when, on a tie, it drops
    the last of ``tokens`` (as the ``rouge_score`` package does). A large table is made again block by block.

    >>> common_places("ABCB", places_of("ABCB"), "CB")
    [3, 2]
    """
    if not any(token in places for token in other):
        return []
    full = (1 << len(tokens)) - 1
    starts, step = [full], len(other)
    if len(tokens) * len(other) > _LARGEST_TABLE:
        step = isqrt(len(other))
        rows = enumerate(_rows(places, full, full, other), 1)
        starts += [row for count, row in rows if count % step == 0 and count < len(other)]
    found: list[int] = []
    left = len(tokens)
    for number in reversed(range(len(starts))):
        block = other[number * step : (number + 1) * step]
        left = _walk_back(tokens, block, [starts[number], *_rows(places, full, starts[number], block)], left, found)
    return found


def _walk_back(
    tokens: Sequence[Hashable], other: Sequence[Hashable], rows: Sequence[int], left: int, found: list[int]
) -> int:
    """Walk from the last of ``other`` to its first, adding to ``found``; returns how many ``tokens`` are left."""
    right = len(other)
    while left and right:
        if tokens[left - 1] == other[right - 1]:
            found.append(left - 1)
            left, right = left - 1, right - 1
        elif rows[right] >> (left - 1) & 1:
            left -= 1
        else:
            right -= 1
    return left


def _rows(places: Mapping[Hashable, int], full: int, row: int, other: Sequence[Hashable]) -> Iterator[int]:
    for token in other:
        if bits := places.get(token):
            grown = row & bits
            row = ((row + grown) | (row - grown)) & full
        yield row


Line = Sequence[str]


def clipped_matches(lines: Sequence[Line], others: Sequence[Line]) -> int:
    """How many tokens of ``lines`` the ``others`` match: for each line the union of its common subsequences with
    every other line, and each token at most as often as it occurs in ``others``.

    >>> clipped_matches([("a", "b"), ("b", "c")], [("b", "a"), ("c", "b")])
    3
    """
    longest = max(map(len, others), default=0)
    too_large = longest * sum(map(len, lines)) > _LARGEST_TABLE
    matched = _matched_apart(lines, others) if too_large else Lines(lines).matched(others)
    there = Counter(token for line in others for token in line)
    return sum(min(count, there[token]) for token, count in matched.items())


def _matched_apart(lines: Sequence[Line], others: Sequence[Line]) -> Mapping[str, int]:
    """The same pair by pair, for texts whose table is too large to be kept."""
    matched: Counter[str] = Counter()
    for line in lines:
        places = places_of(line)
        union = {place for other in others for place in common_places(line, places, other)}
        matched.update(line[place] for place in union)
    return matched


class Lines:
    """Lines of tokens, side by side."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._places: dict[str, int] = {}
        self._full, bit = 0, 1
        for line in lines:
            start = bit
            for token in line:
                self._places[token] = self._places.get(token, 0) | bit
                bit <<= 1
            self._full |= bit - start
            bit <<= 1
        self._inner = within = self._full & self._full >> 1  # places that are not the last ones of their lines
        self._shifts: list[tuple[int, int]] = []
        while within:
            shift = 1 << len(self._shifts)
            self._shifts.append((shift, within))
            within &= within >> shift

    def matched(self, others: Sequence[Line]) -> Mapping[str, int]:
        """Each token that occurs in ``others`` with the number of its places that some common subsequence holds."""
        union = 0
        for other in dict.fromkeys(map(tuple, others)):
            union |= self._matched_by(other)
        there = self._places.keys() & {token for other in others for token in other}
        return {token: (union & self._places[token]).bit_count() for token in there}

    def _matched_by(self, other: Line) -> int:
        """The places of one longest common subsequence of each line with ``other``.

        Of several longest ones it is the one of ``common_places``.
        """
        matched, left, inner, shifts = 0, self._full, self._inner, self._shifts
        for bits, grown in reversed(self._rows(other)):
            reached = left & (bits | grown)
            for shift, mask in shifts:
                reached |= reached >> shift & mask
            hit = (reached ^ (reached >> 1 & inner)) & bits  # the highest place reached in each line, where it matches
            matched |= hit
            left = reached ^ hit
            if not left:
                break
        return matched

    def _rows(self, other: Line) -> list[tuple[int, int]]:
        """For each token of ``other`` where it stands, and where the table has grown once it is read."""
        rows: list[tuple[int, int]] = []
        full = row = self._full
        where = 0
        for token in other:
            before, where = where, self._places.get(token, 0)
            if where:
                grown = row & where
                row = ((row + grown) | (row - grown)) & full
            elif not before:
                continue  # nothing happens at the second of two foreign tokens
            rows.append((where, full ^ row))
        return rows
