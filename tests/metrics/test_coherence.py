"""Deductions for incomplete, contradicting and repeated sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.lexical import coherence


def value(answer: str) -> float | None:
    return rm.score("coherence", {"answer": answer}).value


@pytest.mark.parametrize(
    ("answer", "contradictions"),
    [
        ("It is open today. It isn’t open today.", 1),
        ("It was open then. It wasn't open then.", 1),
        ("We can go there. We can't go there.", 1),
        ("We will go there. We won't go there.", 1),
        ("We cannot go there now.", 0),
        ("That is always true. That is never false.", 2),
        ("Before the sale, prices increase. After the sale, they decrease.", 2),
        ("All of them came. None of them came. ALL of them came.", 1),
        ("The island is calm. This history is not long.", 1),
        ("Cancel the canned order please.", 0),
        ("It  is\nnot here and it is there.", 1),
    ],
)
def test_contradictions(answer: str, contradictions: int) -> None:
    assert rm.score("coherence", {"answer": answer}).details["contradictions"] == contradictions


def test_the_pairs_are_an_option() -> None:
    record = {"answer": "The tea is hot today. The tea stays cold."}
    assert rm.score("coherence", record).value == 1.0
    score = rm.score("coherence", record, contradictions=[("hot", "cold")])
    assert score.value == 0.9
    assert [(item.text, item.reason) for item in score.items] == [
        ("hot / cold", "The answer states both of these opposites.")
    ]
    with pytest.raises(InvalidOptionError) as caught:
        coherence(contradictions=["hot"])
    assert caught.value.param == "contradictions"


def test_repetition_counts_from_more_than_three_tenths() -> None:
    different = [f"Sentence number {i} stands here." for i in range(7)]
    assert value(" ".join([*different, *different[:3]])) == 1.0
    assert value(" ".join([*different[:6], *different[:3]])) == 0.8
    assert value("We like it here. We  LIKE it here!") == 0.8


def test_sentences_without_words_are_none() -> None:
    for answer in ("", "  ", "?!…", "---"):
        score = rm.score("coherence", {"answer": answer})
        assert (score.value, score.details["sentences"]) == (0.0, 0)


def test_items_are_what_costs() -> None:
    score = rm.score("coherence", {"answer": "Yes. All is well here. No. Yes."})
    assert score.details == {"sentences": 4, "incomplete": 3, "contradictions": 1, "repeated": 1}
    assert [item.text for item in score.items] == ["Yes.", "No.", "Yes.", "yes / no", "yes"]
    assert score.value == 0.45


@given(st.lists(st.sampled_from(["It is so.", "It is not so.", "No.", "We agree on that."]), max_size=12))
def test_range(parts: list[str]) -> None:
    found = value(" ".join(parts))
    assert 0.0 <= found <= 1.0


def test_a_sentence_has_three_words() -> None:
    score = rm.score("coherence", {"answer": "It rains. It rains today."})
    assert (score.value, score.details["incomplete"]) == (0.85, 1)
