"""ROUGE of very many pairs at once, as NumPy arrays; in native code with the extra ``fast``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.shared.rouge.batch import overlaps
from mlflow_ragmetrics.shared.rouge.overlap import RougeKind, Tokenizer

__all__ = ["native_shares", "rouge_table"]


def native_shares(
    answers: Sequence[str], references: Sequence[str], kinds: Sequence[RougeKind], stemmer: bool
) -> NDArray[np.float64]:
    """Precision, recall and f1 of each kind of each pair (pairs × kinds × 3), on all cores."""
    scored = _scorer(tuple(kinds), stemmer).score_batch(references, answers)
    return np.array([[found[kind] for kind in kinds] for found in scored], dtype=float).reshape(-1, len(kinds), 3)


@lru_cache(maxsize=16)
def _scorer(kinds: tuple[RougeKind, ...], stemmer: bool) -> Any:
    return import_module("rouge_score_rs.rouge_scorer").RougeScorer(list(kinds), use_stemmer=stemmer)


_KINDS: tuple[RougeKind, ...] = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_LONG = 3000  # characters of both sides: from here on the lines of ``lcs.Lines`` are faster than native code
Shares = NDArray[np.float64]


def rouge_table(
    answers: Sequence[str],
    references: Sequence[str],
    *,
    kinds: Sequence[RougeKind] = _KINDS,
    tokenizer: Tokenizer = "rouge_score",
    stemmer: bool = False,
) -> dict[str, Shares]:
    """``<kind>_precision``, ``<kind>_recall`` and ``<kind>_f1`` by pair: the numbers of the metric ``rouge``.

    ``answers`` and ``references``: one of each per pair. ``kinds``: rouge1, rouge2, rougeL, rougeLsum. ``tokenizer``
    and ``stemmer``: the metric's options.
    With the extra ``fast`` (``pip install 'mlflow_ragmetrics[fast]'``) native code counts what it counts faster, on
    all cores; the numbers are the same. ``InvalidOptionError`` where there are not as many answers as references.

    >>> rouge_table(["the cat sat"], ["the cat lay down"], kinds=["rouge1"])["rouge1_recall"].tolist()
    [0.5]
    """
    if len(answers) != len(references):
        message = f"there are {len(answers)} answers and {len(references)} references; give one reference per answer"
        raise InvalidOptionError(message, param="references")
    table = np.zeros((len(answers), len(kinds), 3))
    for places, columns, native in _parts(answers, references, kinds, tokenizer):
        pairs = [answers[i] for i in places], [references[i] for i in places]
        wanted = [kinds[column] for column in columns]
        counted = native_shares(*pairs, wanted, stemmer) if native else _shares(*pairs, wanted, tokenizer, stemmer)
        table[np.ix_(places, columns)] = counted
    measures = ("precision", "recall", "f1")
    return {f"{kind}_{name}": table[:, k, m] for k, kind in enumerate(kinds) for m, name in enumerate(measures)}


def _parts(
    answers: Sequence[str], references: Sequence[str], kinds: Sequence[RougeKind], tokenizer: Tokenizer
) -> list[tuple[list[int], list[int], bool]]:
    """The pairs and kinds that are counted together, and whether in native code."""
    every, columns = list(range(len(answers))), list(range(len(kinds)))
    if tokenizer != "rouge_score" or find_spec("rouge_score_rs") is None:
        return [(every, columns, False)]
    long = [i for i in every if min(len(answers[i]), len(references[i])) > _LONG]
    short = sorted(set(every).difference(long))
    by_line = [column for column in columns if kinds[column] == "rougeLsum"]
    others = [column for column in columns if kinds[column] != "rougeLsum"]
    parts = [(short, columns, True), (long, others, True), (long, by_line, False)]
    return [part for part in parts if part[0] and part[1]]


def _shares(
    answers: Sequence[str],
    references: Sequence[str],
    kinds: Sequence[RougeKind],
    tokenizer: Tokenizer,
    stemmer: bool,
) -> Shares:
    found = [overlaps(answers, references, kind, tokenizer, stemmer) for kind in kinds]
    matched, own, others = np.array(found, dtype=float).reshape(len(kinds), -1, 3).transpose(2, 1, 0)
    precision, recall = matched / np.maximum(own, 1), matched / np.maximum(others, 1)
    f1 = 2 * precision * recall / np.where(matched, precision + recall, 1.0)
    return np.stack([precision, recall, f1], axis=2)
