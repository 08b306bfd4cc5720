"""Do the answer's sentences share their words with the reference?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import starmap

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import ItemColumns, Score, Verdict
from mlflow_ragmetrics.core.text import Text, answer_terms, distinct_terms, has_words, say

__all__ = ["lexical_factuality"]

_SHORTEST_CLAIM = 3


@metric(
    thresholds={"conservative": 0.90, "balanced": 0.80, "lenient": 0.70},
    source="ElBruno.AI.Evaluation",
    aliases=("factuality", "factuality_evaluator"),
)
def lexical_factuality(answer: str, reference: str) -> Score:
    """Share of the answer's sentences of which at least half of the words occur in the reference.

    Formula: supported claims / claims, where claims are sentences of 3 words or more, and one is supported when at
    least half of its distinct terms occur in the reference; a claim without terms is supported. 0 to 1; blank answer:
    0.0, no claims: 1.0. Unscored: answer or reference missing. Thresholds: 0.90, 0.80, 0.70.
    Source: the ElBruno.AI.Evaluation project, FactualityEvaluator.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "Apples are fruits. Apples cure all cancer.",
    ...     "reference": "Apples are sweet fruits.",
    ... }
    >>> rm.score("factuality", record).reason
    '1 of 2 claims of the answer shares at least half of its terms
    with the reference.'
    """
    known = distinct_terms(reference)
    found = answer_terms(answer)
    claims: list[str] = []
    shares: list[tuple[int, int]] = []  # of each claim, how many distinct terms it has, and how many of them are known
    for sentence, terms in zip(found.sentences, found.terms, strict=True):
        if has_words(sentence, _SHORTEST_CLAIM):
            own = set(terms)
            claims.append(sentence)
            shares.append((len(own), len(own & known)))
    supported = sum([_is_supported(*share) for share in shares])
    counts = {"supported": supported, "unsupported": len(claims) - supported, "total": len(claims)}
    if claims:
        reason = say("lexical_factuality.counts", n=len(claims), supported=supported)
        score = Score(value=supported / len(claims), reason=reason, details=counts)
        return score.with_items(partial(_items, tuple(claims), tuple(shares)))
    blank = not answer.strip()
    reason = say("lexical_factuality.blank" if blank else "lexical_factuality.no_claims")
    return Score(
        value=0.0 if blank else 1.0, reason=reason, details=counts if blank else {**counts, "rule": "no_claims"}
    )


def _is_supported(n: int, shared: int) -> bool:
    return 2 * shared >= n


def _items(claims: Sequence[str], shares: Sequence[tuple[int, int]]) -> ItemColumns:
    verdicts: list[Verdict] = ["SUPPORTED" if _is_supported(*share) else "NEUTRAL" for share in shares]
    return ItemColumns("sentence", claims, verdicts, list(starmap(_reason, shares)), against="reference")


@lru_cache(maxsize=256)
def _reason(n: int, shared: int) -> Text:
    return say("lexical_factuality.claim", n=n, shared=shared)
