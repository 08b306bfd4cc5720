"""Do the answer's words occur in the texts that it should be grounded in?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import Score, TokenItems
from mlflow_ragmetrics.errors import MissingFieldError
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.text.words import answer_terms, term_counts

Source = Literal["question", "reference", "contexts"]
Grounding = Annotated[tuple[Source, ...], Field(min_length=1)]


@metric(
    thresholds={"conservative": 0.85, "balanced": 0.70, "lenient": 0.60},
    source="ElBruno.AI.Evaluation",
    aliases=("hallucination_evaluator",),
)
def lexical_groundedness(
    answer: str,
    question: str | None = None,
    reference: str | None = None,
    contexts: Sequence[str] | None = None,
    *,
    grounding: Grounding = ("question", "reference"),
) -> Score:
    """Share of the answer's terms that occur in the question and the reference.

    Formula: distinct terms of the answer that occur in the grounding texts / distinct terms of the answer. Terms are
    casefolded words of 3 characters or more; Han and Kana count as character pairs. 0 to 1; an answer that is blank or
    has no terms: 1.0. Unscored: answer missing, or all grounding texts missing or blank.

    Options: ``grounding`` (any of "question", "reference", "contexts"). Thresholds: 0.85, 0.70, 0.60.
    Source: the ElBruno.AI.Evaluation project, HallucinationEvaluator (whose example swaps its counts).

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"answer": "The store opens at 9.", "reference": "The store at 9"}
    >>> score = rm.score("lexical_groundedness", record)
    >>> score.value, score.passed, score.reason
    (0.6666666666666666, False,
    '2 of 3 distinct terms of the answer occur in the grounding texts.')
    """
    texts = {"question": question, "reference": reference, "contexts": "\n".join(contexts or ())}
    known = _known({source: texts[source] for source in grounding})
    distinct = answer_terms(answer).counts
    found = list(map(known.__contains__, distinct))
    grounded = sum(found)
    counts = {"grounded": grounded, "ungrounded": len(found) - grounded, "total": len(found)}
    if not found:
        reason = say("lexical_groundedness.no_terms")
        return Score(value=1.0, reason=reason, details={**counts, "rule": "no_claims"})
    reason = say("lexical_groundedness.counts", n=len(found), grounded=grounded)
    return Score(value=grounded / len(found), reason=reason, details=counts).with_items(TokenItems(distinct, found))


def _known(grounding: Mapping[Source, str | None]) -> set[str]:
    """The terms of all grounding texts; ``MissingFieldError`` if all are missing or blank."""
    texts = [text for text in grounding.values() if text and text.strip()]
    if not texts:
        field = "reference" if "reference" in grounding else list(grounding)[-1]
        message = f"lexical_groundedness: {', '.join(grounding)} are all missing or blank; provide {field!r}"
        raise MissingFieldError(message, field=field, metric="lexical_groundedness")
    return set().union(*map(term_counts, texts))
