"""ROUGE of very many pairs at once, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.rouge.batch import Shares, overlaps, shares_of
from mlflow_ragmetrics.metrics.rouge.overlap import RougeKind, Tokenizer

__all__ = ["rouge_table"]

_KINDS: tuple[RougeKind, ...] = ("rouge1", "rouge2", "rougeL", "rougeLsum")


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
    and ``stemmer``: the metric's options. ``InvalidOptionError`` where there are not as many answers as references.

    >>> rouge_table(["the cat sat"], ["the cat lay down"], kinds=["rouge1"])["rouge1_recall"].tolist()
    [0.5]
    """
    if len(answers) != len(references):
        message = f"there are {len(answers)} answers and {len(references)} references; give one reference per answer"
        raise InvalidOptionError(message, param="references")
    table: dict[str, Shares] = {}
    for kind in kinds:
        shares = shares_of(overlaps(answers, references, kind, tokenizer, stemmer))
        table |= {f"{kind}_{name}": column for name, column in shares.items()}
    return table
