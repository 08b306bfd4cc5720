"""Do the answer's words occur in the texts that it should be grounded in?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import Score, token_items
from mlflow_ragmetrics.errors import MissingFieldError
from mlflow_ragmetrics.metrics.token_items import token_items_of_each
from mlflow_ragmetrics.text.columns import words_of
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.text.terms import answer_terms, distinct_terms

__all__ = ["lexical_groundedness"]

Source = Literal["question", "reference", "contexts"]
Grounding = Annotated[tuple[Source, ...], Field(min_length=1)]


def _scores(
    answers: Sequence[str],
    questions: Sequence[str | None],
    references: Sequence[str | None],
    contexts: Sequence[Sequence[str] | None],
    *,
    grounding: Grounding,
) -> list[Score | None]:
    texts: dict[Source, Sequence[str | None]] = {"question": questions, "reference": references}
    if "contexts" in grounding:
        texts["contexts"] = ["\n".join(each or ()) for each in contexts]
    answered, *sources = words_of(answers, *([text or "" for text in texts[source]] for source in grounding))
    terms = answered.distinct_terms
    known = np.zeros(len(terms.ids), bool)
    alone, blank = answered.alone.copy(), np.ones(len(answers), bool)
    for words in sources:
        known |= terms.counts_in(words.distinct_terms) > 0
        alone |= words.alone
        blank &= words.blank
    total, grounded = answered.by_text(terms.texts), answered.by_text(terms.texts, known)
    alone |= blank | (total == 0)
    columns = (alone, grounded / np.maximum(total, 1), grounded, total)
    items = token_items_of_each(answered, terms, known)
    score = Score(value=0.0).with_reason(_reason)
    return [
        None if apart else score.changed(value=value, details=_counts(n, of)).with_items(make)
        for apart, value, n, of, make in zip(*(column.tolist() for column in columns), items, strict=True)
    ]


def _counts(grounded: int, total: int) -> dict[str, int]:
    return {"grounded": grounded, "ungrounded": total - grounded, "total": total}


def _reason(score: Score) -> str:
    return say("lexical_groundedness.counts", n=score.details["total"], grounded=score.details["grounded"])


@metric(
    thresholds={"conservative": 0.85, "balanced": 0.70, "lenient": 0.60},
    source="ElBruno.AI.Evaluation",
    aliases=("hallucination", "hallucination_evaluator", "groundedness"),
    batch=_scores,
)
def lexical_groundedness(
    answer: str,
    question: str | None = None,
    reference: str | None = None,
    contexts: Sequence[str] | None = None,
    *,
    grounding: Grounding = ("question", "reference"),
) -> Score:
    """Share of the answer's words that occur in the question and the reference.

    Formula: unique terms of the answer that occur in the grounding texts / unique terms of the answer. Terms are
    casefolded, of 3 characters or more; Han and Kana count as character pairs. 0 to 1; a blank answer or one without
    terms: 1.0. Unscored: answer missing, or all grounding texts missing or blank.

    Options: ``grounding`` (any of "question", "reference", "contexts"); thresholds 0.85, 0.70, 0.60.
    Source: the ElBruno.AI.Evaluation project, HallucinationEvaluator (whose example swaps its counts).

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"answer": "The store opens at 9.", "reference": "The store at 9"}
    >>> score = rm.score("lexical_groundedness", record)
    >>> score.value, score.passed, score.reason
    (0.6666666666666666, False,
    '2 of 3 distinct terms of the answer occur in the grounding texts.')
    """
    texts: dict[Source, str | None] = {"question": question, "reference": reference}
    texts["contexts"] = "\n".join(contexts or ())
    known = _known({source: texts[source] for source in grounding})
    distinct = answer_terms(answer).counts
    found = list(map(known.__contains__, distinct))
    grounded = sum(found)
    counts = _counts(grounded, len(found))
    if not found:
        reason = say("lexical_groundedness.no_terms")
        return Score(value=1.0, reason=reason, details={**counts, "rule": "no_claims"})
    score = Score(value=grounded / len(found), details=counts).with_items(token_items(distinct, found))
    return score.with_reason(_reason)


def _known(grounding: Mapping[Source, str | None]) -> set[str]:
    """The terms of all grounding texts; ``MissingFieldError`` where each is missing or blank."""
    texts = [text for text in grounding.values() if text and text.strip()]
    if not texts:
        field = "reference" if "reference" in grounding else list(grounding)[-1]
        message = f"lexical_groundedness: {', '.join(grounding)} are all missing or blank; give the field {field!r}"
        raise MissingFieldError(message, field=field, metric="lexical_groundedness")
    return set().union(*map(distinct_terms, texts))
