"""ROUGE of many pairs in native code: the extra ``fast``, the package ``rouge-score-rs``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.core.overlap import RougeKind

__all__ = ["native_shares"]


def native_shares(
    answers: Sequence[str], references: Sequence[str], kinds: Sequence[RougeKind], stemmer: bool
) -> NDArray[np.float64]:
    """Precision, recall and f1 of each kind of each pair (pairs × kinds × 3), on all cores."""
    scored = _scorer(tuple(kinds), stemmer).score_batch(references, answers)
    return np.array([[found[kind] for kind in kinds] for found in scored], dtype=float).reshape(-1, len(kinds), 3)


@lru_cache(maxsize=16)
def _scorer(kinds: tuple[RougeKind, ...], stemmer: bool) -> Any:
    return import_module("rouge_score_rs.rouge_scorer").RougeScorer(list(kinds), use_stemmer=stemmer)
