"""Can the question be answered from the passages? If not, does the answer decline, and only then?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.question import Declines, Steps, Sufficiency, ask
from mlflow_ragmetrics.core.score import Evidence, Item, Message, Score, Verdict, passes
from mlflow_ragmetrics.errors import InvalidFieldError, JudgeReplyError, MissingFieldError
from mlflow_ragmetrics.metrics.claims import declined, has_context
from mlflow_ragmetrics.text.messages import joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, is_error_text, kind_of, shown_statements
from mlflow_ragmetrics.text.words import has_content, pattern_of

SUFFICIENT = 0.5
"""The lowest support at which passages count as sufficient."""

Answerable = Literal["answerable", "unanswerable", "partial", "underspecified"]

_NAMES = {
    **dict.fromkeys(("answerable", "is_answerable", "answerability", "Answerability"), False),
    **dict.fromkeys(("unanswerable", "is_impossible"), True),
}
"""Metadata fields for answerability, in order of precedence; ``True`` for those that mean "unanswerable"."""

_WORDS: Mapping[str, Answerable] = {
    **dict.fromkeys(("answerable", "true", "yes", "1", "1.0", "full", "да"), "answerable"),
    **dict.fromkeys(("unanswerable", "false", "no", "0", "0.0", "not answerable", "none", "нет"), "unanswerable"),
    **dict.fromkeys(("partial", "partially", "partly", "partially answerable"), "partial"),
    **dict.fromkeys(("underspecified", "ambiguous", "unclear"), "underspecified"),
}
_OPPOSITE: Mapping[Answerable, Answerable] = {"answerable": "unanswerable", "unanswerable": "answerable"}


def given_answerable(metadata: Mapping[str, Any] | None) -> Answerable | None:
    """The answerability of the question according to the sample's metadata; ``None`` if they do not contain it.

    The field is ``answerable`` or one of its other names, also within MLflow's ``expectations``. Its value is true or
    false, yes or no, 1 or 0, or "answerable", "unanswerable", "partial" or "underspecified", ignoring case, or a list
    with one of these. ``is_impossible`` and ``unanswerable`` have the opposite meaning.

    Raises:
        InvalidFieldError: for any other value.
    """
    entries = metadata or {}
    expectations = entries.get("expectations")
    for fields in (entries, expectations if isinstance(expectations, Mapping) else {}):
        for name, inverted in _NAMES.items():
            value = fields.get(name)
            if isinstance(value, (list, tuple)) and len(value) == 1:
                value = value[0]
            word = str(value).strip().casefold().replace("_", " ")
            if value is None or word in ("", "nan", "<na>", "nat"):
                continue
            if word not in _WORDS:
                choices = "true or false, or one of answerable, unanswerable, partial, underspecified"
                raise InvalidFieldError(f"`{name}` is {shown(value)}, but must be {choices}", field="answerable")
            return _OPPOSITE.get(_WORDS[word], _WORDS[word]) if inverted else _WORDS[word]
    return None


def sufficiency(
    question: str, contexts: Sequence[str], history: Sequence[Message] | None
) -> Steps[tuple[float, Item | None]]:
    """Ask whether the contexts suffice to answer the question: how likely, 0 to 1, and the judge's item.

    Without contexts, 0.0 and no item, without a call.
    """
    passages = tuple(contexts)
    if not has_context(passages):
        return 0.0, None
    turns = tuple(f"{turn.role}: {turn.content}" for turn in history or ())
    finding = yield from ask(Sufficiency(question, passages, turns))
    support = finding.support
    if support is None or not 0 <= support <= 1:
        message = f"context_sufficiency: the judge's support {support!r} is not a number from 0 to 1"
        raise JudgeReplyError(message, metric="context_sufficiency")
    evidence = tuple(Evidence(number, None, quote) for number, quote in finding.quotes if 1 <= number <= len(passages))
    verdict: Verdict = "SUPPORTED" if passes(support, SUFFICIENT) else "NEUTRAL"
    return support, Item("claim", question, verdict, finding.reason, support, evidence)


@metric(source="Sufficient Context (Joren et al., ICLR 2025)")
def context_sufficiency(
    question: str, contexts: Sequence[str], history: Sequence[Message] | None = None
) -> Steps[Score]:
    """Probability that the retrieved passages suffice to answer the question.

    Formula: the judge's support, 0 to 1, for "someone who knows only these passages can answer the question". At 0.5 or
    higher they count as sufficient (``details["sufficient"]``), as in ``refusal``, which shares the question.

    Nothing retrieved (``[]``): 0.0 without a call. Answer and reference are ignored. Unscored: no question, no contexts
    field. The offline judge compares words: its support is the share of the question's words in the best passage,
    weighted as in Okapi BM25.

    Source: Joren et al., "Sufficient Context: A New Lens on Retrieval Augmented Generation Systems", ICLR 2025.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> contexts = ["The tower is 330 m high."]
    >>> record = {"question": "How high is the tower?", "contexts": contexts}
    >>> judge = rm.ScriptedJudge(sufficiency=0.9)
    >>> rm.score("context_sufficiency", record, judge=judge).reason
    'The passages are enough to answer the question (0.90).'
    """
    support, item = yield from sufficiency(question, contexts, history)
    details = {"sufficient": int(support >= SUFFICIENT), "no_context": item is None}
    if item is None:
        return Score(value=0.0, reason=say("context_sufficiency.no_context"), details=details)
    grade = say("context_sufficiency.enough" if details["sufficient"] else "context_sufficiency.not_enough")
    reason = joined(say("context_sufficiency.judged", value=support, grade=grade), item.reason)
    return Score(value=support, reason=reason, items=(item,), details=details)


_VALUES: Mapping[Answerable, Mapping[Reply, float]] = {
    "answerable": {"answer": 1.0, "refusal": 0.0, "partly": 0.5, "clarification": 0.5},
    "unanswerable": {"answer": 0.0, "refusal": 1.0, "partly": 0.5, "clarification": 1.0},
    "partial": {"answer": 0.5, "refusal": 0.0, "partly": 1.0, "clarification": 0.5},
    "underspecified": {"answer": 0.0, "refusal": 1.0, "partly": 0.5, "clarification": 1.0},
}
_CLASSES: Mapping[tuple[Reply, float], str] = {
    ("answer", 1.0): "right_answer",
    ("answer", 0.0): "false_confidence",
    ("refusal", 1.0): "right_refusal",
    ("refusal", 0.0): "over_refusal",
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
    """Whether the chain answers if it can and declines if it cannot.

    Formula: 0 to 1, by the kind of reply and the answerability of the question:

    ==============  ===========  =============  ========  ==============
    the reply       answerable   unanswerable   partial   underspecified
    ==============  ===========  =============  ========  ==============
    answers         1.0          0.0            0.5       0.0
    declines        0.0          1.0            0.0       1.0
    does both       0.5          0.5            1.0       0.5
    asks back       0.5          1.0            0.5       1.0
    ==============  ===========  =============  ========  ==============

    ``details["class"]`` is right_answer, right_refusal, over_refusal (0.0), false_confidence (0.0), partly, or
    clarification (asks back). "Right" means that an answer was due, not that it is true; ``correctness`` and
    ``faithfulness`` measure that.

    Answerability comes from the record's ``answerable`` (true, false, "partial", "underspecified"). Without it, a judge
    rates the contexts, as in ``context_sufficiency``; a support of 0.5 or higher means answerable. If another
    metric's judge says whether the answer declines, its word classifies the reply; otherwise rules do, without a call.
    Not measured: a blank answer, which counts as declining, and, without ``answerable``, a row for which nothing was
    retrieved (``[]``), which counts as unanswerable.
    Unscored: no question or answer; neither ``answerable`` nor contexts.

    Options: ``indistinct``, non-answer detection ("rules", further phrases, or a function of the text).
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
    if indistinct != "off" and is_error_text(answer):
        details["rule"] = "error_text"
    elif not has_content(answer):
        details["rule"] = "blank"
    items: tuple[Item, ...] = ()
    if answerable is None:
        if contexts is None:
            message = (
                "refusal needs the answerability of the question: provide the field 'answerable' (true or false), "
                "or 'contexts' to judge it by ([] if nothing was retrieved)"
            )
            raise MissingFieldError(message, field="contexts", metric="refusal")
        support, item = yield from sufficiency(question, contexts, history)
        answerable = "answerable" if support >= SUFFICIENT else "unanswerable"
        details |= {"sufficiency": support, "no_context": item is None}
        items = () if item is None else (item,)
    if "rule" not in details and reply != "clarification" and indistinct != "off" and not callable(indistinct):
        word = yield from declined(answer, question)
        details["reply"] = reply = reply if word is None else _REPLIES[word]
    value = _VALUES[answerable][reply]
    verdict = _CLASSES.get((reply, value), "clarification" if reply == "clarification" else "partly")
    reason = say(
        "refusal.judged",
        verdict=say(f"refusal.verdict.{verdict}"),
        reply=say(f"refusal.reply.{reply}"),
        answerable=say(f"refusal.question.{answerable}"),
        origin=say("refusal.by_contexts" if details["judged"] else "refusal.given"),
    )
    details |= {"answerable": answerable, "class": verdict}
    return Score(value=value, reason=reason, items=items, details=details)


