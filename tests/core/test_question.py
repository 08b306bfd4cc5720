from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlflow_ragmetrics.cache import decode, encode
from mlflow_ragmetrics.core.question import (
    Claims,
    Embed,
    Extraction,
    Finding,
    Grade,
    Nugget,
    Nuggets,
    PassageGrade,
    Question,
    Rating,
    RelatedChunks,
    Relevance,
    Sufficiency,
    Verify,
    cache_key,
    passages_digest,
)
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeReplyError


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


@dataclass(frozen=True)
class Odd(Question[int]):
    first: str
    numbers: tuple[int, ...] = (1,)
    parts: tuple[str, ...] = ("a",)
    mixed: tuple[object, ...] = ("a", 1)
    note: str = field(default="n", compare=False)
    kind: ClassVar[str] = "odd"


class Derived(Odd):
    """A question derived from another one."""


def test_a_question_names_the_texts_that_a_judge_reads() -> None:
    assert Odd("x").named_texts() == {"first": ("x",), "parts": ("a",)}
    assert Claims("x", "reference").named_texts() == {"reference": ("x",)}
    assert Verify(("x",), ("p",), "reference").named_texts() == {"answer": ("x",), "reference": ("p",)}
    assert RelatedChunks("x", ("p",)).named_texts() == {"answer": ("x",), "contexts": ("p",)}
    assert Sufficiency("q", ("p",), ("h",)).named_texts() == {"question": ("q",), "history": ("h",), "contexts": ("p",)}
    assert Nuggets("q", ("s",)).named_texts() == {"question": ("q",), "reference": ("s",)}
    assert Nuggets("q", ("s",), from_reference=False).named_texts() == {"question": ("q",), "contexts": ("s",)}
    assert Grade("correctness", "a").named_texts() == {"answer": ("a",)}
    full = Grade("correctness", "a", "q", "", ["p"])  # type: ignore[arg-type]
    assert full.named_texts() == {"answer": ("a",), "question": ("q",), "reference": ("",), "contexts": ("p",)}
    assert (full.contexts, hash(full) == hash(full)) == (("p",), True)


def test_a_question_has_the_answer_type_of_its_class_and_accepts_what_fits() -> None:
    assert [encode(question, 5) for question in (Odd("x"), Derived("x"))] == ["5", "5"]
    assert [encode(question, "five") for question in (Odd("x"), Derived("x"))] == [None, None]
    assert decode(Nuggets("q", ("s",)), '[{"text": "It is red.", "vital": false}]') == (Nugget("It is red.", False),)
    assert (Odd("x").answered_by, Odd("x").fits(1)) == (None, True)
    assert (Odd.stored, Claims.stored, Embed.stored) == (True, True, False)
    finding = Finding("SUPPORTED")
    assert Verify(("x", "y"), ()).fits((finding, finding))
    assert not Verify(("x", "y"), ()).fits((finding,))
    relevance = Relevance("q", ("x", "y"))
    grades = [tuple(map(PassageGrade, given)) for given in ((0, 3), (-1, 3), (0, 4), (0,))]
    assert [relevance.fits(given) for given in grades] == [True, False, False, False]
    claims = Claims("x")
    assert claims.fits(("a",))
    assert claims.fits(Extraction(("a",)))
    assert claims.fits(Extraction(("a",), findings=(finding,), judged_by="d"))
    assert not claims.fits(Extraction(("a", "b"), findings=(finding,), judged_by="d"))


def test_verdicts_of_an_extraction_hold_for_its_passages_only() -> None:
    findings = (Finding("SUPPORTED"),)
    judged = Extraction(("a",), findings=findings, judged_by=passages_digest(["p", "q"]))
    assert judged.findings_on(("p", "q")) == findings
    assert judged.findings_on(("p",)) is None
    assert Extraction(("a",), findings=findings).findings_on(()) is None
    assert (list(judged), len(judged)) == (["a"], 1)


@pytest.mark.parametrize(
    ("aspect", "rubric", "param"),
    [("not a name", "5 good", "aspect"), ("politeness", None, "rubric"), ("correctness", " \n", "rubric")],
)
def test_a_grade_needs_a_name_and_a_rubric(aspect: str, rubric: str | None, param: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        Grade(aspect, "a", rubric=rubric)
    assert caught.value.param == param
    assert Grade("answer_relevance", "a").rubric is None


@pytest.mark.parametrize(
    ("said", "grade"),
    [
        ("4", 4.0), ("+4", 4.0), (" 4 ", 4.0), ("4.5", 4.5), ("4 / 5.0", 4.0), ("4 out of 5", 4.0), ("4 из 5", 4.0),
        ("4/10", None), ("4 of 6", None), ("4 5", None), ("-4", None), ("four", None), ([4], None),
        (float("inf"), None), (6, None), (4, 4.0), (1.0, 1.0), (False, None), (1, 1.0), (5, 5.0), ("5/5", 5.0),
        ("3,5 of 5.", 3.5), (0.99, None), (5.01, None), (True, None), (10**400, None), (float("nan"), None),
        (None, None),
    ],
)  # fmt: skip
def test_a_grade_is_read_from_what_judges_write(said: object, grade: float | None) -> None:
    with pytest.raises(JudgeReplyError, match="not a number from 1 to 5") if grade is None else nullcontext():
        assert Rating(said).checked_grade("correctness") == grade  # type: ignore[arg-type]


@pytest.mark.parametrize("field_name", ["text", "question", "history"])
def test_the_key_of_claims_holds_what_they_mean_and_not_who_asks(field_name: str) -> None:
    claims = Claims("x", "answer", "q", ("h",), ("p",))
    other = {"text": "y", "question": "r", "history": ("i",)}[field_name]
    assert cache_key(replace(claims, **{field_name: other})) != cache_key(claims)
    assert cache_key(replace(claims, role="reference", passages=())) == cache_key(claims)
    assert replace(claims, role="reference", passages=()) == claims
