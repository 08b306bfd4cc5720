"""The claims of an answer held against what was retrieved, and what holds where there is nothing to hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlflow_ragmetrics.core.language import say
from mlflow_ragmetrics.core.question import Steps, Tone, ask
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.shared.claims import Verified, read_tone, verified_claims
from mlflow_ragmetrics.shared.non_answers import Indistinct, NoContext, States, has_context, states_of, without_context

__all__ = ["GroundingRules", "grounded"]


@dataclass(frozen=True)
class GroundingRules:
    """The options of a metric on non-answers and on rows without context."""

    indistinct: Indistinct
    no_context: NoContext


def grounded(
    scored: Callable[[Verified, States], Score],
    answer: str,
    question: str | None,
    reference: str | None,
    contexts: Sequence[str] | None,
    history: Sequence[Message] | None,
    rules: GroundingRules,
) -> Steps[Score]:
    """The score that ``scored`` makes of the answer's claims and their verdicts by the contexts.

    Without context the rules say what holds. A non-answer is 0.0 against a clear reference and 1.0 without one; where
    both are non-answers, the judge rates the tone.
    """
    states = states_of(answer, reference, rules.indistinct)
    if contexts is None or not has_context(contexts):
        return without_context(rules.no_context, 1.0, states.details("no_context", Verified().details))
    if states.answer == "indistinct":
        return (yield from _of_non_answer(answer, reference, question, states))
    verified = yield from verified_claims(answer, contexts, question=question, history=history)
    return scored(verified, states)


def _of_non_answer(answer: str, reference: str | None, question: str | None, states: States) -> Steps[Score]:
    counts = Verified().details
    if reference is None:
        details = states.details("no_claims", counts, no_context=False)
        return Score(value=1.0, reason=say("faithfulness.nothing_claimed"), details=details)
    if states.reference == "clear":
        details = states.details("indistinct_answer", counts, no_context=False)
        return Score(value=0.0, reason=say("faithfulness.indistinct"), details=details)
    rating = yield from ask(Tone(answer, reference, question))
    tone = read_tone(rating, "faithfulness")
    codes = {1.0: "faithfulness.tone_cautious", 0.5: "faithfulness.tone_neutral", 0.0: "faithfulness.tone_misleading"}
    return Score(value=tone, reason=say(codes[tone]), details=states.details("tone", counts, no_context=False))
