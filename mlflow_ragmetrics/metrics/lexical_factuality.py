"""Do the answer's sentences share their words with the reference?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import pairwise, starmap
from typing import Any

import numpy as np

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import ItemColumns, Score, Verdict
from mlflow_ragmetrics.text.columns import words_of
from mlflow_ragmetrics.text.messages import Text, say
from mlflow_ragmetrics.text.terms import answer_terms, distinct_terms, has_words, plain_sentences

__all__ = ["lexical_factuality"]

_SHORTEST_CLAIM = 3


def _scores(answers: Sequence[str], references: Sequence[str]) -> list[Score | None]:
    words, others = words_of(answers, references)
    (terms, places), found = words.terms, words.sentences
    known = terms.counts_in(others.distinct_terms) > 0
    sentences_of_terms, width = found.of_words[places], int(terms.ids.max(initial=0)) + 1
    inside = sentences_of_terms >= 0
    terms_of_each = np.sort((sentences_of_terms[inside] * width + terms.ids[inside]) << 1 | known[inside])
    distinct = terms_of_each[np.diff(terms_of_each >> 1, prepend=-1) > 0]
    size = len(found.texts)
    n, shared = (np.bincount((each >> 1) // width, minlength=size) for each in (distinct, distinct[distinct & 1 > 0]))
    claims = found.sizes >= _SHORTEST_CLAIM
    texts, n, shared = found.texts[claims], n[claims], shared[claims]
    total, supported = words.by_text(texts), words.by_text(texts, _is_supported(n, shared))
    alone = found.alone | others.alone | (total == 0)
    ends = np.searchsorted(texts, np.arange(len(answers) + 1)).tolist()
    shares = np.stack([n, shared], axis=1).astype(np.int32)
    each = zip(alone.tolist(), supported.tolist(), total.tolist(), answers, pairwise(ends), strict=True)
    score = Score(value=0.0).with_reason(_summary)
    return [
        None
        if apart
        else score.changed(value=part / all_of_them, details=_counts(part, all_of_them)).with_items(
            _Claims(answer, shares[start:end].tobytes())
        )
        for apart, part, all_of_them, answer, (start, end) in each
    ]


class _Claims:
    """Makes the items of an answer when they are asked for, and takes little room until then."""

    __slots__ = ("answer", "shares")

    def __init__(self, answer: str, shares: bytes) -> None:
        self.answer, self.shares = answer, shares

    def __call__(self) -> ItemColumns:
        claims = [sentence for sentence in plain_sentences(self.answer) if has_words(sentence, _SHORTEST_CLAIM)]
        shares = memoryview(self.shares).cast("i").tolist()
        return _items(claims, list(zip(shares[::2], shares[1::2], strict=True)))


def _counts(supported: int, total: int) -> dict[str, int]:
    return {"supported": supported, "unsupported": total - supported, "total": total}


def _summary(score: Score) -> str:
    return say("lexical_factuality.counts", n=score.details["total"], supported=score.details["supported"])


@metric(
    thresholds={"conservative": 0.90, "balanced": 0.80, "lenient": 0.70},
    source="ElBruno.AI.Evaluation",
    aliases=("factuality", "factuality_evaluator"),
    batch=_scores,
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
    counts = _counts(supported, len(claims))
    if claims:
        score = Score(value=supported / len(claims), details=counts).with_reason(_summary)
        return score.with_items(partial(_items, tuple(claims), tuple(shares)))
    blank = not answer.strip()
    reason = say("lexical_factuality.blank" if blank else "lexical_factuality.no_claims")
    return Score(
        value=0.0 if blank else 1.0, reason=reason, details=counts if blank else {**counts, "rule": "no_claims"}
    )


def _is_supported(n: Any, shared: Any) -> Any:  # numbers or arrays of them
    return 2 * shared >= n


def _items(claims: Sequence[str], shares: Sequence[tuple[int, int]]) -> ItemColumns:
    verdicts: list[Verdict] = ["SUPPORTED" if _is_supported(*share) else "NEUTRAL" for share in shares]
    return ItemColumns("sentence", claims, verdicts, list(starmap(_reason, shares)), against="reference")


@lru_cache(maxsize=256)
def _reason(n: int, shared: int) -> Text:
    return say("lexical_factuality.claim", n=n, shared=shared)
