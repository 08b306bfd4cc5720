from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.pairing import (
    check_alike,
    column_texts,
    failed_rows,
    is_refused_rightly,
    like_with_like,
    measured,
    metric_spans,
    pair,
)
from mlflow_ragmetrics.results.results import results_of, stored
from mlflow_ragmetrics.results.tables import typed
from tests.comparison.reports import report_of


def results(**columns: object) -> Evaluation:
    return stored("run", typed(pd.DataFrame(columns)), pd.DataFrame())


def test_numbers_beyond_any_scale_are_no_numbers() -> None:
    values = [1e30, -1e30, 1.1e30, float("inf"), "0.5", None]
    found = measured(results(m=values, m_status=["ok"] * 6), "m")
    assert found[[0, 1, 4]].tolist() == [1e30, -1e30, 0.5]
    assert np.isnan(found[[2, 3, 5]]).all()


def test_calls_of_another_form_are_a_warning_that_names_both() -> None:
    alike = {"judge": ["j"], "metrics": ["m"]}
    a, b = (replace(results(), description={"calls": {"j": form}, **alike}) for form in ("full", "single"))
    (warning,) = check_alike(a, b, allow_different=False)
    assert "the judges used different calls (j full / j single)" in warning
    assert check_alike(a, replace(b, description=alike), allow_different=False) == []


def test_rows_are_paired_by_id_whatever_their_order() -> None:
    a = results_of(report_of([0.1, 0.2, 0.3], ids=["x", "y", "z"], questions=["p", "q", "r"]))
    b = results_of(report_of([0.3, 0.1, 0.2], ids=["z", "x", "y"], questions=["r", "p", "q"]))
    found = pair(a, b)
    before, after = found.scores(a, b, "faithfulness")
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


def test_rows_whose_references_all_differ_are_paired_by_their_questions() -> None:
    found = pair(results(question=["p", "q"], reference=["r", "s"]), results(question=["q", "p"], reference=[None, ""]))
    assert (found.by, found.rows_a, found.rows_b) == ("content", (0, 1), (1, 0))


def test_repeated_content_is_paired_in_order() -> None:
    found = pair(results(question=["q", "q", "p", "q"]), results(question=["p", "q", "q"]))
    assert (found.rows_a, found.rows_b) == ((0, 1, 2), (1, 2, 0))
    assert len(found.only_a) == 1


def test_nothing_in_common_is_refused() -> None:
    a, b = results(id=["1"], question=["p"]), results(id=["2"], question=["q"])
    with pytest.raises(InvalidDataError, match="old and new have no row in common"):
        pair(a.named("old"), b.named("new"))


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
    before, _ = pair(a, a).scores(a, a, "faithfulness")
    assert np.isnan(before[0])
    assert before[1] == 0.5


def test_scores_on_any_scale_are_kept_and_what_no_scale_reaches_is_missing() -> None:
    a = results(id=["1", "2", "3"], question=["p", "q", "r"], score=[1.0, 100.0, 1e31])
    before, _ = pair(a, a).scores(a, a, "score")
    assert before[:2].tolist() == [1.0, 100.0]
    assert np.isnan(before[2])


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (None, False),
        (float("nan"), False),
        ("", False),
        (" ", False),
        ([], False),
        ("[]", False),
        (["", " "], False),
        ("Text.", True),
        (["", "Text."], True),
        ('["Text."]', True),
    ],
)
def test_contexts_are_there_with_one_text_that_is_not_blank(cell: object, expected: bool) -> None:
    assert [text != "" for text in column_texts(pd.DataFrame({"contexts": [cell]}), "contexts")] == [expected]


