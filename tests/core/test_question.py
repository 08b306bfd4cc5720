from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlflow_ragmetrics.core.question import Claims, Nugget, Question, RelatedChunks, Verify, cache_key


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
