from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.core.score import Chunk, Message, Sample
from mlflow_ragmetrics.rows import digest

SAMPLE = Sample(id="1", answer="a", contexts=(Chunk("c", "1", {"k": [1]}),), metadata={"m": {"n": [1, 2]}})


@pytest.mark.parametrize(
    "change",
    [
        {"id": "2"},
        {"answer": None},
        {"answer": ""},
        {"contexts": (Chunk("c", "1", {"k": [2]}),)},
        {"contexts": ()},
        {"references": ("a",)},
        {"history": (Message("user", "Hi"),)},
        {"metadata": {"m": {"n": [2, 1]}}},
        {"invalid": {"answer": "why"}},
    ],
)
def test_every_value_counts(change: dict[str, Any]) -> None:
    assert digest([replace(SAMPLE, **change)]) != digest([SAMPLE])


def test_a_digest_is_stable() -> None:
    assert digest([SAMPLE]) == digest(iter([replace(SAMPLE)]))
    assert len(digest([])) == 16
    assert digest([{"a": 1, "b": {"c": 2, "d": 3}}]) == digest([{"b": {"d": 3, "c": 2}, "a": 1}])
    assert digest([{"a": np.array([1, 2])}]) == digest([{"a": [1, 2]}])
    assert digest([{"a": pd.NA}]) == digest([{"a": None}])
    assert digest([{"a": object()}]) == digest([{"a": object()}])
    assert digest([{"a": {"x", "y"}}]) == digest([{"a": {"y", "x"}}])


def test_rows_and_their_bounds_count() -> None:
    rows = [{"a": "1"}, {"a": "2"}]
    assert digest(rows) != digest(rows[::-1])
    assert digest([{"a": ["x", "y"]}]) != digest([{"a": ["xy"]}])
    assert digest([{"a": 1}, {}]) != digest([{"a": 1}])


@given(
    st.dictionaries(
        st.text(), st.recursive(st.none() | st.text() | st.floats() | st.integers(), st.lists, max_leaves=5)
    )
)
def test_any_row_has_a_digest(row: dict[str, Any]) -> None:
    assert digest([row]) == digest([dict(reversed(row.items()))])
