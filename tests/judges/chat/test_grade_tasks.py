"""Grades, sufficiency, nuggets and preferences: which replies are read, and where their scales end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mlflow_ragmetrics.core.question import Finding, Grade, Nugget, Nuggets, Prefer, Question, Rating, Sufficiency, Tone
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.tasks import request_of
from tests.judges.fake_models import scripted

PASSAGES = ("The house is red.", "It stands in Rome.")


def answer(question: Question[Any], **reply: Any) -> Any:
    """What the judge answers, or ``None`` if it takes the reply, given twice, for unusable."""
    (found,) = ChatJudge(scripted(*[json.dumps(reply)] * 2)).answer([question])
    return None if isinstance(found, JudgeReplyError) else found


@pytest.mark.parametrize(("given", "expected"), [(0, 0.0), (0.5, 0.5), (1, 1.0), (0.4, None), (2, None)])
def test_a_tone_is_one_of_three_numbers(given: Any, expected: float | None) -> None:
    found = answer(Tone("No idea.", "Unknown."), grades=[{"id": "tone", "reason": "So.", "grade": given}])
    assert found == (None if expected is None else Rating(expected, "So."))


@pytest.mark.parametrize(
    ("given", "expected"),
    [(0, 0.0), (100, 1.0), (1, 0.01), (0.5, 0.5), (70, 0.7), (33.33333, 0.3333), (-1, None), (101, None)],
)
def test_sufficiency_is_a_share_of_100_readers_or_a_fraction(given: Any, expected: float | None) -> None:
    entry = {"id": "question", "reason": "So.", "sufficient": given, "quotes": []}
    found = answer(Sufficiency("Which?", PASSAGES), sufficiency=[entry])
    assert found == (None if expected is None else Finding("", "So.", expected))


@pytest.mark.parametrize(
    ("label", "text", "quotes"),
    [
        ("p1", "house is red", ((1, "house is red"),)),
        ("2", "stands in Rome", ((2, "stands in Rome"),)),
        ("p2", "house is red", ()),
        ("p3", "house is red", ()),
        ("p0", "stands in Rome", ()),
    ],
)
def test_a_quote_for_sufficiency_is_from_the_passage_that_it_names(label: str, text: str, quotes: Any) -> None:
    entry = {"id": "question", "reason": "So.", "sufficient": 90, "quotes": [{"passage": label, "text": text}]}
    assert answer(Sufficiency("Which?", PASSAGES), sufficiency=[entry]).quotes == quotes


@pytest.mark.parametrize(
    ("better", "readers", "expected"),
    [
        ("A", 50, ("first", 0.5)),
        ("Answer B.", 100, ("second", 1.0)),
        ("A", 0.75, ("first", 0.75)),
        ("A", 1, ("first", 1.0)),
        ("tie", 90, ("tie", 0.5)),
        ("Tie", None, ("tie", 0.5)),
        ("a", "75%", ("first", 0.75)),
        ("[A].", 80, ("first", 0.8)),
        ("A", 66.66666, ("first", 0.6667)),
        ("A", 49, None),
        ("A", 101, None),
        ("A", 0.49, None),
        ("A", None, None),
        ("C", 60, None),
    ],
)
def test_a_preference_is_that_of_half_the_readers_or_more(
    better: str, readers: Any, expected: tuple[str, float] | None
) -> None:
    entry = {"id": "question", "reason": "So.", "better": better, "readers": readers}
    found = answer(Prefer("Which?", "Red.", "Old."), preference=[entry])
    assert found == (None if expected is None else Finding(expected[0], "So.", expected[1]))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([{"fact": "Red.", "vital": True}, {"fact": "Red.", "vital": False}], (Nugget("Red.", True),)),
        ([{"fact": "Red.", "vital": "False"}], (Nugget("Red.", False),)),
        ([], ()),
        ([{"fact": "…", "vital": True}], None),
        ([{"fact": "Red.", "vital": "maybe"}], None),
        (["Red."], None),
        ("Red.", None),
    ],
)
def test_nuggets_are_facts_in_words_without_repeats(given: Any, expected: Any) -> None:
    assert answer(Nuggets("Which?", ("It is red.",), True), nuggets=given) == expected


def test_passages_of_a_preference_are_numbered_from_one() -> None:
    part = request_of([Prefer("Which?", "Red.", "Old.", references=("R.",), contexts=("one", "two"))])
    assert [(block.label, block.text) for block in part.blocks] == [
        ("question", "Which?"), ("p1", "one"), ("p2", "two"), ("reference", "R."),
        ("answer A", "Red."), ("answer B", "Old."),
    ]  # fmt: skip


def test_a_rubric_sees_every_passage_by_its_number_and_each_reference() -> None:
    rubric = "5 if every passage is used, 1 if none is"
    asked = Grade("thoroughness", "Red.", "Which?", "Red.", contexts=PASSAGES, rubric=rubric)
    blocks = [(each.label, each.text) for each in request_of([asked]).blocks]
    texts = [
        ("question", "Which?"),
        ("reference", "Red."),
        ("p1", PASSAGES[0]),
        ("p2", PASSAGES[1]),
        ("answer", "Red."),
    ]
    assert blocks == texts
    several = [Grade("correctness", "Red.", "Which?", reference) for reference in ("Red.", "Blue.", "Green.")]
    labels = [each.label for each in request_of(several).blocks]
    assert labels == ["question", "reference 1", "reference 2", "reference 3", "answer"]
