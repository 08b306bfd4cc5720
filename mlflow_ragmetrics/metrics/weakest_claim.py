"""Is the answer faithful as a whole? The support of its least supported claim."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.answer_states import Indistinct, NoContext, States
from mlflow_ragmetrics.metrics.claims import GroundingRules, Verified, grounded, support_of
from mlflow_ragmetrics.text.messages import say

__all__ = ["weakest_claim"]


@metric()
def weakest_claim(
    answer: str,
    question: str | None = None,
    reference: str | None = None,
    contexts: Sequence[str] | None = None,
    history: Sequence[Message] | None = None,
    *,
    indistinct: Indistinct = "rules",
    no_context: NoContext = "vacuous",
) -> Steps[Score]:
    """Graded support of the answer's least supported claim: one claim that nothing backs makes an answer unfaithful.

    Formula: the least of the supports that the judge gives the claims, 0 to 1 (how many of a hundred careful checkers
    would pass the claim as backed by ``contexts``); of a judge that gives verdicts only, SUPPORTED is 1 and all else 0.
    1.0 with a note when the answer makes no claims. It asks what ``faithfulness`` asks: beside it, it costs no call.

    Without context and for indistinct answers it holds what holds for ``faithfulness``. Unscored: no answer at all.

    Options: ``indistinct`` ("rules", "off", further phrases, or a function of the text), ``no_context``.
    Source: this project; the claims and verdicts are those of Es et al., "RAGAS", 2024.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> facts = [{"text": "It is red.", "ok": True}, {"text": "Old.", "ok": False}]
    >>> judge = rm.ScriptedJudge(facts=facts)
    >>> record = {"answer": "Red and old.", "contexts": ["It is red."]}
    >>> score = rm.score("weakest_claim", record, judge=judge)
    >>> score.value, score.reason
    (0.0, 'Least supported of 2 claims: “Old.”')
    """
    rules = GroundingRules(indistinct, no_context)
    return (yield from grounded(_weakest, answer, question, reference, contexts, history, rules))


def _weakest(verified: Verified, states: States) -> Score:
    weakest = verified.weakest
    if weakest is None:
        reason = say("faithfulness.no_claims")
    else:
        reason = say("weakest_claim.claim", n=len(verified.items), claim=weakest.text)
        if weakest.reason:
            reason = say("joined", first=reason, second=weakest.reason)
    return Score(
        value=1.0 if weakest is None else support_of(weakest),
        reason=reason,
        items=verified.items,
        details=states.details("no_claims" if weakest is None else "judged", verified.details, no_context=False),
        warnings=verified.warnings,
    )
