"""ROUGE: overlap of n-grams and longest common subsequences with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.options import spelled
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.metrics.rouge.overlap import RougeKind, Tokenizer, overlaps
from mlflow_ragmetrics.text.messages import say

_LARGEST_TABLE = 1 << 32  # limit for rougeLsum: characters of the answer × characters of the reference


def _whitespace_is_not_stemmed(stemmer: bool, info: ValidationInfo) -> bool:
    if stemmer and info.data.get("tokenizer") == "whitespace":
        raise ValueError("whitespace tokens are not stemmed; use tokenizer='rouge_score'")
    return stemmer


RougeType = Annotated[RougeKind, spelled("rouge1", "rouge2", "rougeL", "rougeLsum")]
_F1 = dict.fromkeys(("f", "f1score", "fscore", "fmeasure", "f1measure"), "f1")
Measure = Annotated[Literal["precision", "recall", "f1"], spelled("precision", "recall", "f1", **_F1)]
Stemmer = Annotated[bool, Field(strict=True), AfterValidator(_whitespace_is_not_stemmed)]


def _scores(
    answers: Sequence[str],
    references: Sequence[str],
    *,
    rouge_type: RougeKind,
    measure: Measure,
    tokenizer: Tokenizer | None,
    stemmer: bool,
) -> list[Score | None]:
    """The scores of many rows; ``None`` if answer and reference are too long."""
    table = zip(map(len, answers), map(len, references), strict=True)
    fits = [rouge_type != "rougeLsum" or own * other <= _LARGEST_TABLE for own, other in table]
    texts = list(compress(answers, fits)), list(compress(references, fits))
    tokenizer = tokenizer or ("rouge_score" if stemmer else "whitespace")
    matched, own, others = overlaps(*texts, rouge_type, tokenizer, stemmer)
    precision, recall = matched / np.maximum(own, 1), matched / np.maximum(others, 1)
    f1 = 2 * precision * recall / np.where(matched, precision + recall, 1.0)
    columns = {
        "matched": matched,
        "answer_units": own,
        "reference_units": others,
        "precision": precision,
        "recall": recall,
        "f1": f1,
    }
    named = say(f"rouge.{measure}")
    scored, scores = Score(value=0.0), []
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        details = dict(zip(columns, values, strict=True))
        value = details[measure]
        reason = say("rouge.counts", type=rouge_type, measure=named, value=value, n=details["matched"], **details)
        scores.append(scored.changed(value=value, reason=reason, details=details))
    found = iter(scores)
    return [next(found) if fit else None for fit in fits]


@metric(
    key="{rouge_type}_{measure}",
    key_pattern="(?i)(?P<rouge_type>rouge(?:1|2|L|Lsum))(?:_(?P<measure>precision|recall|f1))?",
    source="ROUGE (Lin, 2004)",
    aliases=("rouge_score", "rouge_score_evaluator"),
    batch=_scores,
)
def rouge(
    answer: str,
    reference: str,
    *,
    rouge_type: RougeType = "rouge1",
    measure: Measure = "f1",
    tokenizer: Tokenizer | None = None,
    stemmer: Stemmer = False,
) -> Score:
    """Overlap of the answer with the reference in words, word pairs or word order.

    Formula: precision = matched units / units of the answer, recall = matched units / units of the reference, f1 =
    2PR / (P + R). ``rouge1`` and ``rouge2`` match n-grams (clipped: a unit counts as often as it occurs in both
    texts). ``rougeL`` matches the longest common subsequence of all tokens. ``rougeLsum`` matches, for each line of the
    reference, the union of its common subsequences with every line of the answer, clipped by token counts. 0 to 1; 0.0
    if a text has fewer than n tokens or P + R = 0. Unscored: answer or reference missing. ``rougeLsum`` raises an error
    if characters of the answer × characters of the reference exceed 4.29 billion, such as 65,536 in each text.

    Options: ``rouge_type`` and ``measure``, ignoring case (also ``ROUGE-L``, ``F1SCORE``, ``fmeasure``);
    ``tokenizer="whitespace"`` (default: NFC, split at Unicode whitespace, case kept) or ``"rouge_score"`` (lower-case
    a–z and 0–9, as in the ``rouge_score`` package); ``stemmer=True`` (Porter) implies ``"rouge_score"``.
    Source: C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004; the ``rouge_score`` package.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"answer": "the cat sat", "reference": "the cat lay down"}
    >>> rm.score("rouge", record, measure="recall").value
    0.5
    """
    (score,) = _scores(
        [answer], [reference], rouge_type=rouge_type, measure=measure, tokenizer=tokenizer, stemmer=stemmer
    )
    if score is None:
        lengths = f"an answer of {len(answer):,} characters and a reference of {len(reference):,}"
        message = f"{rouge_type} cannot compare {lengths}: shorten one of them, or use rougeL"
        raise RagMetricsError(message, metric="rouge")
    return score
