"""Longest common subsequences with bit-parallel integers.

One integer a token of ``other`` holds a whole row of the dynamic programme as the bits where it does not grow
(H. Hyyrö, "Bit-parallel LCS-length computation revisited", 2004).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import isqrt

__all__ = ["common_length", "common_places", "places_of"]

_LARGEST_TABLE = 1 << 28  # bits of rows kept at once: 32 MiB


def places_of(tokens: Sequence[Hashable]) -> dict[Hashable, int]:
    """Each token with the places where it stands in ``tokens``, as bits."""
    places: dict[Hashable, int] = {}
    bit = 1
    for token in tokens:
        places[token] = places.get(token, 0) | bit
        bit <<= 1
    return places


def common_length(tokens: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence.

    >>> common_length("ABCBDAB", "BDCABA")
    4
    """
    start = _shared(tokens, other)
    tokens, other = tokens[start:][::-1], other[start:][::-1]
    end = _shared(tokens, other)
    tokens, other = tokens[end:], other[end:]
    if len(tokens) < len(other):  # fewer steps over longer integers: the bit work is equal, the interpreter's is less
        tokens, other = other, tokens
    row = full = (1 << len(tokens)) - 1
    for bits in map(places_of(tokens).get, other):
        if bits:
            grown = row & bits
            row = ((row + grown) | (row - grown)) & full
    return start + end + len(tokens) - row.bit_count()


def _shared(tokens: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """How many tokens at the start are equal."""
    for count, (left, right) in enumerate(zip(tokens, other, strict=False)):
        if left != right:
            return count
    return min(len(tokens), len(other))


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
