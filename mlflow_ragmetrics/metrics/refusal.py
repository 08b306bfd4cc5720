"""Does the answer decline exactly where it should?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.errors import MissingFieldError
from mlflow_ragmetrics.metrics.answer_states import Indistinct
from mlflow_ragmetrics.metrics.answerability import SUFFICIENT, Answerable, given_answerable, sufficiency
from mlflow_ragmetrics.metrics.replies import Reply, reply_kind
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.text.terms import has_content

__all__ = ["refusal"]

Verdict = Literal["right_answer", "right_refusal", "over_refusal", "false_confidence", "partly", "clarification"]

_VERDICTS: Mapping[Answerable, Mapping[Reply, tuple[Verdict, float]]] = {
    "answerable": {
        "answer": ("right_answer", 1.0),
        "refusal": ("over_refusal", 0.0),
        "partly": ("partly", 0.5),
        "clarification": ("clarification", 0.5),
    },
    "unanswerable": {
        "answer": ("false_confidence", 0.0),
        "refusal": ("right_refusal", 1.0),
        "partly": ("partly", 0.5),
        "clarification": ("clarification", 1.0),
    },
    "partial": {
        "answer": ("partly", 0.5),
        "refusal": ("over_refusal", 0.0),
        "partly": ("partly", 1.0),
        "clarification": ("clarification", 0.5),
    },
    "underspecified": {
        "answer": ("false_confidence", 0.0),
        "refusal": ("right_refusal", 1.0),
        "partly": ("partly", 0.5),
        "clarification": ("clarification", 1.0),
    },
}


@metric(source="UAEval4RAG (Peng et al., 2024)")
def refusal(
    question: str,
    answer: str,
    contexts: Sequence[str] | None = None,
    history: Sequence[Message] | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    indistinct: Indistinct = "rules",
) -> Steps[Score]:
    """Whether the chain answers where it can and declines where it cannot.

    Formula: 0 to 1, by the kind of reply and by whether the question can be answered,

    ==============  ===========  =============  ========  ==============
    the reply       answerable   unanswerable   partial   underspecified
    ==============  ===========  =============  ========  ==============
    answers         1.0          0.0            0.5       0.0
    declines        0.0          1.0            0.0       1.0
    does both       0.5          0.5            1.0       0.5
    asks back       0.5          1.0            0.5       1.0
    ==============  ===========  =============  ========  ==============

    ``details["class"]`` says which it is: right_answer, right_refusal, over_refusal (0.0), false_confidence (0.0),
    partly, or clarification (a question about what was meant, a class of its own). A right answer is one that was due:
    whether it is true, ``correctness`` and ``faithfulness`` say.

    Whether the question can be answered is what the record says under ``answerable`` (true, false, "partial",
    "underspecified"), else what a judge says of the contexts (the question of ``context_sufficiency``: from 0.5 on it
    can). The kind of reply is read by rules, in English and Russian, and costs no call.
    Not a measured row: a blank answer, which counts as one that declines, and, without ``answerable``, one for which
    nothing was retrieved (``[]``), which counts as unanswerable.
    Unscored: no question or answer; neither ``answerable`` nor contexts.

    Options: ``indistinct`` ("rules", further phrases that decline, a function that says of a text whether it declines).
    Source: Peng et al., "Unanswerability Evaluation for Retrieval Augmented Generation" (UAEval4RAG), 2024; Katsis et
    al., "MTRAG", 2025.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "question": "Who won?",
    ...     "answer": "I don't have that information.",
    ...     "answerable": True,
    ... }
    >>> score = rm.score("refusal", record)
    >>> score.value, score.details["class"]
    (0.0, 'over_refusal')
    """
    reply = reply_kind(answer, indistinct)
    answerable = given_answerable(metadata)
    details: dict[str, Any] = {"reply": reply, "judged": int(answerable is None)}
    if not has_content(answer):
        details["rule"] = "no_claims"
    items: tuple[Item, ...] = ()
    if answerable is None:
        if contexts is None:
            message = (
                "refusal needs to know whether the question can be answered: give the field 'answerable' (true or "
                "false), or 'contexts' to judge it by ([] where nothing was retrieved)"
            )
            raise MissingFieldError(message, field="contexts", metric="refusal")
        judged = yield from sufficiency(question, contexts, history)
        answerable = "answerable" if judged.value >= SUFFICIENT else "unanswerable"
        details |= {"sufficiency": judged.value, "no_context": judged.item is None}
        items = () if judged.item is None else (judged.item,)
    verdict, value = _VERDICTS[answerable][reply]
    reason = say(
        "refusal.judged",
        verdict=say(f"refusal.verdict.{verdict}"),
        reply=say(f"refusal.reply.{reply}"),
        answerable=say(f"refusal.question.{answerable}"),
        origin=say("refusal.by_contexts" if details["judged"] else "refusal.given"),
    )
    return Score(
        value=value, reason=reason, items=items, details={**details, "answerable": answerable, "class": verdict}
    )
