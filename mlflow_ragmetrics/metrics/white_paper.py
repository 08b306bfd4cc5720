"""Grades of an answer by a judge, against the question and the reference, and the composite of its family."""

from __future__ import annotations

from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Grade, Steps, ask
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.claims import as_judged
from mlflow_ragmetrics.text.messages import joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, States, states_of


def _graded(question: Grade, reference: str | None, indistinct: Indistinct) -> Steps[Score]:
    """The score for a judge's grade from 1 to 5; the reason is the message ``<aspect>.judged``.

    If the answer declines, by the rules or as the judge says, the score is 0.0; for correctness it is 1.0 if the
    reference declines too.
    """
    states = states_of(question.answer, reference, indistinct)
    if states.answer == "indistinct":
        return _of_non_answer(question.aspect, states)
    rating = yield from ask(question)
    grade = rating.checked_grade(question.aspect)
    states = yield from as_judged(states, question.answer, question.question, rating.declines, indistinct)
    if states.answer == "indistinct":
        return _of_non_answer(question.aspect, states)
    reason = joined(say(f"{question.aspect}.judged", grade=grade), rating.reason)
    return Score(value=(grade - 1.0) / 4.0, reason=reason, details=states.details("judged", grade=grade))


def _of_non_answer(aspect: str, states: States) -> Score:
    both = aspect == "correctness" and states.reference == "indistinct"
    reason = say(f"{aspect}.both_indistinct" if both else f"{aspect}.indistinct")
    details = states.details("both_decline" if both else "indistinct_answer")
    return Score(value=float(both), reason=reason, details=details)


@metric(
    scaled=True,
    source="RAG Answer Evaluation Framework (white paper)",
    aliases=("rag_relevance", "answer_relevancy", "response_relevancy", "relevance_to_query"),
)
def answer_relevance(
    question: str, answer: str, reference: str | None = None, *, indistinct: Indistinct = "rules"
) -> Steps[Score]:
    """How well the answer addresses the question, graded by a judge from 1 to 5.

    Formula: (grade − 1) / 4. Range 0 to 1, also shown as the grade. An unreadable grade, or one outside 1 to 5, is a
    ``JudgeReplyError`` and is never clamped. A non-answer scores 0.0 without asking the judge. Unscored: no question or
    no answer. The reference is used only to report the row's state.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text).
    Source: "RAG Answer Evaluation Framework" white paper, Relevance.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"question": "What colour is it?", "answer": "It is red."}
    >>> judge = rm.ScriptedJudge(rating=4)
    >>> rm.score("answer_relevance", record, judge=judge).reason
    'Relevance to the question: 4.0 of 5.'
    """
    return (yield from _graded(Grade("answer_relevance", answer, question), reference, indistinct))


@metric(scaled=True, source="RAG Answer Evaluation Framework (white paper)", aliases=("rag_correctness", "g_eval"))
def correctness(
    answer: str, reference: str, question: str | None = None, *, indistinct: Indistinct = "rules"
) -> Steps[Score]:
    """How well the answer agrees with the reference, graded by a judge from 1 to 5.

    Formula: (grade − 1) / 4. Range 0 to 1, also shown as the grade. An unreadable grade, or one outside 1 to 5, is a
    ``JudgeReplyError`` and is never clamped.

    The judge is not asked about a non-answer: it scores 0.0 against a clear reference and 1.0 against a reference that
    is also a non-answer. Unscored: no answer or no reference.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text).
    Source: "RAG Answer Evaluation Framework" white paper, Correctness.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "Exciting, but tiring.",
    ...     "reference": "Mostly exciting, with some risks.",
    ... }
    >>> judge = rm.ScriptedJudge(rating="4/5")
    >>> score = rm.score("correctness", record, judge=judge)
    >>> score.value, score.scaled
    (0.75, 4.0)
    """
    return (yield from _graded(Grade("correctness", answer, question, reference), reference, indistinct))


_WEIGHTS = {
    "correctness": 0.4,
    "faithfulness": 0.2,
    "chunk_precision": 0.2,
    "fact_recall": 0.2,
    "answer_relevance": 0.0,
}

rag_score = Composite(
    "rag_score",
    _WEIGHTS,
    scaled=True,
    summary="Weighted mean of correctness (0.4), faithfulness, chunk_precision and fact_recall (0.2 each).",
)
