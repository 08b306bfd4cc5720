"""Large tables: a head for MLflow's page, and all rows in a Parquet file."""

from __future__ import annotations

from dataclasses import replace

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.display import page as report_page
from mlflow_ragmetrics.results.results import results_of
from mlflow_ragmetrics.tracking import writer
from tests.display.pages import carried

RECORDS = [
    {
        "id": f"r{number}",
        "question": "Where?",
        "answer": f"It is in Paris. It is {number} metres high.",
        "reference": ["Paris.", "In Paris."] if number % 2 else "Paris.",
        "contexts": ["It is in Paris."],
    }
    for number in range(30)
]


@pytest.fixture
def report() -> rm.Report:
    return rm.Suite(["faithfulness", "rouge"]).evaluate(RECORDS)


def artifacts(run_id: str) -> set[str]:
    return {each.path for each in mlflow.MlflowClient().list_artifacts(run_id)}


def test_a_large_table_has_a_head_and_a_file_and_is_read_whole(
    report: rm.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = results_of(report.log(traces=False))
    monkeypatch.setattr(writer, "_LARGEST", 2_000)
    monkeypatch.setattr(writer, "_HEAD", 10)
    run_id = report.log(traces=False)
    assert len(mlflow.load_table("rag_rows.json", run_ids=[run_id])) == 10
    assert artifacts(run_id) >= {"rag_rows.parquet", "rag_claims.parquet"}
    large = results_of(run_id)
    assert len(large.table) == 30
    assert large.table["faithfulness"].tolist() == small.table["faithfulness"].tolist()
    assert large.table["contexts"].tolist() == small.table["contexts"].tolist()
    assert large.items[["id", "text", "verdict", "evidence"]].to_dict("list") == small.items[
        ["id", "text", "verdict", "evidence"]
    ].to_dict("list")
    assert len(rm.compare(run_id, small.run_id).pairs("faithfulness")[0]) == 30


def test_a_smaller_report_in_the_same_run_is_not_read_from_the_file_of_the_larger(
    report: rm.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(writer, "_LARGEST", 2_000)
        patched.setattr(writer, "_HEAD", 10)
        run_id = report.log(traces=False)
    replace(report, rows=report.rows[:5]).log(traces=False, run_id=run_id)
    assert len(results_of(run_id).table) == 5


def test_a_large_page_shows_the_worst_and_a_sample_and_says_so(
    report: rm.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert report_page.MOST_ROWS == 20_000
    monkeypatch.setattr(report_page, "MOST_ROWS", 10)
    page = report.to_html()
    data = carried(page)
    shown = data["ids"]
    assert len(shown) == len(set(shown)) == 10
    ranked = [row.sample.id for row in report.worst_rows(30)]
    assert shown[:5] == ranked[:5]
    assert shown == sorted(shown, key=ranked.index)
    assert data["total"] == 30
    assert "shows 10 of 30 rows" in page
