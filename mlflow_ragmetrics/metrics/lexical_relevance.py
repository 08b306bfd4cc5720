"""Do question and answer use the same words?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import Score, token_items
from mlflow_ragmetrics.metrics.token_items import token_items_of_each
from mlflow_ragmetrics.text.columns import words_of
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.text.terms import answer_terms, term_counts

__all__ = ["lexical_relevance"]


def _scores(questions: Sequence[str], answers: Sequence[str]) -> list[Score | None]:
    asked, answered = words_of(questions, answers)
    own, others = asked.distinct_terms, answered.distinct_terms
    counts = own.counts_in(others)
    dot = asked.by_text(own.texts, own.counts * counts)
    squares = asked.by_text(own.texts, own.counts**2) * answered.by_text(others.texts, others.counts**2)
    columns = (
        asked.alone | answered.alone,
        np.minimum(1.0, dot / np.sqrt(np.maximum(squares, 1))),
        asked.by_text(own.texts, own.counts),
        answered.by_text(others.texts, others.counts),
        asked.by_text(own.texts, counts > 0),
        asked.by_text(own.texts),
        answered.by_text(others.texts),
    )
    items = token_items_of_each(asked, own, counts > 0)
    score = Score(value=0.0)
    return [
        None
        if apart
        else score.changed(value=value, details=_counts(*sums)).with_items(make).with_reason(partial(_reason, q, a))
        for apart, value, *sums, q, a, make in zip(*(column.tolist() for column in columns), items, strict=True)
    ]


def _counts(question: int, answer: int, shared: int) -> dict[str, int]:
    return {"question_terms": question, "answer_terms": answer, "shared_terms": shared}


def _reason(question: int, answer: int, score: Score) -> str:
    n = score.details["shared_terms"]
    return say("lexical_relevance.counts", value=score.value, n=n, question=question, answer=answer)


@metric(
    thresholds={"conservative": 0.75, "balanced": 0.60, "lenient": 0.45},
    source="ElBruno.AI.Evaluation",
    aliases=("relevance_evaluator",),
    batch=_scores,
)
def lexical_relevance(question: str, answer: str) -> Score:
    """Cosine of the word counts of question and answer.

    Formula: q · a / (|q| |a|) over the counts of terms (casefolded, 3 characters or more). 0 to 1; a blank side or
    one without terms: 0.0. Unscored: question or answer missing. Thresholds: 0.75, 0.60, 0.45.
    Source: the ElBruno.AI.Evaluation project, RelevanceEvaluator (whose algorithm gives 0.123
    for its example, not 0.72).

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> rm.score(
    ...     "lexical_relevance", {"question": "cats", "answer": "dogs and cats"}
    ... ).value
    0.5773502691896258
    """
    asked, answered = term_counts(question), answer_terms(answer).counts
    shared = asked.keys() & answered.keys()
    dot = sum([asked[term] * answered[term] for term in shared])
    length = math.sqrt(sum([n * n for n in asked.values()]) * sum([n * n for n in answered.values()]))
    value = min(1.0, dot / length) if length else 0.0
    counts = _counts(sum(asked.values()), sum(answered.values()), len(shared))
    found = [term in shared for term in asked]
    score = Score(value=value, details=counts).with_items(token_items(asked, found))
    return score.with_reason(partial(_reason, len(asked), len(answered)))
