"""ROUGE: overlap of n-grams and longest common subsequences with the reference."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.options import spelled
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.metrics.rouge.overlap import RougeKind, Tokenizer, is_misread, overlap
from mlflow_ragmetrics.text.messages import say

_LARGEST_TABLE = 1 << 32  # limit for rougeLsum: characters of the answer × characters of the reference


def _whitespace_is_not_stemmed(stemmer: bool, info: ValidationInfo) -> bool:
    tokenizer = info.data.get("tokenizer")
    if stemmer and tokenizer in ("whitespace", "characters"):
        raise ValueError(f"tokens of tokenizer={tokenizer!r} are not stemmed; use tokenizer='rouge_score'")
    return stemmer


RougeType = Annotated[RougeKind, spelled("rouge1", "rouge2", "rougeL", "rougeLsum")]
_F1 = dict.fromkeys(("f", "f1score", "fscore", "fmeasure", "f1measure"), "f1")
_NAMED = {measure: say(f"rouge.{measure}") for measure in ("precision", "recall", "f1")}
Measure = Annotated[Literal["precision", "recall", "f1"], spelled("precision", "recall", "f1", **_F1)]
Stemmer = Annotated[bool, Field(strict=True), AfterValidator(_whitespace_is_not_stemmed)]


@metric(
    key="{rouge_type}_{measure}",
    key_pattern="(?i)(?P<rouge_type>rouge(?:1|2|L|Lsum))(?:_(?P<measure>precision|recall|f1))?",
    source="ROUGE (Lin, 2004)",
    aliases=("rouge_score", "rouge_score_evaluator"),
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
    ``tokenizer="whitespace"`` (default: NFC, split at Unicode whitespace, case kept), ``"rouge_score"`` (lower-case a–z
    and 0–9, as in the ``rouge_score`` package) or ``"characters"`` (as whitespace, and each character of a script
    without spaces, such as Chinese, Japanese or Thai, is a token); ``stemmer=True`` (Porter) implies ``"rouge_score"``.
    A text that the tokenizer cannot read gives the warning ``tokenizer_unfit``, and reports count such rows.
    Source: C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004; the ``rouge_score`` package.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"answer": "the cat sat", "reference": "the cat lay down"}
    >>> rm.score("rouge", record, measure="recall").value
    0.5
    """
    if rouge_type == "rougeLsum" and len(answer) * len(reference) > _LARGEST_TABLE:
        lengths = f"an answer of {len(answer):,} characters and a reference of {len(reference):,}"
        message = f"{rouge_type} cannot compare {lengths}: shorten one of them, or use rougeL"
        raise RagMetricsError(message, metric="rouge")
    tokenizer = tokenizer or ("rouge_score" if stemmer else "whitespace")
    matched, answer_units, reference_units = overlap(answer, reference, rouge_type, tokenizer, stemmer)
    precision, recall = matched / max(1, answer_units), matched / max(1, reference_units)
    details = {
        "matched": matched,
        "answer_units": answer_units,
        "reference_units": reference_units,
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if matched else 0.0,
    }
    value, named = details[measure], _NAMED[measure]
    reason = say("rouge.counts", type=rouge_type, measure=named, value=value, n=matched, **details)
    unfit = is_misread(answer, tokenizer) or is_misread(reference, tokenizer)
    warnings = (("tokenizer_unfit", say("rouge.unfit", tokenizer=tokenizer)),) if unfit else ()
    return Score(value=value, reason=reason, details=details, warnings=warnings)
