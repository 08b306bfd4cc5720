"""Grades of passages for the question: their mean, their order, and what is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Relevance
from mlflow_ragmetrics.errors import AllJudgesFailedError, InvalidOptionError
from tests.judges.fake_models import scripted

RANKINGS = ("judged_ndcg_5", "judged_precision_3", "judged_mrr", "judged_map")


def row(*passages: str, **fields: Any) -> dict[str, Any]:
    return {"question": "How high is the tower?", "contexts": list(passages), **fields}


def test_the_value_is_the_mean_grade_of_the_passages() -> None:
    judge = rm.ScriptedJudge(relevance=[3, 2, 1, 0])
    score = rm.score("context_relevance", row("330 m.", "High.", "A tower.", "Trees."), judge=judge)
    assert score.value == pytest.approx((3 + 2 + 1 + 0) / 12)
    assert [(item.kind, item.verdict, item.reason) for item in score.items] == [
        ("chunk", "RELATED", "Grade 3 of 3."),
        ("chunk", "RELATED", "Grade 2 of 3."),
        ("chunk", "UNRELATED", "Grade 1 of 3."),
        ("chunk", "UNRELATED", "Grade 0 of 3."),
    ]
    assert [item.support for item in score.items] == pytest.approx([1, 2 / 3, 1 / 3, 0])
    assert [score.details[f"grade_{grade}"] for grade in range(4)] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("grades", "reason"),
    [
        ([3, 2], "1 of 2 passages answers the question fully, 1 in part."),
        ([2, 1], "1 of 2 passages answers part of the question, none fully."),
        ([1, 0], "None of 2 passages answers any part of the question; 1 is on its subject."),
    ],
)
def test_the_reason_says_what_is_missing(grades: list[int], reason: str) -> None:
    assert rm.score("context_relevance", row("A.", "B."), judge=rm.ScriptedJudge(relevance=grades)).reason == reason


def test_repeats_are_asked_once_blank_passages_never_and_all_metrics_share_the_call() -> None:
    judge = rm.ScriptedJudge(relevance=[3, 0])
    suite = rm.Suite(["context_relevance", "ndcg(gold='judge')", "judged_map"], judge=judge)
    turns = [{"role": "user", "content": "Tell me of the tower."}]
    report = suite.evaluate([row("330 m.", "Trees.", "330 m.", history=turns)], progress=False)
    assert judge.asked == [Relevance("How high is the tower?", ("330 m.", "Trees."), ("user: Tell me of the tower.",))]
    assert {key: score.value for key, score in report.rows[0].scores.items()} == {
        "context_relevance": pytest.approx(2 / 3),
        "judged_ndcg_10": 1.0,
        "judged_map": 1.0,
    }


def test_nothing_retrieved_is_skipped_and_counted() -> None:
    report = rm.evaluate([row(), row("330 m.")], ["context_relevance"], judge=rm.ScriptedJudge(relevance=[3]))
    assert [r.scores["context_relevance"].status for r in report.rows] == ["skipped", "ok"]
    assert report.metrics["context_relevance/n_no_context"] == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12).filter(lambda grades: max(grades) >= 2))
def test_rankings_equal_trec_eval(grades: list[int]) -> None:
    names = [f"passage {rank}" for rank in range(len(grades))]
    run = {name: float(-rank) for rank, name in enumerate(names)}
    gains, relevant = (
        dict(zip(names, grades, strict=True)),
        {n: int(g >= 2) for n, g in zip(names, grades, strict=True)},
    )
    (ndcg,) = pytrec_eval.RelevanceEvaluator({"q": gains}, {"ndcg_cut.5"}).evaluate({"q": run})["q"].values()
    others = pytrec_eval.RelevanceEvaluator({"q": relevant}, {"P.3", "recip_rank", "map"}).evaluate({"q": run})["q"]
    judge = rm.ScriptedJudge(relevance=grades)
    values = [rm.score(key, row(*names), judge=judge).value for key in RANKINGS]
    assert values == pytest.approx([ndcg, others["P_3"], others["recip_rank"], others["map"]], abs=1e-9)


def test_without_a_relevant_passage_there_is_no_order_to_measure() -> None:
    report = rm.evaluate([row("A.", "B.")], RANKINGS, judge=rm.ScriptedJudge(relevance=[1, 0]))
    assert [score.value for score in report.rows[0].scores.values()] == [None, 0.0, None, None]


@pytest.mark.parametrize(("name", "key"), [("ndcg", "judged_ndcg_5"), ("precision_k", "judged_precision_5")])
def test_gold_judge_changes_the_key(name: str, key: str) -> None:
    metric = rm.Suite([f"{name}(gold='judge', k=5)"]).metrics[0]
    assert (metric.key, metric.required) == (key, ("question", "contexts"))
    with pytest.raises(InvalidOptionError, match=f"{name}: gold='ids' must be 'judge', or left out"):
        rm.Suite([f"{name}(gold='ids')"])


def test_the_offline_judge_tells_yes_from_no_and_ranks_nothing() -> None:
    score = rm.score("context_relevance", row("The tower is 330 m high.", "Trees grow."))
    assert (score.value, [item.verdict for item in score.items]) == (0.5, ["RELATED", "UNRELATED"])
    assert score.reason == "1 of 2 passages is relevant to the question by wording, yes or no only."
    for key in RANKINGS:
        with pytest.raises(AllJudgesFailedError, match="needs graded passages"):
            rm.score(key, row("The tower is 330 m high."))


def reply(*grades: Any, quote: str = "330 m", ids: str = "p1 p2") -> str:
    entries = [
        {"id": name, "quote": quote, "reason": "So.", "grade": grade}
        for name, grade in zip(ids.split(), grades, strict=False)
    ]
    return json.dumps({"relevance": entries})


@pytest.mark.parametrize(
    ("replies", "value", "calls"),
    [
        ([reply(3, 0)], 0.5, 1),
        ([reply("2", 1.0, ids="2 1")], 0.5, 1),
        ([reply(3), reply(3, 3)], 1.0, 2),
        ([reply(4, 0), reply(2.5, 0)], None, 2),
        ([reply(None, 0), reply(-1, 0)], None, 2),
        ([reply(3, 0, quote="not there"), reply(3, 0)], 0.5, 2),
        ([reply(3, 0, quote="not there")] * 2, 0.5, 2),
        ([reply(0, 0, quote="")], 0.0, 1),
    ],
)
def test_a_reply_is_repaired_once_and_then_the_row_has_no_score(
    replies: list[str], value: float | None, calls: int
) -> None:
    model = scripted(*replies)
    passages = ("It is 330 m high.", "The tower of 330 m.")
    report = rm.evaluate([row(*passages)], ["context_relevance"], judge=rm.ChatJudge(model))
    (score,) = report.rows[0].scores.values()
    assert (score.value, report.usage["calls"]) == (value, calls)
    assert ("quote_not_found" in dict(score.warnings)) is ("not there" in replies[-1])


def test_a_very_long_reason_is_cut_and_says_so() -> None:
    entry = {"id": "p1", "quote": "330 m", "reason": "z" * 5_000_000, "grade": 3}
    judge = rm.ChatJudge(scripted(json.dumps({"relevance": [entry]})))
    (item,) = rm.score("context_relevance", row("It is 330 m high."), judge=judge).items
    assert len(item.reason) < 5_000
    assert item.reason.endswith("[… 4,996,000 characters cut]")
