"""Which claims do the passages or the answer support? Faithfulness, and recall of the facts of a good answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import BaseModel

from mlflow_ragmetrics.core.metric import metric, named_as
from mlflow_ragmetrics.core.question import Finding, Nuggets, Role, Steps, Tone, Verify, ask
from mlflow_ragmetrics.core.score import Item, Message, Score, is_right
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.metrics.claims import (
    NoContext,
    Verified,
    as_judged,
    has_context,
    need_reference,
    read_findings,
    to_do,
    verified_claims,
    without_context,
)
from mlflow_ragmetrics.text.messages import joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, States, is_indistinct, states_of
from mlflow_ragmetrics.text.words import has_content

_PAPER = "RAG Answer Evaluation Framework (white paper)"


def _of_claims(rate: Callable[[Verified, States], Score]) -> Callable[..., Steps[Score]]:
    """A metric function from the score for an answer's claims, checked against the contexts; rules score other rows.

    ``no_context`` is the rule for rows without context. A non-answer scores 0.0 against a clear reference and 1.0
    without one. If both are non-answers, the judge rates the tone.
    """

    def score(
        answer: str,
        question: str | None = None,
        reference: str | None = None,
        contexts: Sequence[str] | None = None,
        history: Sequence[Message] | None = None,
        *,
        indistinct: Indistinct = "rules",
        no_context: NoContext = "vacuous",
    ) -> Steps[Score]:
        states = states_of(answer, reference, indistinct)
        if contexts is None or not has_context(contexts):
            return without_context(no_context, 1.0, states.details("no_context", Verified().details))
        if states.answer == "clear":
            verified = yield from verified_claims(answer, contexts, question=question, history=history)
            states = yield from as_judged(states, answer, question, verified.extraction.declines, indistinct)
            if states.answer == "clear":
                return rate(verified, states)
        return (yield from _of_non_answer(answer, reference, question, states))

    return named_as(rate, score)


@metric(scaled=True, source=_PAPER, aliases=("rag_faithfulness", "response_groundedness", "retrieval_groundedness"))
@_of_claims
def faithfulness(verified: Verified, states: States) -> Score:
    """Share of the answer's claims that the retrieved passages support.

    Formula: claims of the answer that are SUPPORTED by ``contexts`` / claims of the answer; 1.0 with a note if the
    answer makes no claims. Range 0 to 1, also shown on a 1–5 scale. Each claim is an item with its verdict and the
    passages that decided it. The reason lists the unsupported claims and suggests a fix. Claims that no passage
    supports are often called hallucinations.

    Without context: 1.0 with the warning ``no_context``; ``no_context="floor"`` gives 0.0 and ``"skip"`` no score. The
    default rewards missing retrieval, so the number of such rows is logged. A non-answer scores 0.0 against a clear
    reference and 1.0 without a reference. If both are non-answers, the judge rates the tone: 1.0 cautious and
    consistent, 0.5 neutral, 0.0 misleading. Unscored: no answer.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text);
    ``no_context``.
    Source: "RAG Answer Evaluation Framework" white paper, Faithfulness; Es et al., "RAGAS", 2024.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> facts = [{"text": "It is red.", "ok": True}, {"text": "Old.", "ok": False}]
    >>> judge = rm.ScriptedJudge(facts=facts)
    >>> record = {"answer": "Red and old.", "contexts": ["It is red."]}
    >>> rm.score("faithfulness", record, judge=judge).reason
    'The passages support 1 of 2 claims of the answer
    (0 contradicted, 1 not in the passages). Leave out what no passage
    says, or retrieve a passage that does: “Old.”'
    """
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


@metric()
@_of_claims
def weakest_claim(verified: Verified, states: States) -> Score:
    """Support of the answer's least supported claim: one unsupported claim makes an answer unfaithful.

    Formula: minimum of the judge's supports for the claims, 0 to 1. Support is the share of careful checkers who would
    accept the claim as backed by ``contexts``; for judges that give only verdicts, SUPPORTED is 1 and anything else 0.
    1.0 with a note if the answer makes no claims. Costs no further judge calls if you also use ``faithfulness``.

    Rows without context and non-answers are treated as in ``faithfulness``. Unscored: no answer, or a judge's verdict
    contradicts its own support or quotes.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text);
    ``no_context``.
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
    weakest = min(verified.items, key=_support_of, default=None)
    doubt = next((text for code, text in verified.warnings if code == "reply_at_odds"), None)
    if doubt is not None:  # the weakest claim is then uncertain
        raise JudgeReplyError(str(doubt), code="reply_at_odds")
    if weakest is None:
        value, rule, reason = 1.0, "no_claims", say("faithfulness.no_claims")
    else:
        value, rule = _support_of(weakest), "judged"
        reason = joined(say("weakest_claim.claim", n=len(verified.items), claim=weakest.text), weakest.reason)
    details = states.details(rule, verified.details, no_context=False)
    return Score(value=value, reason=reason, items=verified.items, details=details, warnings=verified.warnings)


def _support_of(item: Item) -> float:
    """The claim's support; if the judge gives only verdicts, 1 for SUPPORTED and 0 otherwise."""
    return float(item.verdict == "SUPPORTED") if item.support is None else item.support


def _of_non_answer(answer: str, reference: str | None, question: str | None, states: States) -> Steps[Score]:
    value, rule, code = 1.0, "no_claims", "nothing_claimed"
    if states.reference == "clear":
        value, rule, code = 0.0, "indistinct_answer", "indistinct"
    elif reference is not None:
        rating = yield from ask(Tone(answer, reference, question))
        value, rule = rating.checked_tone("faithfulness"), "tone"
        code = {1.0: "tone_cautious", 0.5: "tone_neutral", 0.0: "tone_misleading"}[value]
    details = states.details(rule, Verified().details, no_context=False)
    return Score(value=value, reason=say(f"faithfulness.{code}"), details=details)


def _key(options: BaseModel) -> str:
    return "fact_recall_reference" if getattr(options, "target", None) == "reference" else "fact_recall"


@metric(scaled=True, source=_PAPER, aliases=("rag_recall",), key=_key, key_pattern="fact_recall_(?P<target>reference)")
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


@metric(source="AutoNuggetizer (Pradeep et al., 2024)")
def nugget_recall(
    question: str,
    answer: str,
    reference: str | None = None,
    contexts: Sequence[str] | None = None,
    *,
    counted: Literal["vital", "all"] = "vital",
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
