"""Items that are created on first access look like any others."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict, replace

from mlflow_ragmetrics.core.score import Chunk, Evidence, Item, Score
from mlflow_ragmetrics.suite import Suite
from mlflow_ragmetrics.text.messages import render, say

ITEMS = (Item("document", "a", "FOUND"), Item("document", "b", "NOT_FOUND"))
AT_ONCE = Score(value=0.5, items=ITEMS)


def finished(score: Score, language: str, contexts: list[Chunk]) -> Score:
    """A copy of the score with finished items."""
    copied = score.changed()
    copied.finish_items(language, contexts)
    return copied


class Maker:
    """Creates the items and counts how often."""

    def __init__(self, items: tuple[Item, ...] = ITEMS) -> None:
        self.items = items
        self.calls = 0

    def __call__(self) -> tuple[Item, ...]:
        self.calls += 1
        return self.items


def test_items_are_made_once_and_only_when_they_are_read():
    make = Maker()
    score = Score(value=0.5).with_items(make).changed(reason="because")
    assert make.calls == 0
    assert score.items is score.items
    assert score.items == ITEMS
    assert make.calls == 1


def test_a_score_whose_items_nobody_read_is_equal_copied_and_pickled_like_any_other():
    for use in (lambda s: s, copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s)), replace):
        assert use(Score(value=0.5).with_items(lambda: ITEMS)) == AT_ONCE
    assert asdict(Score(value=0.5).with_items(lambda: ITEMS)) == asdict(AT_ONCE)
    assert repr(Score(value=0.5).with_items(lambda: ITEMS)) == repr(AT_ONCE)


def test_items_that_are_set_win_over_those_that_were_to_be_made():
    assert Score(value=0.5).with_items(lambda: ITEMS).changed(items=ITEMS[:1]).items == ITEMS[:1]
    assert AT_ONCE.changed().with_items(lambda: ITEMS[:1]).items == ITEMS[:1]
    assert Score().items == ()


def test_items_that_are_not_made_are_finished_when_they_are_read():
    made = (Item("chunk", "a", reason=say("retrieval.missed"), evidence=(Evidence(1, quote="a"),)),)
    make = Maker(made)
    score = finished(Score(value=0.5).with_items(make), "ru", [Chunk("a", id="doc-1")])
    assert make.calls == 0
    (item,) = score.items
    assert (type(item.reason), item.reason) == (str, render(say("retrieval.missed"), "ru"))
    assert item.evidence == (Evidence(1, "doc-1", "a"),)
    assert finished(Score(value=0.5, items=made), "ru", [Chunk("a", id="doc-1")]).items == (item,)
    assert finished(Score(value=0.5), "ru", [Chunk("a", id="doc-1")]).items == ()


def test_items_that_were_finished_stay_as_they_are_when_the_score_is_finished_again():
    made = (Item("chunk", "a", reason=say("retrieval.missed"), evidence=(Evidence(1),)),)
    for score in (Score(value=0.5, items=made), Score(value=0.5).with_items(lambda: made)):
        again = finished(finished(score, "ru", [Chunk("a", id="doc-1")]), "en", [Chunk("b", id="doc-2")])
        assert again.items == finished(score, "ru", [Chunk("a", id="doc-1")]).items


def test_items_with_nothing_to_finish_stay_as_they_are():
    assert finished(Score(value=0.5).with_items(lambda: ITEMS), "ru", [Chunk("a", id="doc-1")]).items == ITEMS
    cited = (*ITEMS, Item("chunk", "a", evidence=(Evidence(1),)))
    assert finished(Score(value=0.5).with_items(lambda: cited), "ru", [Chunk("a")]).items == cited
    *others, item = finished(Score(value=0.5).with_items(lambda: cited), "ru", [Chunk("a", id="doc-1")]).items
    assert (tuple(others), item.evidence) == (ITEMS, (Evidence(1, "doc-1"),))


def test_retrieved_documents_are_no_items_before_somebody_looks():
    rows = [{"retrieved_doc_ids": ["a", "b"], "gold_doc_ids": ["a", "c"]}]
    score = Suite(["ndcg"], language="ru").evaluate(rows, progress=False).rows[0].scores["ndcg_10"]
    assert score.compact_items is not None
    assert [(item.text, item.verdict) for item in score.items] == [
        ("a", "FOUND"),
        ("b", "NOT_FOUND"),
        ("c", "NOT_FOUND"),
    ]
    assert all(type(item.reason) is str for item in score.items)
    assert score.compact_items is None
