"""Bit-parallel longest common subsequences against the plain table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.metrics.rouge import lcs
from mlflow_ragmetrics.metrics.rouge.lcs import common_places, places_of

TEXTS = st.text("abc", max_size=20)


def table(one: str, other: str) -> list[list[int]]:
    rows = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            rows[i + 1][j + 1] = rows[i][j] + 1 if left == right else max(rows[i][j + 1], rows[i + 1][j])
    return rows


@given(TEXTS, TEXTS)
def test_places_spell_a_common_subsequence_of_full_length(one: str, other: str) -> None:
    found = sorted(common_places(one, places_of(one), other))
    assert len(found) == table(one, other)[-1][-1]
    rest = iter(other)
    assert all(one[place] in rest for place in found)


def test_a_text_beyond_a_machine_word() -> None:
    assert len(common_places("ab" * 500, places_of("ab" * 500), "ba" * 500)) == 999
    assert common_places("", places_of(""), "abc") == []


@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_a_table_made_block_by_block_gives_the_same_places(one: str, other: str) -> None:
    places = places_of(one)
    whole = common_places(one, places, other)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lcs, "_LARGEST_TABLE", 0)
        assert common_places(one, places, other) == whole
