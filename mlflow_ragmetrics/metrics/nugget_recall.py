"""Does the answer state the facts of a good answer?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Nugget, Nuggets, Steps, Verify, ask
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.metrics.claims import Warnings, has_context, is_right, need_reference, read_findings
from mlflow_ragmetrics.text.messages import joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, is_indistinct, states_of
from mlflow_ragmetrics.text.words import has_content

Counted = Literal["vital", "all", "weighted"]
_PARTIAL = 0.3
_OKAY = 0.5


@metric(source="AutoNuggetizer (Pradeep et al., 2024)")
def nugget_recall(
    question: str,
    answer: str,
    reference: str | None = None,
    contexts: Sequence[str] | None = None,
    *,
    counted: Counted = "vital",
    partial: bool = False,
    indistinct: Indistinct = "rules",
) -> Steps[Score]:
    """Share of the facts of a good answer that the answer states.

    Formula: facts that the answer supports / facts, 0 to 1. ``counted="vital"`` counts the vital facts, or all facts if
    none is vital; "all" counts all facts; "weighted" counts all, with half the weight for those that are merely good to
    have. With ``partial=True``, a fact with a support between 0.3 and the judge's threshold counts half, unless the
    answer contradicts it. ``details`` has all six figures, such as ``vital_strict`` and ``weighted_partial``.

    The facts come from the reference or, if it is missing, from the contexts, provided that they answer the question.
    Finding them takes one call per question, independent of the answer, so a cache serves all systems. Checking the
    answer takes another call; a non-answer scores 0.0 without it. Unscored: no question or answer, neither reference
    nor contexts, a reference that is a non-answer, no facts. The offline judge treats each claim of the reference as a
    vital fact, and cannot find facts in contexts.

    Options: ``counted``; ``partial``; ``indistinct``, non-answer detection ("rules", "off", further phrases, or
    a function of the text).
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
    items = tuple(Item("claim", text, "NEUTRAL", against="answer") for text in texts)
    warnings: Warnings = ()
    if states_of(answer, None, indistinct).answer == "clear":
        findings = yield from ask(Verify(texts, (answer,), "answer", "reference", question))
        items, warnings = read_findings(texts, findings, 0, "answer")
    pairs = list(zip(items, nuggets, strict=True))
    figures = {
        f"{name}_{'partial' if half else 'strict'}": _recall(pairs, name, half)
        for name in ("vital", "all", "weighted")
        for half in (False, True)
    }
    value = figures[f"{counted}_{'partial' if partial else 'strict'}"]
    vital = sum(nugget.vital for nugget in nuggets)
    stated = [nugget.vital for item, nugget in pairs if is_right(item)]
    counts = {"stated": len(stated), "n": len(nuggets), "vital_stated": sum(stated), "vital": vital}
    shown = tuple(item.changed(reason=joined(say(_RANKS[nugget.vital]), item.reason)) for item, nugget in pairs)
    details = {**figures, "vital": vital, "okay": len(items) - vital}
    reason = say("nugget_recall.judged", **counts)
    return Score(value=value, reason=reason, items=shown, details=details, warnings=warnings)


_RANKS = {True: "nugget_recall.vital", False: "nugget_recall.okay"}


def _recall(pairs: Sequence[tuple[Item, Nugget]], counted: Counted, partial: bool) -> float:
    only_vital = counted == "vital" and any(nugget.vital for _, nugget in pairs)
    total = credit = 0.0
    for item, nugget in pairs:
        weight = _OKAY if counted == "weighted" and not nugget.vital else 1.0
        if only_vital and not nugget.vital:
            continue
        half = partial and item.verdict == "NEUTRAL" and item.support is not None and item.support >= _PARTIAL
        total += weight
        credit += weight * (1.0 if is_right(item) else 0.5 if half else 0.0)
    return credit / total
