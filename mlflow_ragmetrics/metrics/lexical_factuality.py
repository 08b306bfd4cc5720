"""Do the answer's sentences share their words with the reference?"""

from __future__ import annotations

from functools import lru_cache

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import Item, Score, Verdict
from mlflow_ragmetrics.core.text import Text, say, sentences, terms, words

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
    known = set(terms(reference))
    claims = [sentence for sentence in sentences(answer) if len(words(sentence)) >= _SHORTEST_CLAIM]
    items = tuple(_judged(claim, known) for claim in claims)
    supported = sum(item.verdict == "SUPPORTED" for item in items)
    counts = {"supported": supported, "unsupported": len(items) - supported, "total": len(items)}
    if items:
        reason = say("lexical_factuality.counts", n=len(items), supported=supported)
        return Score(value=supported / len(items), reason=reason, items=items, details=counts)
    blank = not answer.strip()
    reason = say("lexical_factuality.blank" if blank else "lexical_factuality.no_claims")
    return Score(
        value=0.0 if blank else 1.0, reason=reason, details=counts if blank else {**counts, "rule": "no_claims"}
    )


def _judged(claim: str, known: set[str]) -> Item:
    own = set(terms(claim))
    shared = len(own & known)
    verdict: Verdict = "SUPPORTED" if 2 * shared >= len(own) else "NEUTRAL"
    return Item("sentence", claim, verdict, _reason(len(own), shared), against="reference")


@lru_cache(maxsize=256)
def _reason(n: int, shared: int) -> Text:
    return say("lexical_factuality.claim", n=n, shared=shared)
