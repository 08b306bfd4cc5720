"""Do the passages hold what is needed to answer?"""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.answerability import SUFFICIENT, sufficiency
from mlflow_ragmetrics.text.messages import say

__all__ = ["context_sufficiency"]


@metric(source="Sufficient Context (Joren et al., ICLR 2025)")
def context_sufficiency(
    question: str, contexts: Sequence[str], history: Sequence[Message] | None = None
) -> Steps[Score]:
    """How likely it is that the retrieved contexts suffice to answer the question.

    Formula: the judge's support, 0 to 1, for "someone who knows only these passages can answer the question". From 0.5
    on they count as sufficient (``details["sufficient"]``), as in ``refusal``, which shares the question.

    Nothing retrieved (``[]``): 0.0 without a call. Neither answer nor reference is looked at. Unscored: no question, no
    contexts field. The offline judge compares words: the share of the question's words in the best passage, weighted as
    in Okapi BM25.

    Source: Joren et al., "Sufficient Context: A New Lens on Retrieval Augmented Generation Systems", ICLR 2025.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> contexts = ["The tower is 330 m high."]
    >>> record = {"question": "How high is the tower?", "contexts": contexts}
    >>> judge = rm.ScriptedJudge(sufficiency=0.9)
    >>> rm.score("context_sufficiency", record, judge=judge).reason
    'The passages are enough to answer the question (0.90).'
    """
    judged = yield from sufficiency(question, contexts, history)
    details = {"sufficient": int(judged.value >= SUFFICIENT), "no_context": judged.item is None}
    if judged.item is None:
        return Score(value=0.0, reason=say("context_sufficiency.no_context"), details=details)
    grade = say("context_sufficiency.enough" if details["sufficient"] else "context_sufficiency.not_enough")
    reason = say("context_sufficiency.judged", value=judged.value, grade=grade)
    if judged.item.reason:
        reason = say("joined", first=reason, second=judged.item.reason)
    return Score(value=judged.value, reason=reason, items=(judged.item,), details=details)