Reply = Literal["answer", "refusal", "partly", "clarification"]

_REPLIES: Mapping[Declines, Reply] = {"yes": "refusal", "partly": "partly", "no": "answer"}
_ASKS_BACK = pattern_of("questions_back")


def reply_kind(text: str, indistinct: Indistinct = "rules") -> Reply:
    """Classify ``text`` as a reply to a question.

    "refusal": declines, admits not knowing, or reports that the sources do not say, and adds at most where to look;
    also blank texts. "partly": declines and states something. "clarification": asks back, possibly listing the options.
    "answer": everything else. ``indistinct`` is the metric option: further phrases that refuse, a function of the text
    that returns whether it refuses, or "off" to take error texts for refusals or answers like any other text.

    >>> reply_kind("I don't have the price list. Please ask the shop.")
    'refusal'
    >>> reply_kind("The price list is not in the documents, but entry is free.")
    'partly'
    >>> reply_kind("There are two parks. Which one are you referring to?")
    'clarification'
    """
    if callable(indistinct):
        return "refusal" if indistinct(text) else "answer"
    if indistinct != "off" and is_error_text(text):
        return "answer"
    lines = list(shown_statements(text))
    if not lines:
        return "refusal"
    asks = [line.rstrip(" \"')»”").endswith(("?", "？")) for line in lines]
    ends_by_asking = any(asks[-2:]) or len(lines) <= 3
    if all(asks) or (ends_by_asking and _ASKS_BACK.search(" ".join(lines[-2:])) is not None):
        return "clarification"
    return kind_of(text, indistinct if isinstance(indistinct, tuple) else ())
