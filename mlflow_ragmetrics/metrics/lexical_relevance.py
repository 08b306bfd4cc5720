"""Do question and answer use the same words?"""

from __future__ import annotations

import math

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import Score, TokenItems
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.text.words import answer_terms, term_counts


@metric(
    thresholds={"conservative": 0.75, "balanced": 0.60, "lenient": 0.45},
    source="ElBruno.AI.Evaluation",
    aliases=("relevance_evaluator",),
)
def lexical_relevance(question: str, answer: str) -> Score:
    """Cosine of the word counts of question and answer.

    Formula: q · a / (|q| |a|) over the counts of terms (casefolded, 3 characters or more). 0 to 1; if a text is blank
    or has no terms: 0.0. Unscored: question or answer missing. Thresholds: 0.75, 0.60, 0.45.
    Source: the ElBruno.AI.Evaluation project, RelevanceEvaluator (whose algorithm gives 0.123 for its example, not
    0.72).

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
    counts = {
        "question_terms": sum(asked.values()),
        "answer_terms": sum(answered.values()),
        "shared_terms": len(shared),
    }
    reason = say("lexical_relevance.counts", value=value, n=len(shared), question=len(asked), answer=len(answered))
    found = [term in shared for term in asked]
    return Score(value=value, reason=reason, details=counts).with_items(TokenItems(asked, found))
