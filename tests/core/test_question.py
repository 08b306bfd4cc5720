from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlflow_ragmetrics.core.question import Claims, Nugget, Question, Rating, RelatedChunks, Verify, cache_key
from mlflow_ragmetrics.errors import JudgeReplyError


def test_the_key_of_a_question_is_its_kind_and_content_without_its_role() -> None:
    assert cache_key(Claims("A.", "answer")) == cache_key(Claims("A.", "reference"))
    questions = [
        Claims("A."),
        Claims("B."),
        RelatedChunks("A.", ("c",)),
        Verify(("A.",), ("c",)),
        Verify(("A.",), ("c",), "reference"),
        Verify(("A.", "c"), ()),
    ]
    assert len({cache_key(question) for question in questions}) == len(questions)


def test_the_key_tells_questions_of_the_same_content_apart_by_their_kind() -> None:
    @dataclass(frozen=True)
    class Language(Question[str]):
        text: str
        kind: ClassVar[str] = "language"

    @dataclass(frozen=True)
    class Tone(Question[str]):
        text: str
        kind: ClassVar[str] = "tone"

    assert cache_key(Language("A.")) != cache_key(Tone("A."))


def test_a_nugget_is_vital_unless_it_is_said_not_to_be() -> None:
    assert Nugget("Red.") == Nugget("Red.", True)
    assert Nugget("Red.") != Nugget("Red.", False)


@pytest.mark.parametrize(
    ("value", "grade"),
    [
        (1, 1.0), (5, 5.0), ("5/5", 5.0), ("3,5 of 5.", 3.5), (0.99, None), (5.01, None), (True, None), ("good", None),
        (10**400, None), (float("nan"), None), (None, None),
    ],
)  # fmt: skip
def test_a_grade_is_a_number_from_1_to_5(value: object, grade: float | None) -> None:
    if grade is None:
        with pytest.raises(JudgeReplyError, match="not a number from 1 to 5"):
            Rating(value).checked_grade("correctness")  # type: ignore[arg-type]
    else:
        assert Rating(value).checked_grade("correctness") == grade  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "tone"), [(0, 0.0), ("0.5", 0.5), (1, 1.0), (0.25, None), (2, None), (None, None)])
def test_a_tone_is_0_a_half_or_1(value: object, tone: float | None) -> None:
    if tone is None:
        with pytest.raises(JudgeReplyError, match=r"not 0, 0\.5 or 1"):
            Rating(value).checked_tone("faithfulness")  # type: ignore[arg-type]
    else:
        assert Rating(value).checked_tone("faithfulness") == tone  # type: ignore[arg-type]


@given(st.text(st.characters(codec=None), max_size=8), st.text(st.characters(codec=None), max_size=8))
@example("\ud800", "\udfff")
@example("é", "\\u00e9")
def test_any_text_has_a_key_of_its_own(one: str, other: str) -> None:
    assert (cache_key(Claims(one)) == cache_key(Claims(other))) is (one == other)
