from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlparse

import mlflow
import pandas as pd
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli.output import OutputFile
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.results import results_of, stored, stored_samples
from mlflow_ragmetrics.results.tables import COUNTED_COLUMNS, SCORE_COLUMNS, score_of_columns
from tests.comparison.reports import noisy, report_of


def example(seed: int = 0) -> Report:
    items = [(Item("claim", "a claim", "SUPPORTED"),)] * 12
    return report_of([None, *noisy(11, seed=seed)], threshold=0.6, items=items)


def test_a_run_gives_back_what_the_report_had() -> None:
    report = example()
    run_id = report.log(run_name="first")
    for text in (run_id, "first"):
        found = results_of(text)
        assert (found.name, found.run_id, found.keys) == ("first", run_id, ["faithfulness"])
        assert pd.to_numeric(found.table["faithfulness"]).fillna(-1).tolist() == pytest.approx(
            report.table["faithfulness"].astype(float).fillna(-1).tolist()
        )
        assert found.items["verdict"].tolist() == ["SUPPORTED"] * 12
        assert found.description["judge"] == ["lexical"]


def test_comparing_runs_is_comparing_reports() -> None:
    a, b = example(), example(seed=1)
    from_runs, from_reports = rm.compare(a.log(run_name="a"), b.log(run_name="b")), rm.compare(a, b)
    pd.testing.assert_frame_equal(from_runs.table, from_reports.table)


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".csv", ".parquet"])
def test_a_file_gives_back_what_the_report_had(tmp_path: Path, ending: str) -> None:
    report, path = example(), tmp_path / f"rows{ending}"
    table = report.table
    if ending == ".parquet":
        table.to_parquet(path)
    elif ending == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_json(path, orient="records", lines=ending == ".jsonl")
    from_file, from_report = rm.compare(path, str(path)), rm.compare(report, report)
    assert results_of(path).name == "rows"
    pd.testing.assert_frame_equal(from_file.table, from_report.table)
    assert from_file["faithfulness"].unscored_both == 1


def test_a_file_names_its_judge_from_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"id": "1", "faithfulness": 0.5, "faithfulness_status": "ok", "faithfulness_judge": "openai:/gpt"}
    path.write_text(json.dumps(row), encoding="utf-8")
    assert results_of(path).description == {"judge": ["openai:/gpt"]}


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match="'nobody' is neither a file of rows nor the id or name of a run"):
        results_of("nobody")
    with pytest.raises(InvalidDataError, match="there is no run 0123456789abcdef"):
        results_of("0123456789abcdef" * 2)
    with pytest.raises(InvalidDataError, match="does not exist"):
        results_of("gone.parquet")
    with pytest.raises(InvalidDataError, match="has no file of rows"):
        results_of(tmp_path)
    with pytest.raises(InvalidDataError, match="dict is not an evaluation"):
        results_of({})  # type: ignore[arg-type]


def test_a_name_that_several_runs_have_is_refused() -> None:
    for _ in range(2):
        example().log(run_name="twin")
    with pytest.raises(InvalidDataError, match="several runs are named 'twin'"):
        results_of("twin")


def test_a_run_that_was_not_evaluated_here_is_refused() -> None:
    with mlflow.start_run(run_name="plain") as run:
        mlflow.log_metric("loss", 1.0)
    with pytest.raises(InvalidDataError, match=r"plain .* has neither rag_rows\.json"):
        results_of(run.info.run_id)


def test_a_table_that_cannot_be_read_is_not_replaced_by_traces() -> None:
    run_id = example().log()
    folder = Path(urlparse(mlflow.get_run(run_id).info.artifact_uri).path)
    (folder / "rag_claims.json").unlink()
    with pytest.raises(InvalidDataError, match=f"the tables of run {run_id} cannot be read"):
        results_of(run_id)


@pytest.mark.parametrize("text", ["question\nwhy\n", "", '{"id": 1'])
def test_a_file_without_scores_or_rows_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / ("rows.json" if text.startswith("{") else "rows.csv")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidDataError, match="rows"):
        results_of(path)


def test_a_csv_says_what_the_evaluation_said(tmp_path: Path) -> None:
    context = "The tower is high."
    rows = [
        {"id": "a", "answer": "The tower is high.", "contexts": [context]},
        {"id": "b", "answer": "The tower is low.", "contexts": []},
        {"id": "c", "answer": "The tower is old."},
    ]
    suite = rm.Suite(["faithfulness", "hallucination_rate"])
    report = suite.evaluate([{**row, "reference": "The tower is high."} for row in rows], progress=False)
    OutputFile(str(tmp_path / "rows.csv"), suite).finish(report)
    results = results_of(tmp_path / "rows.csv")
    found = {row.sample.id: row for row in results.rows}
    for row in report.rows:
        for key, score in row.scores.items():
            own = found[row.sample.id].scores[key]
            assert (own.value, own.scaled, own.measured) == (score.value, score.scaled, score.measured)
            assert own.higher_is_better == score.higher_is_better
    assert [each.contexts is None for each in stored_samples(results)] == [False, False, True]


def test_what_claims_were_held_against_is_read_back_and_compared() -> None:
    row = {"id": "a", "reference": "It rains. It snows.", "contexts": ["It rains."]}
    reports = [
        rm.Suite(["faithfulness", "factual_correctness"]).evaluate([{**row, "answer": text}], progress=False)
        for text in ("The sea is red.", "It rains.")
    ]
    found = results_of(reports[0].log(traces=False)).rows[0].scores
    assert {item.against for item in found["factual_correctness"].items} == {"answer", "reference"}
    assert {item.against for item in found["faithfulness"].items} == {None}
    (changed,) = rm.compare(*reports).rows
    named = {item.metric: item.verdicts for item in changed.items if item.text == "The sea is red."}
    assert named == {"faithfulness, factual_correctness": "not in the passages → not in B"}


@pytest.mark.parametrize(("asked", "fewer"), [(2, False), (3, True)])
def test_a_score_comes_back_from_its_columns(asked: int, fewer: bool) -> None:
    votes = {"kind": 0.5, "strict": 0.3}
    score = Score(0.4, scaled=2.6, threshold=0.3, passed=True, judge="kind, strict", model_scores=votes)
    score.details = {"judges_asked": asked, "coverage": 0.5}
    values = {column.suffix: column.read(score) for column in (*SCORE_COLUMNS, *COUNTED_COLUMNS) if column.shows(score)}
    assert values["_fewer_judges"] is fewer
    found = score_of_columns({name: value for name, value in values.items() if value is not None}, threshold=0.3)
    assert (found.value, found.scaled, found.passed, found.judge) == (0.4, 2.6, True, "kind, strict")
    assert bool(found.details.get("judges_asked")) is fewer


@pytest.mark.parametrize("prefix", ["", "v2_"])
def test_a_composite_that_is_read_back_has_its_coverage(prefix: str) -> None:
    row = {"question": "Which tower?", "answer": "The tower is red.", "contexts": ["The tower is red."]}
    rows = [{**row, "reference": "The tower is red."}, row, {**row, "answer": "I don't know.", "reference": "Red."}]
    report = rm.Suite.preset("white_paper", name_prefix=prefix).evaluate(rows, progress=False)
    again = stored("again", report.table, report.items, report.description)
    assert again.metrics == {name: value for name, value in report.metrics.items() if "no_context" not in name}
    assert again.metrics[f"{prefix}rag_score/coverage"] < 1
    assert again.totals.ranking == report.totals.ranking
