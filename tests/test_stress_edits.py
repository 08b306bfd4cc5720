"""Each edit makes the change of its kind and does not apply to other texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.stress_suite import KINDS, keep

EDITED = [
    ("negation", "The tower is red.", "The tower is not red."),
    ("negation", "It includes breakfast.", "It does not include breakfast."),
    ("negation", "Dogs do not eat it.", "Dogs do eat it."),
    ("negation", "Москва является столицей.", "Москва не является столицей."),
    ("negation", "Собаки не едят это.", "Собаки едят это."),
    ("number", "It costs 20 dollars.", "It costs 31 dollars."),
    ("number", "There are three parts.", "There are eight parts."),
    ("number", "В доме два подъезда.", "В доме пять подъезда."),
    ("date", "It opened in 1889.", "It opened in 1891."),
    ("date", "Музей открыт 5 мая.", "Музей открыт 5 июня."),
    ("unit", "Cook it for 5 minutes.", "Cook it for 5 hours."),
    ("unit", "Длина 20 километров.", "Длина 20 метров."),
    ("name", "It was built by Eiffel.", "It was built by Oslo."),
    ("name", "Башню построил Шухов.", "Башню построил Вологда."),
    ("order", "The team of Berlin beat the team of Madrid.", "The team of Madrid beat the team of Berlin."),
    ("order", "Take it before meals.", "Take it after meals."),
    ("order", "Принимать до еды.", "Принимать после еды."),
    ("condition", "Entry is free if you are under 18.", "Entry is free."),
    ("condition", "If it rains, the park closes.", "The park closes."),
    ("condition", "Вход свободный, если вам нет 18 лет.", "Вход свободный."),
    ("condition", "It may cause pain.", "It will cause pain."),
]


@pytest.mark.parametrize(("kind", "claim", "edited"), EDITED)
def test_what_each_kind_makes_of_a_claim(kind: str, claim: str, edited: str) -> None:
    assert next(filter(None, (edit(claim, 0) for edit in KINDS[kind])), None) == edited


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_edited_where_nothing_applies(kind: str) -> None:
    assert [edit("Hello there", 0) for edit in KINDS[kind]] == [None] * len(KINDS[kind])


def test_two_words_of_one_name_are_not_exchanged() -> None:
    assert KINDS["order"][0]("In the Windward Islands it rains.", 0) is None


@given(st.text(max_size=60), st.integers(0, 2**32))
def test_an_edit_is_another_text_or_none(claim: str, seed: int) -> None:
    for edit in (*(edit for edits in KINDS.values() for edit in edits), keep):
        edited = edit(claim, seed)
        assert edited is None or isinstance(edited, str)