def test_rows_without_an_answer_with_a_failed_score_or_without_the_others_contexts_failed() -> None:
    columns = {
        "id": list("123456"),
        "answer": ["Red.", None, "I don't know.", "I don't know.", "Error code: 429 - Rate limit reached", "Red."],
        "reference": ["Red.", "Red.", "Red.", "Unknown.", "Unknown.", None],
        "m_status": ["ok", "skipped", "ok", "ok", "ok", "error"],
    }
    a = stored("a", pd.DataFrame({**columns, "m": 0.5, "contexts": [["Red."]] * 6}), pd.DataFrame())
    b = stored("a", a.table.assign(m_status="ok", answer="Red.", contexts=[["Red."]] * 5 + [[]]), a.items)
    failed, other = pair(a, b).failed(a, b)
    assert failed.tolist() == [False, True, True, False, True, True]
    assert other.tolist() == [False] * 5 + [True]


def test_a_refusal_is_right_only_if_a_reference_refuses_and_is_no_error() -> None:
    assert is_refused_rightly("I don't know.", ["Red.", "Unknown."])
    assert not is_refused_rightly("I don't know.", ["Red."])
    assert not is_refused_rightly("I don't know.", [])
    assert not is_refused_rightly("Internal Server Error", ["Unknown."])
    assert not is_refused_rightly("", ["Unknown."])


def test_a_span_is_the_metrics_range_or_what_was_seen() -> None:
    none, wide = np.array([np.nan]), np.array([1.0, np.nan, 5.0])
    spans = metric_spans({"rouge1_f1": (none, none), "semantic_similarity": (none, none), "own": (wide, wide - 1)})
    assert spans == {"rouge1_f1": 1.0, "semantic_similarity": 2.0, "own": 5.0}
    assert metric_spans({"rouge1_f1": (wide, none)}) == {"rouge1_f1": 4.0}


def test_scores_that_a_rule_gave_are_not_measured() -> None:
    columns = {"m": [0.1, 0.2, 0.3], "m_status": ["ok"] * 3}
    ruled = measured(results(**columns, m_measured=["True", "false", True]), "m")
    assert ruled[[0, 2]].tolist() == [0.1, 0.3]
    assert np.isnan(ruled[1])
    assert measured(results(**columns), "m").tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    ("name", "texts", "reading"),
    [
        ("reference", (["x", "y", None], ["x", "z", "w"]), ["rouge1_f1", "own"]),
        ("question", (["x", "y", None], ["x ", "z", "w"]), ["coherence", "rouge1_f1", "own", "recall_10"]),
        ("gold_doc_ids", ([["x"], ["y", "z"], ["v", "w"]], [["x"], ["y"], ["w", "v"]]), ["own", "recall_10"]),
    ],
)
def test_pairs_with_other_texts_are_left_out_for_metrics_that_read_them(
    name: str, texts: tuple[list[object], list[object]], reading: list[str]
) -> None:
    keys = ["coherence", "rouge1_f1", "own", "recall_10"]
    scores = {column: [0.5] * 3 for key in keys for column in (key, f"{key}_better")}
    a, b = (results(id=["1", "2", "3"], answer=["a"] * 3, **scores, **{name: side}) for side in texts)
    places = frozenset({1, 2} if name == "reference" else {1})
    assert like_with_like(a, a, pair(a, a), keys, False).warnings == ()
    found = like_with_like(a, b, pair(a, b), keys, False)
    assert found.unlike == dict.fromkeys(reading, places)
    assert found.warnings[0].endswith(", ".join(reading))
    assert np.isnan(found.scores(a, b, "own")[0]).tolist() == [place in places for place in range(3)]
    allowed = like_with_like(a, b, pair(a, b), keys, True)
    assert allowed.unlike == {}
    assert found.warnings[0].startswith(allowed.warnings[0])
    bare = stored("b", b.table.assign(answer=None, **{name: None}), b.items)  # stored without texts
    assert like_with_like(a, bare, pair(a, bare), keys, False).unlike == {}


def test_a_score_that_failed_in_one_metric_is_a_failed_row() -> None:
    table = pd.DataFrame({"answer": ["a", "b", "c"], "m": 0.5, "n": 0.5, "m_status": ["ok", "error", None]})
    found = stored("a", table.assign(n_status=["ok", "ok", "ok"]), pd.DataFrame())
    assert failed_rows(found).tolist() == [False, True, False]
