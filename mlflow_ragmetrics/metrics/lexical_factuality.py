"""Do the answer's sentences share their words with the reference?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import CompactItems, Score, Verdict
from mlflow_ragmetrics.text.messages import said, say
from mlflow_ragmetrics.text.words import answer_terms, has_words, term_counts

_SHORTEST_CLAIM = 3
Claim = tuple[str, int, int]
"""A sentence, its number of distinct terms, and the number of those that are in the reference."""


@metric(
    thresholds={"conservative": 0.90, "balanced": 0.80, "lenient": 0.70},
    source="ElBruno.AI.Evaluation",
    aliases=("factuality", "factuality_evaluator"),
)
def lexical_factuality(answer: str, reference: str) -> Score:
    """Share of the answer's sentences with at least half of their terms in the reference.

    Formula: supported claims / claims. Claims are sentences of 3 words or more. A claim is supported if at least half
    of its distinct terms occur in the reference, or if it has no terms. 0 to 1; blank answer: 0.0, no claims: 1.0.
    Unscored: answer or reference missing. Thresholds: 0.90, 0.80, 0.70.
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
    known = term_counts(reference).keys()
    found = answer_terms(answer)
    claims: list[Claim] = []
    for sentence, terms in zip(found.sentences, found.terms, strict=True):
        if has_words(sentence, _SHORTEST_CLAIM):
            own = set(terms)
            claims.append((sentence, len(own), len(own & known)))
    supported = sum([2 * shared >= n for _, n, shared in claims])
    details = {"supported": supported, "unsupported": len(claims) - supported, "total": len(claims)}
    rule = {} if any(n for _, n, _ in claims) or not answer.strip() else {"rule": "no_claims"}
    if claims:
        reason = say("lexical_factuality.counts", n=len(claims), supported=supported)
        score = Score(value=supported / len(claims), reason=reason, details=details | rule)
        return score.with_items(_ClaimItems(claims))
    if not answer.strip():
        return Score(value=0.0, reason=say("lexical_factuality.blank"), details=details)
    return Score(value=1.0, reason=say("lexical_factuality.no_claims"), details=details | rule)


class _ClaimItems(CompactItems):
    """One sentence per claim, SUPPORTED if the reference has at least half of its terms, else NEUTRAL."""

    __slots__ = ("_claims",)
    kind, against = "sentence", "reference"

    def __init__(self, claims: Sequence[Claim]) -> None:
        super().__init__()
        self._claims = claims

    def columns(self) -> tuple[Sequence[str], Sequence[Verdict], Sequence[str]]:
        """The claims, their verdicts, and the counts of their terms."""
        verdicts: list[Verdict] = ["SUPPORTED" if 2 * shared >= n else "NEUTRAL" for _, n, shared in self._claims]
        reasons = [_reason(n, shared, self.language) for _, n, shared in self._claims]
        return [claim for claim, _, _ in self._claims], verdicts, reasons


@lru_cache(maxsize=1024)
def _reason(n: int, shared: int, language: str) -> str:
    return said("lexical_factuality.claim", language, n=n, shared=shared)
