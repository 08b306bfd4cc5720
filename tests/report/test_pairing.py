from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.report.pairing import pair
from mlflow_ragmetrics.rows.results import Results, results_of
from tests.comparison.reports import report_of


def results(**columns: object) -> Results:
    return Results("run", pd.DataFrame(columns), pd.DataFrame())


def test_rows_are_paired_by_id_whatever_their_order() -> None:
    a = results_of(report_of([0.1, 0.2, 0.3], ids=["x", "y", "z"], questions=["p", "q", "r"]))
    b = results_of(report_of([0.3, 0.1, 0.2], ids=["z", "x", "y"], questions=["r", "p", "q"]))
    found = pair(a, b)
    before, after = found.select(a.table["faithfulness"], b.table["faithfulness"])
    assert found.by == "id"
    assert list(before) == list(after) == [0.1, 0.2, 0.3]
    assert found.warnings == ()


def test_rows_without_a_partner_are_counted_and_named() -> None:
    a = results_of(report_of([0.1] * 4, ids=["1", "2", "only a", "3"], questions=["q"] * 4), "old")
    b = results_of(report_of([0.1] * 3, ids=["3", "2", "only b"], questions=["q"] * 3), "new")
    found = pair(a, b)
    assert (len(found), found.only_a, found.only_b) == (2, ("1", "only a"), ("only b",))
    assert found.warnings == (
        "2 rows of old have no partner and are left out (1, only a)",
        "1 row of new has no partner and is left out (only b)",
    )


@pytest.mark.parametrize("ids", [None, ["same", "same"], [None, "x"]])
def test_without_ids_of_their_own_rows_are_paired_by_content(ids: list[str] | None) -> None:
    columns = {"question": ["p", "q"], "reference": ["r", None]} | ({"id": ids} if ids else {})
    turned = {name: values[::-1] for name, values in columns.items()}
    found = pair(results(**columns), results(**turned))
    assert (found.by, found.rows_a, found.rows_b) == ("content", (0, 1), (1, 0))


def test_ids_that_have_nothing_in_common_give_way_to_content() -> None:
    found = pair(results(id=["a1"], question=["q"]), results(id=["b1"], question=["q"]))
    assert (found.by, len(found)) == ("content", 1)
    assert "share no id: their rows are paired by question and reference" in found.warnings[0]


def test_repeated_content_is_paired_in_order() -> None:
    found = pair(results(question=["q", "q", "p"]), results(question=["p", "q"]))
    assert (found.rows_a, found.rows_b) == ((0, 2), (1, 0))
    assert len(found.only_a) == 1


def test_the_same_id_with_another_question_is_a_warning() -> None:
    found = pair(results(id=["1", "2"], question=["p", "q"]), results(id=["1", "2"], question=["p", "else"]))
    assert found.warnings == ("rows with the same id have different questions: 1 (2)",)


def test_nothing_in_common_is_refused() -> None:
    a, b = results(id=["1"], question=["p"]), results(id=["2"], question=["q"])
    with pytest.raises(InvalidDataError, match="old and new have no row in common"):
        pair(replace(a, name="old"), replace(b, name="new"))


@given(st.lists(st.integers(0, 20), unique=True, min_size=1), st.lists(st.integers(0, 20), unique=True, min_size=1))
def test_every_row_is_paired_once_or_named(left: list[int], right: list[int]) -> None:
    a, b = (results(id=list(map(str, ids)), question=["q"] * len(ids)) for ids in (left, right))
    if not set(left) & set(right):
        return
    found = pair(a, b)
    assert set(found.ids) == {str(each) for each in set(left) & set(right)}
    assert len(found) + len(found.only_a) == len(left)
    assert len(found) + len(found.only_b) == len(right)
    assert [left[i] for i in found.rows_a] == [right[j] for j in found.rows_b]


def test_missing_scores_are_nan() -> None:
    a = results_of(report_of([None, 0.5]))
    before, _ = pair(a, a).select(a.table["faithfulness"], a.table["faithfulness"])
    assert np.isnan(before[0])
    assert before[1] == 0.5


def test_scores_on_any_scale_are_kept_and_what_no_scale_reaches_is_missing() -> None:
    a = results(id=["1", "2", "3"], question=["p", "q", "r"], score=[1.0, 100.0, 1e31])
    before, _ = pair(a, a).select(a.table["score"], a.table["score"])
    assert before[:2].tolist() == [1.0, 100.0]
    assert np.isnan(before[2])
