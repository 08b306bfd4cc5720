"""ROUGE: overlap of n-grams and longest common subsequences with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.options import spelled
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.rouge.batch import overlaps, shares_of
from mlflow_ragmetrics.metrics.rouge.overlap import Overlap, RougeKind, Tokenizer, overlap
from mlflow_ragmetrics.text.messages import say

__all__ = ["rouge"]

_TYPES = {"rouge1": "rouge1", "rouge2": "rouge2", "rougel": "rougeL", "rougelsum": "rougeLsum"}
_MEASURES = {"precision": "precision", "recall": "recall"}
_MEASURES |= dict.fromkeys(("f1", "f", "f1score", "fscore", "fmeasure", "f1measure"), "f1")


def _whitespace_is_not_stemmed(stemmer: bool, info: ValidationInfo) -> bool:
    if stemmer and info.data.get("tokenizer") == "whitespace":
        raise ValueError("whitespace tokens are not stemmed; use tokenizer='rouge_score'")
    return stemmer


RougeType = Annotated[RougeKind, spelled(**_TYPES)]
Measure = Annotated[Literal["precision", "recall", "f1"], spelled(**_MEASURES)]
Stemmer = Annotated[bool, Field(strict=True), AfterValidator(_whitespace_is_not_stemmed)]


def _scores(
    answers: Sequence[str],
    references: Sequence[str],
    *,
    rouge_type: RougeKind,
    measure: Measure,
    tokenizer: Tokenizer | None,
    stemmer: bool,
) -> list[Score]:
    counts = overlaps(answers, references, rouge_type, *_mode(tokenizer, stemmer))
    names = (*Overlap._fields, "precision", "recall", "f1")
    columns = [*counts.tolist(), *(column.tolist() for column in shares_of(counts).values())]
    of_each = [dict(zip(names, each, strict=True)) for each in zip(*columns, strict=True)]
    score = Score(value=0.0).with_reason(partial(_reason, rouge_type=rouge_type, measure=measure))
    return [score.changed(value=details[measure], details=details) for details in of_each]


def _mode(tokenizer: Tokenizer | None, stemmer: bool) -> tuple[Tokenizer, bool]:
    return tokenizer or ("rouge_score" if stemmer else "whitespace"), stemmer


def _reason(score: Score, rouge_type: RougeKind, measure: Measure) -> str:
    details, named = score.details, _named(measure)
    return say("rouge.counts", type=rouge_type, measure=named, value=score.value, n=details["matched"], **details)


_named = lru_cache(lambda measure: say(f"rouge.{measure}"))


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
    2PR / (P + R). ``rouge1`` and ``rouge2`` match n-grams (clipped: a unit counts as often as it occurs on both
    sides), ``rougeL`` the longest common subsequence of all tokens, ``rougeLsum`` for each line of the reference the
    union of its common subsequences with every line of the answer, clipped by token counts. 0 to 1; fewer than n
    tokens on a side or P + R = 0: 0.0. Unscored: answer or reference missing.

    Options: ``rouge_type`` and ``measure`` in any case (``ROUGE-L``, ``F1SCORE``, ``fmeasure`` too);
    ``tokenizer="whitespace"`` (default: NFC, split at Unicode whitespace, nothing lower-cased) or ``"rouge_score"``
    (lower-case a–z and 0–9, as the ``rouge_score`` package); ``stemmer=True`` (Porter) implies the latter.
    Source: C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004; the ``rouge_score`` package.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"answer": "the cat sat", "reference": "the cat lay down"}
    >>> rm.score("rouge", record, measure="recall").value
    0.5
    """
    counted = overlap(answer, reference, rouge_type, *_mode(tokenizer, stemmer))
    shares = {"precision": counted.precision, "recall": counted.recall, "f1": counted.f1}
    score = Score(value=shares[measure], details={**counted._asdict(), **shares})
    return score.changed(reason=_reason(score, rouge_type, measure))
