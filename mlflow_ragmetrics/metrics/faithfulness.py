"""Do the retrieved passages support every claim of the answer?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlflow_ragmetrics.core.metric import metric, named_as
from mlflow_ragmetrics.core.question import Steps, Tone, ask
from mlflow_ragmetrics.core.score import Item, Message, Score
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.metrics.claims import (
    NoContext,
    Verified,
    as_judged,
    has_context,
    to_do,
    verified_claims,
    without_context,
)
from mlflow_ragmetrics.text.messages import joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, States, states_of


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


@metric(
    scaled=True,
    source="RAG Answer Evaluation Framework (white paper)",
    aliases=("rag_faithfulness", "response_groundedness", "retrieval_groundedness"),
)
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
