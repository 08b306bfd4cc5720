"""Was the right passage found, and first? A judge grades each passage for the question, without gold ids."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import PassageGrade, Relevance, Steps, ask
from mlflow_ragmetrics.core.score import Evidence, Item, Message, Score, Verdict
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.metrics.documents import Cutoff, discount
from mlflow_ragmetrics.text.messages import Text, joined, say

RELEVANT = 2
"""The lowest grade of a relevant passage: part of an answer."""
_FULL = 3
_UMBRELA = "UMBRELA (Upadhyay et al., 2024)"


def passage_grades(
    question: str, contexts: Sequence[str], history: Sequence[Message] | None
) -> Steps[list[PassageGrade]]:
    """Ask for the grade of each passage; repeats are asked once, and a blank passage is 0 without a question."""
    distinct = tuple(dict.fromkeys(text for text in contexts if text.strip()))
    turns = tuple(f"{turn.role}: {turn.content}" for turn in history or ())
    answer = (yield from ask(Relevance(question, distinct, turns))) if distinct else ()
    grades = dict(zip(distinct, answer, strict=True))
    return [grades.get(text, PassageGrade(0.0)) for text in contexts]


def _score(value: float | None, reason: Text, contexts: Sequence[str], grades: Sequence[PassageGrade]) -> Score:
    """A score with the number of passages at each grade, the passages as items, and a warning on missing quotes."""
    unquoted = sum(passage.unquoted for passage in grades)
    return Score(
        value=value,
        reason=reason,
        details={**_levels(grades), "total": len(grades), "no_context": not grades},
        warnings=(("quote_not_found", say("context_relevance.unquoted", n=unquoted)),) if unquoted else (),
        items=tuple(map(_item, range(1, len(contexts) + 1), contexts, grades)),
    )


def _levels(grades: Sequence[PassageGrade]) -> dict[str, int]:
    return {f"grade_{grade}": sum(round(passage.grade) == grade for passage in grades) for grade in range(_FULL + 1)}


def _item(number: int, text: str, passage: PassageGrade) -> Item:
    verdict: Verdict = "RELATED" if round(passage.grade) >= RELEVANT else "UNRELATED"
    graded = joined(say("context_relevance.item", grade=f"{passage.grade:g}"), passage.reason)
    reason = passage.reason if passage.is_yes_or_no else graded
    return Item("chunk", text, verdict, reason, passage.grade / _FULL, (Evidence(number, None, passage.quote),))


@metric(
    source=f"TREC Deep Learning; {_UMBRELA}",
    aliases=("retrieval_relevance", "contextual_relevancy", "context_relevancy"),
)
def context_relevance(question: str, contexts: Sequence[str], history: Sequence[Message] | None = None) -> Steps[Score]:
    """How far the retrieved passages answer the question, whatever the answer says. Needs no labels.

    Formula: mean of grade / 3 over the passages, 0 to 1. The judge grades each passage for itself: 0 unrelated, 1 on
    the subject, 2 part of an answer, 3 a full answer, all passages of a row in one call, and quotes the deciding words.
    ``details`` counts the passages at each grade. A judge that tells only yes from no, such as the offline judge, gives
    the share of yes.

    Unscored: no question; no contexts field; nothing retrieved (``[]``), which ``n_no_context`` counts.

    Source: Upadhyay et al., "UMBRELA: UMbrela is the (Open-Source Reproduction of the) Bing RELevance Assessor", 2024,
    with the scale of the TREC Deep Learning Track.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> contexts = ["It is 330 m high.", "It is in Paris."]
    >>> record = {"question": "How high is it?", "contexts": contexts}
    >>> judge = rm.ScriptedJudge(relevance=[3, 1])
    >>> score = rm.score("context_relevance", record, judge=judge)
    >>> round(score.value, 3), score.reason
    (0.667, '1 of 2 passages answers the question fully, 0 in part.')
    """
    if not contexts:
        return _score(None, say("context_relevance.no_context"), (), ())
    grades = yield from passage_grades(question, contexts, history)
    value, levels = math.fsum(passage.grade for passage in grades) / (_FULL * len(grades)), _levels(grades)
    best = "full" if levels["grade_3"] else "part" if levels["grade_2"] else "none"
    extent = "yes" if any(passage.is_yes_or_no for passage in grades) else best
    return _score(value, say(f"context_relevance.{extent}", n=len(grades), **levels), contexts, grades)


def _ranked(
    question: str,
    contexts: Sequence[str],
    history: Sequence[Message] | None,
    measure: Callable[[Sequence[float]], float],
    *,
    nothing_relevant: float | None = None,
) -> Steps[Score]:
    """Score the grades in rank order with ``measure``; repeated passages keep their first rank."""
    ranked = tuple(dict.fromkeys(contexts))
    if not ranked:
        return _score(None, say("context_relevance.no_context"), (), ())
    grades = yield from passage_grades(question, ranked, history)
    if any(passage.is_yes_or_no for passage in grades):
        raise JudgeError("a ranking needs graded passages, and this judge only tells yes from no: use a language model")
    levels = [passage.grade for passage in grades]
    relevant = len(_relevant_ranks(levels))
    reason = say("context_relevance.ranking", n=len(levels), relevant=relevant)
    return _score(measure(levels) if relevant else nothing_relevant, reason, ranked, grades)


def _relevant_ranks(grades: Sequence[float]) -> list[int]:
    return [rank for rank, grade in enumerate(grades, 1) if round(grade) >= RELEVANT]


@metric(
    source=f"Järvelin and Kekäläinen (2002); {_UMBRELA}", key="judged_ndcg_{k}", key_pattern=r"judged_ndcg_(?P<k>\d+)"
)
def judged_ndcg(
    question: str, contexts: Sequence[str], history: Sequence[Message] | None = None, *, k: Cutoff = 10
) -> Steps[Score]:
    """Order of the retrieved passages by the judge's grades: ``ndcg(gold="judge")``. Missed passages do not count.

    Formula: DCG / ideal DCG of the first k passages; the gain is the grade of ``context_relevance`` (0 to 3, linear, as
    in trec_eval), the discount 1 / log2(rank + 1), the ideal the best order of the retrieved passages. Repeated
    passages keep their first rank. 0 to 1.

    Unscored: no question; no contexts, or none retrieved; no passage with a grade of 2 or 3; a judge that does not
    grade, such as the offline judge. Options: ``k`` (1 or more).
    Source: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"question": "How high?", "contexts": ["Paris.", "330 m."]}
    >>> judge = rm.ScriptedJudge(relevance=[0, 3])
    >>> round(rm.score("judged_ndcg_5", record, judge=judge).value, 3)
    0.631
    """

    def gain(grades: Sequence[float]) -> float:
        return math.fsum(grade * discount(rank) for rank, grade in enumerate(grades[:k], 1))

    def measure(grades: Sequence[float]) -> float:
        return gain(grades) / gain(sorted(grades, reverse=True))

    return (yield from _ranked(question, contexts, history, measure))


@metric(source=f"trec_eval; {_UMBRELA}", key="judged_precision_{k}", key_pattern=r"judged_precision_(?P<k>\d+)")
def judged_precision_k(
    question: str, contexts: Sequence[str], history: Sequence[Message] | None = None, *, k: Cutoff = 10
) -> Steps[Score]:
    """Share of the first k ranks with a relevant passage, by the judge's grades: ``precision_k(gold="judge")``.

    Formula: passages of grade 2 or 3 among the first k / k, even if fewer than k were retrieved. 0 to 1. Unscored:
    no question; no contexts, or none retrieved; a judge that does not grade. Options: ``k`` (1 or more).
    Source: trec_eval, ``P``; grades as in ``context_relevance``.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"question": "How high?", "contexts": ["Paris.", "330 m."]}
    >>> judge = rm.ScriptedJudge(relevance=[0, 3])
    >>> rm.score("judged_precision_2", record, judge=judge).value
    0.5
    """

    def measure(grades: Sequence[float]) -> float:
        return len(_relevant_ranks(grades[:k])) / k

    return (yield from _ranked(question, contexts, history, measure, nothing_relevant=0.0))


@metric(source=f"trec_eval; {_UMBRELA}")
def judged_mrr(question: str, contexts: Sequence[str], history: Sequence[Message] | None = None) -> Steps[Score]:
    """Reciprocal rank of the first relevant passage, by the judge's grades: ``mrr(gold="judge")``.

    Formula: 1 / rank of the first passage of grade 2 or 3. 0 to 1. Unscored: no question; no contexts, or
    none retrieved; no relevant passage; a judge that does not grade.
    Source: trec_eval, ``recip_rank``; grades as in ``context_relevance``.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"question": "How high?", "contexts": ["Paris.", "330 m."]}
    >>> judge = rm.ScriptedJudge(relevance=[0, 3])
    >>> rm.score("judged_mrr", record, judge=judge).value
    0.5
    """
    return (yield from _ranked(question, contexts, history, lambda grades: 1 / _relevant_ranks(grades)[0]))


@metric(source=f"trec_eval; {_UMBRELA}")
def judged_map(question: str, contexts: Sequence[str], history: Sequence[Message] | None = None) -> Steps[Score]:
    """Average precision of the passages' order, by the judge's grades: ``map(gold="judge")``.

    Formula: mean of the precisions at the ranks of the passages of grade 2 or 3. It measures order; missed passages do
    not count. 0 to 1. Unscored: no question; no contexts, or none retrieved; no relevant passage; a judge that does not
    grade.
    Source: trec_eval, ``map``; grades as in ``context_relevance``.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"question": "How high?", "contexts": ["Paris.", "330 m."]}
    >>> judge = rm.ScriptedJudge(relevance=[0, 3])
    >>> rm.score("judged_map", record, judge=judge).value
    0.5
    """

    def measure(grades: Sequence[float]) -> float:
        ranks = _relevant_ranks(grades)
        return math.fsum(place / rank for place, rank in enumerate(ranks, 1)) / len(ranks)

    return (yield from _ranked(question, contexts, history, measure))
