"""Recall of facts: of the passages that they need, and in the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Finding, Nuggets, Role, Steps, Verify, ask
from mlflow_ragmetrics.core.score import Message, Score
from mlflow_ragmetrics.metrics.claims import (
    NoContext,
    Verified,
    as_judged,
    has_context,
    is_right,
    need_reference,
    read_findings,
    to_do,
    verified_claims,
    without_context,
)
from mlflow_ragmetrics.text.messages import joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, States, is_indistinct, states_of
from mlflow_ragmetrics.text.words import has_content


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
        states = yield from as_judged(states, answer, question, verified.extraction.declines, indistinct)
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


Counted = Literal["vital", "all"]


@metric(source="AutoNuggetizer (Pradeep et al., 2024)")
def nugget_recall(
    question: str,
    answer: str,
    reference: str | None = None,
    contexts: Sequence[str] | None = None,
    *,
    counted: Counted = "vital",
    indistinct: Indistinct = "rules",
) -> Steps[Score]:
    """Share of the facts of a good answer that the answer states.

    Formula: facts that the answer supports / facts, 0 to 1. ``counted="vital"`` counts the vital facts, or all facts if
    none is vital; "all" counts all facts. ``details`` has both figures, ``vital_strict`` and ``all_strict``.

    The facts come from the reference or, if it is missing, from the contexts, provided that they answer the question.
    Finding them takes one call per question, independent of the answer, so a cache serves all systems. Checking the
    answer takes another call; a non-answer scores 0.0 without it. Unscored: no question or answer, neither reference
    nor contexts, a reference that is a non-answer, no facts. The offline judge treats each claim of the reference as a
    vital fact, and cannot find facts in contexts.

    Options: ``counted``; ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the
    text).
    Source: Pradeep et al., "Initial Nugget Evaluation Results for the TREC 2024 RAG Track with the AutoNuggetizer
    Framework", 2024.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> judge = rm.ScriptedJudge(
    ...     nuggets={"It is red.": True, "It is old.": True},
    ...     reference_verdicts=["SUPPORTED", "NEUTRAL"],
    ... )
    >>> record = {
    ...     "question": "What is it?",
    ...     "answer": "It is red.",
    ...     "reference": "It is red and old.",
    ... }
    >>> rm.score("nugget_recall", record, judge=judge).value
    0.5
    """
    has_reference = reference is not None and has_content(reference)
    if has_reference and is_indistinct(reference):
        return Score(reason=say("nugget_recall.declines"), details={"vital": 0, "okay": 0})
    sources = (str(reference),) if has_reference else tuple(contexts or ())
    if not has_context(sources):
        raise need_reference("nugget_recall", "there are no contexts to find the facts of a good answer in")
    nuggets = yield from ask(Nuggets(question, sources, has_reference))
    if not nuggets:
        return Score(reason=say("nugget_recall.none"), details={"vital": 0, "okay": 0})
    texts = tuple(nugget.text for nugget in nuggets)
    verified = Verified(texts, (Finding("NEUTRAL"),) * len(texts), against="answer")
    if states_of(answer, None, indistinct).answer == "clear":
        findings = yield from ask(Verify(texts, (answer,), "answer", "reference", question))
        verified = read_findings(texts, findings, 0, "answer")
    pairs = list(zip(verified.items, nuggets, strict=True))
    vital = sum(nugget.vital for nugget in nuggets)
    stated = [nugget.vital for item, nugget in pairs if is_right(item)]
    counts = {"stated": len(stated), "n": len(nuggets), "vital_stated": sum(stated), "vital": vital}
    share = len(stated) / len(nuggets)
    figures = {"vital_strict": sum(stated) / vital if vital else share, "all_strict": share}
    ranks = {True: say("nugget_recall.vital"), False: say("nugget_recall.okay")}
    return Score(
        value=figures[f"{counted}_strict"],
        reason=say("nugget_recall.judged", **counts),
        items=tuple(item.changed(reason=joined(ranks[nugget.vital], item.reason)) for item, nugget in pairs),
        details={**figures, "vital": vital, "okay": len(nuggets) - vital},
        warnings=verified.warnings,
    )
