"""Random weights and signs, in blocks: one block serves all metrics, and memory does not grow with the resamples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Matrix", "Vector", "bootstrap_weights", "random_signs"]

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
        yield np.bincount(drawn.ravel(), minlength=height * rows).reshape(height, rows).astype(np.float32)


def random_signs(rows: int, resamples: int, seed: int) -> Iterator[Matrix]:
    """Blocks of a ``resamples`` × ``rows`` matrix of +1 and −1, each with probability one half."""
    generator = np.random.default_rng(seed)
    block = max(1, _CELLS // rows)
    for start in range(0, resamples, block):
        height = min(block, resamples - start)
        bits = np.unpackbits(generator.integers(0, 256, size=(height, (rows + 7) // 8), dtype=np.uint8), axis=1)
        yield (2.0 * bits[:, :rows].astype(np.float32)) - np.float32(1.0)
