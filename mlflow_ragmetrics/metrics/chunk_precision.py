"""How much of the retrieved text does the answer use?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Related, RelatedChunks, Role, Steps, ask
from mlflow_ragmetrics.core.score import Evidence, Item, Score
from mlflow_ragmetrics.metrics.claims import NoContext, as_judged, has_context, need_reference, without_context
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.text.non_answers import Indistinct, States, states_of


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
        return without_context(no_context, None, states.details("no_context", _counts({}, ())))
    if states.answer == "clear":
        score = yield from _compared(answer, chunks, "answer", states, question)
        states = yield from as_judged(states, answer, question, "no", indistinct)  # unless another reply says yes
        if states.answer == "clear":
            return score
    if reference is None:
        raise need_reference("chunk_precision", "the answer is a non-answer and the reference is compared instead")
    if states.reference == "clear":
        return (yield from _compared(reference, chunks, "reference", states, question))
    details = states.details("both_indistinct", _counts({}, chunks), no_context=False)
    return Score(value=0.0, reason=say("chunk_precision.both_indistinct"), details=details)


def _compared(text: str, chunks: tuple[str, ...], role: Role, states: States, question: str | None) -> Steps[Score]:
    found = yield from ask(RelatedChunks(text, chunks, role, question))
    related = {each.chunk: each for each in reversed(found) if 1 <= each.chunk <= len(chunks)}  # keeps the first repeat
    rule = "on_answer" if role == "answer" else "instead_of_answer"
    return Score(
        value=len(related) / len(chunks),
        reason=say(f"chunk_precision.{role}", n=len(chunks), related=len(related)),
        details=states.details(rule, _counts(related, chunks), no_context=False),
    ).with_items(partial(_items, chunks, related))


def _counts(related: Mapping[int, Related], chunks: Sequence[str]) -> dict[str, int]:
    return {"related": len(related), "unrelated": len(chunks) - len(related), "total": len(chunks)}


def _items(chunks: Sequence[str], related: Mapping[int, Related]) -> tuple[Item, ...]:
    items = []
    for number, text in enumerate(chunks, 1):
        found = related.get(number)
        evidence = (Evidence(chunk=number, quote=found.quote if found else ""),)
        reason = found.reason if found else ""
        items.append(Item("chunk", text, "RELATED" if found else "UNRELATED", reason, evidence=evidence))
    return tuple(items)
