"""Did retrieval find the passages needed to state the facts?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Role, Steps
from mlflow_ragmetrics.core.score import Message, Score
from mlflow_ragmetrics.metrics.claims import (
    NoContext,
    Verified,
    as_judged,
    has_context,
    need_reference,
    to_do,
    verified_claims,
    without_context,
)
from mlflow_ragmetrics.text.messages import joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, States, states_of


def _key(options: BaseModel) -> str:
    return "fact_recall_reference" if getattr(options, "target", None) == "reference" else "fact_recall"


@metric(
    scaled=True,
    source="RAG Answer Evaluation Framework (white paper)",
    aliases=("rag_recall",),
    key=_key,
    key_pattern="fact_recall_(?P<target>reference)",
)
def fact_recall(
    answer: str,
    reference: str | None = None,
    contexts: Sequence[str] | None = None,
    question: str | None = None,
    history: Sequence[Message] | None = None,
    *,
    target: Literal["answer", "reference"] = "answer",
    indistinct: Indistinct = "rules",
    no_context: NoContext = "vacuous",
) -> Steps[Score]:
    """Share of the facts that the retrieved passages support.

    Formula: facts SUPPORTED by ``contexts`` / facts. The facts are the claims of the answer (``target="answer"``, the
    white paper's formula, equal to raw faithfulness on clear answers) or of the reference (``target="reference"``, the
    white paper's goal, called context recall in ragas; key ``fact_recall_reference``). No facts: 1.0 with a note. Range
    0 to 1, also shown on a 1–5 scale.

    Without context: 1.0 with the warning ``no_context``; ``no_context="floor"`` gives 0.0 and ``"skip"`` no score. A
    non-answer is replaced by the reference, and a reference that is a non-answer by the answer; if both are: 1.0 with a
    note. Unscored: no answer; no reference if the reference's facts are needed.

    Options: ``target``; ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of
    the text); ``no_context``.
    Source: "RAG Answer Evaluation Framework" white paper, Recall; the ragas project, Context Recall.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> facts = [{"text": "It is red.", "ok": True}, {"text": "Old.", "ok": False}]
    >>> judge = rm.ScriptedJudge(facts=facts)
    >>> record = {"answer": "Red", "reference": "Red, old", "contexts": ["Red."]}
    >>> rm.score("fact_recall", record, judge=judge, target="reference").value
    0.5
    """
    states = states_of(answer, reference, indistinct)
    if contexts is None or not has_context(contexts):
        return without_context(no_context, 1.0, states.details("no_context", Verified().details, target=target))
    role = _role(states, target)
    if role == "answer":
        verified = yield from verified_claims(answer, contexts, question=question, history=history)
        states = yield from as_judged(states, answer, question, verified.declines, indistinct)
        if states.answer == "clear":
            return _covered(verified, role, states, target)
        role = _role(states, target)
    if role is None:
        details = states.details("both_indistinct", Verified().details, target=target, no_context=False)
        return Score(value=1.0, reason=say("fact_recall.both_indistinct"), details=details)
    facts = yield from verified_claims(str(reference), contexts, role=role, question=question, history=history)
    return _covered(facts, role, states, target)


def _covered(verified: Verified, role: Role, states: States, target: Role) -> Score:
    counts = say(f"fact_recall.{role}", n=len(verified.claims), **verified.counts)
    reason = joined(counts, to_do("not_retrieved", verified.of("NEUTRAL", "CONTRADICTED")))
    rule = f"on_{role}" if role == target else "instead_of_answer" if target == "answer" else "other_text"
    rule = rule if verified.claims else "no_claims"
    return Score(
        value=verified.share(empty=1.0),
        reason=reason if verified.claims else say("fact_recall.no_claims"),
        details=states.details(rule, verified.details, target=target, no_context=False),
        warnings=verified.warnings,
    ).with_items(verified.made)


def _role(states: States, target: Role) -> Role | None:
    """The text whose facts are checked; ``None`` if neither text states any."""
    if states.reference == "missing" and target == "reference":
        raise need_reference("fact_recall", "target='reference' checks its facts")
    if states.answer == "clear":
        return "reference" if target == "reference" and states.reference == "clear" else "answer"
    if states.reference == "missing":
        raise need_reference("fact_recall", "the answer is a non-answer and the reference's facts are checked instead")
    return "reference" if states.reference == "clear" else None
