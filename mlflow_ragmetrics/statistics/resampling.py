"""Random weights and signs, in blocks: one block serves all metrics, and memory does not grow with the resamples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Matrix", "Vector", "bootstrap_weights", "exact_columns", "random_signs"]

Vector = NDArray[np.floating[Any]]
Matrix = NDArray[np.floating[Any]]

_CELLS = 2_000_000


def bootstrap_weights(rows: int, resamples: int, seed: int) -> Iterator[Matrix]:
    """Blocks of a ``resamples`` × ``rows`` matrix: how often a bootstrap sample drew each row (Efron 1979).

    A product with a rows × metrics matrix gives the sums of all metrics in all resamples of the block.
    """
    generator = np.random.default_rng(seed)
    block = max(1, _CELLS // rows)
    for start in range(0, resamples, block):
        height = min(block, resamples - start)
        drawn = generator.integers(0, rows, size=(height, rows), dtype=np.int64)
        drawn += rows * np.arange(height)[:, None]
        yield np.bincount(drawn.ravel(), minlength=height * rows).reshape(height, rows).astype(np.float64)


def random_signs(rows: int, resamples: int, seed: int) -> Iterator[Matrix]:
    """Blocks of a matrix of +1 and −1 with ``rows`` columns: all 2^rows patterns if there are no more than
    ``resamples``, else so many random ones, each sign with probability one half."""
    if 2**rows <= resamples:
        yield 1.0 - 2.0 * ((np.arange(2**rows)[:, None] >> np.arange(rows)) & 1)
        return
    generator = np.random.default_rng(seed)
    block = max(1, _CELLS // rows)
    for start in range(0, resamples, block):
        height = min(block, resamples - start)
        bits = np.unpackbits(generator.integers(0, 256, size=(height, (rows + 7) // 8), dtype=np.uint8), axis=1)
        yield 2.0 * bits[:, :rows].astype(np.float64) - 1.0


def exact_columns(columns: Matrix) -> Matrix:
    """The rows × columns matrix of which no bit of ``weights @ columns`` depends on the order of addition, and so on
    the number of threads, where ``weights`` are whole numbers whose sizes add up to at most the number of rows.

    The values are rounded to multiples of a power of two, about 2^-52 × rows of the largest value of their column.
    """
    largest = np.abs(columns).max(axis=0, initial=0.0)
    digits = np.frexp(largest)[1] + int(columns.shape[0]).bit_length() - 53
    exact: Matrix = np.ldexp(np.rint(np.ldexp(columns, -digits)), digits)
    return exact
