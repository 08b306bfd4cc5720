"""Is every claim of the answer supported by what was retrieved?"""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.answer_states import Indistinct, NoContext, States
from mlflow_ragmetrics.metrics.claims import GroundingRules, Verified, grounded, joined, to_do
from mlflow_ragmetrics.text.messages import say

__all__ = ["faithfulness"]


@metric(scaled=True, source="RAG Answer Evaluation Framework (white paper)", aliases=("rag_faithfulness",))
def faithfulness(
    answer: str,
    question: str | None = None,
    reference: str | None = None,
    contexts: Sequence[str] | None = None,
    history: Sequence[Message] | None = None,
    *,
    indistinct: Indistinct = "rules",
    no_context: NoContext = "vacuous",
) -> Steps[Score]:
    """Share of the answer's claims that the retrieved contexts support.

    Formula: claims of the answer that are SUPPORTED by ``contexts`` / claims of the answer; 1.0 with a note when the
    answer makes no claims. Raw 0 to 1, shown as 1 + 4 × raw. Each claim is an item with its verdict and the chunks
    that decided it; the reason names those that are not supported, and what to do about them. A claim that no passage
    supports is what is often called a hallucination.

    Without context: 1.0 with the warning ``no_context`` (``no_context="floor"``: 0.0, ``"skip"``: unscored); this
    rewards missing retrieval, so the number of such rows is logged. An indistinct answer scores 0.0 against a clear
    reference, and 1.0 without one; when both are indistinct, the judge rates the tone (1.0 cautious and consistent,
    0.5 neutral, 0.0 misleading). Unscored: no answer at all.

    Options: ``indistinct`` ("rules", "off", further phrases, or a function of the text), ``no_context``.
    Source: "RAG Answer Evaluation Framework" white paper, Faithfulness; Es et al., "RAGAS", 2024.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> facts = [{"text": "It is red.", "ok": True}, {"text": "Old.", "ok": False}]
    >>> judge = rm.ScriptedJudge(facts=facts)
    >>> record = {"answer": "Red and old.", "contexts": ["It is red."]}
    >>> rm.score("faithfulness", record, judge=judge).reason
    'The contexts support 1 of 2 claims of the answer
    (0 contradicted, 1 not covered). Leave out what no passage says, or
    retrieve a passage that does: “Old.”'
    """
    checks = GroundingRules(indistinct, no_context)
    return (yield from grounded(_supported, answer, question, reference, contexts, history, checks))


def _supported(verified: Verified, states: States) -> Score:
    rule = "judged" if verified.claims else "no_claims"
    reason = joined(
        say("faithfulness.counts", n=len(verified.claims), **verified.counts),
        to_do("contradicted", verified.of("CONTRADICTED")),
        to_do("not_covered", verified.of("NEUTRAL")),
    )
    return Score(
        value=verified.share(empty=1.0),
        reason=reason if verified.claims else say("faithfulness.no_claims"),
        details=states.details(rule, verified.details, no_context=False),
        warnings=verified.warnings,
    ).with_items(verified.made)
