"""ROUGE: overlap of n-grams and longest common subsequences with the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from mlflow_ragmetrics.core.language import say
from mlflow_ragmetrics.core.lcs import common_length
from mlflow_ragmetrics.core.lines import clipped_matches
from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.options import spelled
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.core.tokens import Tokenizer, Tokens, sentence_tokens, tokens_of

__all__ = ["rouge"]

_TYPES = {"rouge1": "rouge1", "rouge2": "rouge2", "rougel": "rougeL", "rougelsum": "rougeLsum"}
_MEASURES = {"precision": "precision", "recall": "recall"}
_MEASURES |= dict.fromkeys(("f1", "f", "f1score", "fscore", "fmeasure", "f1measure"), "f1")


def _whitespace_is_not_stemmed(stemmer: bool, info: ValidationInfo) -> bool:
    if stemmer and info.data.get("tokenizer") == "whitespace":
        raise ValueError("whitespace tokens are not stemmed; use tokenizer='rouge_score'")
    return stemmer


RougeType = Annotated[Literal["rouge1", "rouge2", "rougeL", "rougeLsum"], spelled(**_TYPES)]
Measure = Annotated[Literal["precision", "recall", "f1"], spelled(**_MEASURES)]
Stemmer = Annotated[bool, Field(strict=True), AfterValidator(_whitespace_is_not_stemmed)]


@metric(
    key="{rouge_type}_{measure}",
    key_pattern="(?i)(?P<rouge_type>rouge(?:1|2|L|Lsum))(?:_(?P<measure>precision|recall|f1))?",
    seed="000",
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
    2PR / (P + R). ``rouge1`` and ``rouge2`` match n-grams (clipped: a unit counts as often as it occurs on both
    sides), ``rougeL`` the longest common subsequence of all tokens, ``rougeLsum`` for each line of the reference the
    union of its common subsequences with every line of the answer, clipped by token counts. 0 to 1; fewer than n
    tokens on a side or P + R = 0: 0.0. Unscored: answer or reference missing.

    Options: ``rouge_type`` and ``measure`` in any case (``ROUGE-L``, ``F1SCORE``, ``fmeasure`` too);
    ``tokenizer="whitespace"`` (default: NFC, split at Unicode whitespace, nothing lower-cased) or ``"rouge_score"``
    (lower-case a–z and 0–9, as the ``rouge_score`` package); ``stemmer=True`` (Porter) implies the latter.
    Source: seed 000; C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score("rouge", {"answer": "the cat sat", "reference": "the cat lay down"}, measure="recall").value
    0.5
    """
    mode = (tokenizer or ("rouge_score" if stemmer else "whitespace"), stemmer)
    if rouge_type == "rougeLsum":
        lines, accepted = sentence_tokens(answer, *mode), sentence_tokens(reference, *mode)
        matched = _summary_hits(lines, accepted)
        units = sum(map(len, lines)), sum(map(len, accepted))
    elif rouge_type == "rougeL":
        tokens, others = tokens_of(answer, *mode), tokens_of(reference, *mode)
        matched, units = _common(tokens, others), (len(tokens), len(others))
    else:
        n = int(rouge_type[-1])
        grams, expected = _ngrams(tokens_of(answer, *mode), n), _ngrams(tokens_of(reference, *mode), n)
        matched = sum(min(grams[gram], expected[gram]) for gram in grams.keys() & expected.keys())
        units = grams.total(), expected.total()
    return _score(matched, *units, rouge_type, measure)


def _score(matched: int, answer_units: int, reference_units: int, rouge_type: str, measure: str) -> Score:
    precision = matched / answer_units if answer_units else 0.0
    recall = matched / reference_units if reference_units else 0.0
    f1 = 2 * precision * recall / (precision + recall) if matched else 0.0
    counts = {"matched": matched, "answer_units": answer_units, "reference_units": reference_units}
    shares = {"precision": precision, "recall": recall, "f1": f1}
    value = shares[measure]
    said = say("rouge.counts", type=rouge_type, measure=say(f"rouge.{measure}"), value=value, n=matched, **counts)
    return Score(value=value, reason=said, details={**counts, **shares})


@lru_cache(maxsize=16)
def _ngrams(tokens: Tokens, n: int) -> Counter[Hashable]:
    return Counter(tokens) if n == 1 else Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


@lru_cache(maxsize=8)
def _common(tokens: Tokens, others: Tokens) -> int:
    return common_length(tokens, others)


@lru_cache(maxsize=8)
def _summary_hits(lines: tuple[Tokens, ...], accepted: tuple[Tokens, ...]) -> int:
    """Tokens of the reference's lines that the answer's lines match, each at most as often as it occurs there."""
    if len(lines) == len(accepted) == 1:
        return common_length(lines[0], accepted[0])
    return clipped_matches(accepted, lines)
