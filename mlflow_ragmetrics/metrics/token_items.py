"""The items of terms that were found or not, for many texts at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from mlflow_ragmetrics.core.score import ItemColumns, token_items
from mlflow_ragmetrics.text.columns import Bools, Terms, Words

__all__ = ["token_items_of_each"]


def token_items_of_each(words: Words, terms: Terms, found: Bools) -> list[Callable[[], ItemColumns]]:
    """By text, the ``token_items`` of these terms of ``words``."""
    import pyarrow as pa
    from pyarrow import compute

    ends = np.searchsorted(terms.texts, np.arange(words.size + 1))
    names = pa.array(words.lexicon.names(), pa.string()).take(pa.array(terms.ids))
    joined = compute.binary_join(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), names), " ").to_pylist()
    parts = [found[start:end] for start, end in pairwise(ends.tolist())]
    return [token_items((names,), part) for names, part in zip(joined, parts, strict=True)]
