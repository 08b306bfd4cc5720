"""Does the answer address the question?"""

from __future__ import annotations

from collections.abc import Callable

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Grade, Steps, ask
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.claims import as_judged
from mlflow_ragmetrics.text.messages import joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, States, states_of


def graded(
    question: Grade, states: States, indistinct: Indistinct, of_non_answer: Callable[[States], Score]
) -> Steps[Score]:
    """The score for a judge's grade from 1 to 5; the reason is the message ``<aspect>.judged``.

    If the judge says that the answer declines, the score is that of ``of_non_answer``.
    """
    rating = yield from ask(question)
    grade = rating.checked_grade(question.aspect)
    states = yield from as_judged(states, question.answer, question.question, rating.declines, indistinct)
    if states.answer == "indistinct":
        return of_non_answer(states)
    reason = joined(say(f"{question.aspect}.judged", grade=grade), rating.reason)
    return Score(value=(grade - 1.0) / 4.0, reason=reason, details=states.details("judged", grade=grade))


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
    states = states_of(answer, reference, indistinct)
    if states.answer == "indistinct":
        return _of_non_answer(states)
    return (yield from graded(Grade("answer_relevance", answer, question), states, indistinct, _of_non_answer))


def _of_non_answer(states: States) -> Score:
    details = states.details("indistinct_answer")
    return Score(value=0.0, reason=say("answer_relevance.indistinct"), details=details)
