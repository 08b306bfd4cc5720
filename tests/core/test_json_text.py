"""Values as JSON that databases and all JSON parsers accept."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.core.safe_text import as_json, plain, plain_text, plain_texts
from mlflow_ragmetrics.text.messages import say

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(ANYTHING)
def test_any_value_becomes_valid_json_in_utf_8(value: Any) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = as_json(value)
    read = json.loads(text.encode("utf-8"), parse_constant=refuse)
    assert "\x00" not in str(read)
    assert plain(read) == read


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00")))
def test_good_text_stays_as_it_is(text: str) -> None:
    assert plain_text(text) == text
    assert json.loads(as_json(text)) == text


@pytest.mark.parametrize("missing", [None, math.nan, math.inf, pd.NA, pd.NaT, np.float32("nan")])
def test_what_is_no_number_is_null(missing: Any) -> None:
    assert plain(missing) is None


def test_arrays_and_numbers_of_numpy_become_those_of_python() -> None:
    assert plain({"a": np.array([1, 2]), "b": np.float64(0.5), "c": np.bool_(True)}) == {
        "a": [1, 2],
        "b": 0.5,
        "c": True,
    }
    assert type(plain(np.float64(0.5))) is float


def test_text_that_databases_refuse() -> None:
    assert plain_text("a\x00b\ud800c") == "a\ufffdb\ufffdc"
    assert plain_text("🙂 привет") == "🙂 привет"


@pytest.mark.parametrize("texts", [["a", "b"], ["a", say("coherence.no_sentence")], ["a\x00", "b"], [1, "b"], []])
def test_a_column_of_texts_holds_what_each_text_is_by_itself(texts: list[Any]) -> None:
    found = plain_texts(texts)
    assert found == [plain_text(str(text)) for text in texts]
    assert {type(text) for text in found} <= {str}
