"""The white paper's grades of an answer, the share of passages that it uses, and the composite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Grade, Related, RelatedChunks, Role, Steps, ask
from mlflow_ragmetrics.core.score import Evidence, Item, Score, Verdict
from mlflow_ragmetrics.metrics.claims import NoContext, as_judged, has_context, need_reference, without_context
from mlflow_ragmetrics.text.messages import joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, States, states_of


def _graded(question: Grade, reference: str | None, indistinct: Indistinct) -> Steps[Score]:
    """The score for a judge's grade from 1 to 5; the reason is the message ``<aspect>.judged``.

    If the answer declines, by the rules or as the judge says, the score is 0.0; for correctness it is 1.0 if the
    reference declines too.
    """
    aspect, states = question.aspect, states_of(question.answer, reference, indistinct)
    if states.answer == "clear":
        rating = yield from ask(question)
        grade = rating.checked_grade(aspect)
        states = yield from as_judged(states, question.answer, question.question, rating.declines, indistinct)
        if states.answer == "clear":
            reason = joined(say(f"{aspect}.judged", grade=grade), rating.reason)
            return Score(value=(grade - 1.0) / 4.0, reason=reason, details=states.details("judged", grade=grade))
    both = aspect == "correctness" and states.reference == "indistinct"
    reason = say(f"{aspect}.both_indistinct" if both else f"{aspect}.indistinct")
    details = states.details("both_decline" if both else "indistinct_answer")
    return Score(value=float(both), reason=reason, details=details)


@metric(
    scaled=True,
    source="RAG Answer Evaluation Framework (white paper)",
    aliases=("rag_relevance", "answer_relevancy", "response_relevancy", "relevance_to_query"),
)
def answer_relevance(
    question: str, answer: str, reference: str | None = None, *, indistinct: Indistinct = "rules"
) -> Steps[Score]:
    """How well the answer addresses the question, graded by a judge from 1 to 5.

    Formula: (grade − 1) / 4. Range 0 to 1, also shown as the grade. An unreadable grade, or one outside 1 to 5, is a
    ``JudgeReplyError`` and is never clamped. A non-answer scores 0.0 without asking the judge. Unscored: no question or
    no answer. The reference is used only to report the row's state.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text).
    Source: "RAG Answer Evaluation Framework" white paper, Relevance.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"question": "What colour is it?", "answer": "It is red."}
    >>> judge = rm.ScriptedJudge(rating=4)
    >>> rm.score("answer_relevance", record, judge=judge).reason
    'Relevance to the question: 4.0 of 5.'
    """
    return (yield from _graded(Grade("answer_relevance", answer, question), reference, indistinct))


@metric(scaled=True, source="RAG Answer Evaluation Framework (white paper)", aliases=("rag_correctness", "g_eval"))
def correctness(
    answer: str, reference: str, question: str | None = None, *, indistinct: Indistinct = "rules"
) -> Steps[Score]:
    """How well the answer agrees with the reference, graded by a judge from 1 to 5.

    Formula: (grade − 1) / 4. Range 0 to 1, also shown as the grade. An unreadable grade, or one outside 1 to 5, is a
    ``JudgeReplyError`` and is never clamped.

    The judge is not asked about a non-answer: it scores 0.0 against a clear reference and 1.0 against a reference that
    is also a non-answer. Unscored: no answer or no reference.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text).
    Source: "RAG Answer Evaluation Framework" white paper, Correctness.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "Exciting, but tiring.",
    ...     "reference": "Mostly exciting, with some risks.",
    ... }
    >>> judge = rm.ScriptedJudge(rating="4/5")
    >>> score = rm.score("correctness", record, judge=judge)
    >>> score.value, score.scaled
    (0.75, 4.0)
    """
    return (yield from _graded(Grade("correctness", answer, question, reference), reference, indistinct))


@metric(
    scaled=True,
    source="RAG Answer Evaluation Framework (white paper)",
    aliases=(
        "rag_precision",
        "contextual_precision",
        "llm_context_precision_with_reference",
        "llm_context_precision_without_reference",
    ),
)
def chunk_precision(
    answer: str,
    reference: str | None = None,
    contexts: Sequence[str] | None = None,
    question: str | None = None,
    *,
    indistinct: Indistinct = "rules",
    no_context: NoContext = "vacuous",
) -> Steps[Score]:
    """Share of the retrieved passages that state something the answer also states.

    Formula: related passages / retrieved passages. Range 0 to 1, also shown on a 1–5 scale. Passages are numbered from
    1. Each is an item, RELATED or UNRELATED, with the quote that relates it.

    A non-answer is replaced by the reference; if both are non-answers: 0.0. Unscored: no context
    (``no_context="floor"``: 0.0), no answer, a non-answer without a reference.

    Options: ``indistinct``, non-answer detection ("rules", "off", further phrases, or a function of the text);
    ``no_context``.
    Source: "RAG Answer Evaluation Framework" white paper, Precision.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"answer": "It is red.", "contexts": ["It is red.", "It rains."]}
    >>> judge = rm.ScriptedJudge(used_chunks=[1])
    >>> rm.score("chunk_precision", record, judge=judge).scaled
    3.0
    """
    states = states_of(answer, reference, indistinct)
    chunks = tuple(contexts or ())
    if not has_context(chunks):
        return without_context(no_context, None, states.details("no_context", _chunk_counts({}, ())))
    if states.answer == "clear":
        score = yield from _related(answer, chunks, "answer", states, question)
        states = yield from as_judged(states, answer, question, "no", indistinct)  # unless another reply says yes
        if states.answer == "clear":
            return score
    if reference is None:
        raise need_reference("chunk_precision", "the answer is a non-answer and the reference is compared instead")
    if states.reference == "clear":
        return (yield from _related(reference, chunks, "reference", states, question))
    details = states.details("both_indistinct", _chunk_counts({}, chunks), no_context=False)
    return Score(value=0.0, reason=say("chunk_precision.both_indistinct"), details=details)


def _related(text: str, chunks: tuple[str, ...], role: Role, states: States, question: str | None) -> Steps[Score]:
    found = yield from ask(RelatedChunks(text, chunks, role, question))
    related = {each.chunk: each for each in reversed(found) if 1 <= each.chunk <= len(chunks)}  # keeps the first repeat
    rule = "on_answer" if role == "answer" else "instead_of_answer"
    return Score(
        value=len(related) / len(chunks),
        reason=say(f"chunk_precision.{role}", n=len(chunks), related=len(related)),
        details=states.details(rule, _chunk_counts(related, chunks), no_context=False),
    ).with_items(partial(_chunk_items, chunks, related))


def _chunk_counts(related: Mapping[int, Related], chunks: Sequence[str]) -> dict[str, int]:
    return {"related": len(related), "unrelated": len(chunks) - len(related), "total": len(chunks)}


def _chunk_items(chunks: Sequence[str], related: Mapping[int, Related]) -> tuple[Item, ...]:
    items = []
    for number, text in enumerate(chunks, 1):
        match = related.get(number, Related(number))
        verdict: Verdict = "RELATED" if number in related else "UNRELATED"
        items.append(Item("chunk", text, verdict, match.reason, evidence=(Evidence(number, quote=match.quote),)))
    return tuple(items)


_WEIGHTS = {
    "correctness": 0.4,
    "faithfulness": 0.2,
    "chunk_precision": 0.2,
    "fact_recall": 0.2,
    "answer_relevance": 0.0,
}

rag_score = Composite(
    "rag_score",
    _WEIGHTS,
    scaled=True,
    summary="Weighted mean of correctness (0.4), faithfulness, chunk_precision and fact_recall (0.2 each).",
)
