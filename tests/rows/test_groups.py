"""Groups of rows: by metadata, nested metadata, fields, columns, names, and the sessions of traces."""

from __future__ import annotations

import pandas as pd
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.results.results import results_groups, stored
from mlflow_ragmetrics.rows.data import groups_of, slices_of
from mlflow_ragmetrics.rows.trace_records import SESSION


def test_groups_are_read_from_metadata_nested_metadata_and_fields() -> None:
    samples = [Sample(id="1", question="q", metadata={"c": "x", "inputs": {"user": 7}}), Sample(id="2", question="q")]
    assert groups_of(samples, "c")[0] == "x"
    assert groups_of(samples, "user")[0] == "7"
    assert groups_of(samples, "query") == ["q", "q"]


def test_a_row_without_a_group_is_one_of_its_own_and_no_slice() -> None:
    samples = [Sample(id=str(n), metadata={"c": value}) for n, value in enumerate(["x", None, float("nan"), " ", "x"])]
    groups = groups_of(samples, "c")
    assert groups[0] == groups[4]
    assert len(set(groups)) == 4
    assert slices_of(samples, "c") == ["x", None, None, None, "x"]


def test_rows_are_not_grouped_by_a_dropped_id() -> None:
    rows = [{"id": "1", "answer": answer} for answer in ("It is red.", "It is blue.")]
    report = rm.evaluate(rows, ["coherence"], columns={"id": None})
    assert not report.notes
    assert not report.description.get("groups")


def test_a_name_that_no_row_has_is_refused_with_those_that_are_there() -> None:
    with pytest.raises(InvalidOptionError, match="no row has 'chat'; the rows have id, question, topic") as raised:
        groups_of([Sample(id="1", question="q", metadata={"topic": "a"})], "chat")
    assert raised.value.param == "groups"
    with pytest.raises(InvalidOptionError, match="by: no row has 'chat'"):
        slices_of([Sample(id="1")], "chat")


def test_a_table_has_them_in_columns_and_in_metadata_as_json() -> None:
    table = pd.DataFrame({"id": ["1", "2"], "metadata": ['{"c": "x"}', '{"c": "y"}'], "topic": ["a", "a"]})
    assert groups_of(table, "c") == ["x", "y"]
    assert groups_of(table, "topic") == ["a", "a"]
    assert groups_of(table, ["n", "m"]) == ["n", "m"]
    with pytest.raises(InvalidOptionError, match="groups has length 1, not 2"):
        groups_of(table, ["n"])


def test_what_a_report_says_of_its_groups_counts_and_then_the_sessions_of_its_traces() -> None:
    table = pd.DataFrame({"topic": ["a", "b"], SESSION: ["s", "s"]})
    empty = pd.DataFrame()
    assert results_groups(stored("run", table, empty, {"groups": "topic"})) == ["a", "b"]
    assert results_groups(stored("run", table, empty)) == ["s", "s"]
    assert results_groups(stored("run", table[["topic"]], empty)) is None
    assert results_groups(stored("run", table, empty), "topic") == ["a", "b"]
