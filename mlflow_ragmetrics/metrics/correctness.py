"""Does the answer agree with the reference?"""

from __future__ import annotations

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Grade, Steps
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.answer_relevance import graded
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.text.non_answers import Indistinct, States, states_of


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
    states = states_of(answer, reference, indistinct)
    if states.answer == "indistinct":
        return _of_non_answer(states)
    return (yield from graded(Grade("correctness", answer, question, reference), states, indistinct, _of_non_answer))


def _of_non_answer(states: States) -> Score:
    both = states.reference == "indistinct"
    reason = say("correctness.both_indistinct" if both else "correctness.indistinct")
    details = states.details("both_decline" if both else "indistinct_answer")
    return Score(value=float(both), reason=reason, details=details)
