from __future__ import annotations

import json
from pathlib import Path

import mlflow
import pytest

import mlflow_ragmetrics as rm
from tests.judges.misbehaving_server import Fault, misbehaving_server

from ..comparison.reports import noisy, report_of
from .conftest import Run


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    shifts = {"old": 0.0, "better": 0.15, "worse": -0.15}
    for seed, (name, shift) in enumerate(shifts.items()):
        report_of(noisy(80, shift=shift, seed=seed)).table.to_parquet(tmp_path / f"{name}.parquet")
    return [f"{name}.parquet" for name in shifts]


def test_files_are_compared_without_a_store(ragmetrics: Run, files: list[str], tmp_path: Path) -> None:
    result = ragmetrics("compare", *files[:2])
    assert result.exit_code == 0
    assert "better (B) against old (A): 80 rows paired by id" in result.output
    assert "improved" in result.output
    assert "Logged" not in result.output


def test_too_few_rows_are_one_line_and_a_gate_that_could_hardly_fail_says_so(ragmetrics: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        report_of(noisy(6, seed=ord(name))).table.to_parquet(tmp_path / f"{name}.parquet")
    result = ragmetrics("compare", "a.parquet", "b.parquet", "--fail-on", "regressed")
    assert result.exit_code == 0
    assert result.output.startswith("b (B) against a (A): No verdict: 6 rows are too few; faithfulness ")
    assert "metric " not in result.output
    assert "could hardly have failed" in result.output


def test_a_regression_ends_with_1_and_one_line_a_reason(ragmetrics: Run, files: list[str]) -> None:
    result = ragmetrics("compare", *files, "--fail-on", "regressed")
    assert result.exit_code == 1
    (reason,) = [line for line in result.stderr.splitlines() if "Gate" in line]
    assert reason.startswith("Gate failed: worse vs old: regressed: faithfulness (")


@pytest.mark.parametrize(("form", "start"), [("markdown", "## worse"), ("json", "{")])
def test_other_formats_stand_alone_on_standard_output(ragmetrics: Run, files: list[str], form: str, start: str) -> None:
    result = ragmetrics("compare", files[0], files[2], "--format", form, "--fail-on", "regressed")
    assert result.exit_code == 1
    assert result.stdout.startswith(start)
    assert "Gate" not in result.stdout.replace("**Gate failed**", "")
    assert "Gate failed" in result.stderr
    if form == "json":
        assert json.loads(result.stdout)["metrics"][0]["verdict"] == "regressed"
    assert ragmetrics("compare", *files[:2], "--format", form, "--by", "id").exit_code == 2


def test_the_tolerance_decides(ragmetrics: Run, files: list[str]) -> None:
    result = ragmetrics("compare", files[0], files[2], "--fail-on", "regressed", "--tolerance", "0.3")
    assert result.exit_code == 0
    assert "unchanged" in result.output


def test_two_runs_are_compared_and_logged(ragmetrics: Run, mlflow_store: str) -> None:
    mlflow.set_experiment("bot")
    report_of(noisy(40)).log(run_name="one")
    newer = report_of(noisy(40, shift=0.2, seed=1)).log(run_name="two")
    result = ragmetrics("compare", "one", "two")
    assert result.exit_code == 0, result.output
    assert "two (B) against one (A)" in result.output
    (own,) = mlflow.search_runs(filter_string="run_name = 'compare two vs one'", output_format="list")
    assert f"Logged to MLflow run {own.info.run_id}" in result.output
    assert own.data.params["b"] == newer
    assert ragmetrics("compare", "one", "two", "--no-log").output.count("Logged") == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["old.parquet"], "at least two runs"),
        (["old.parquet", "gone.parquet"], "gone.parquet does not exist"),
        (["old.parquet", "nobody"], "'nobody' is neither a file"),
        (["old.parquet", "better.parquet", "--fail-on", "worse"], "'worse' is not one of"),
        (["old.parquet", "better.parquet", "--html", "no/where.html"], "there is no folder no"),
        (["old.parquet", "better.parquet", "--tolerance", "-1"], "tolerance=-1.0"),
    ],
)
def test_mistakes_end_with_2_and_one_sentence(
    ragmetrics: Run, files: list[str], mlflow_store: str, arguments: list[str], said: str
) -> None:
    result = ragmetrics("compare", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.fixture
def answers(tmp_path: Path) -> list[str]:
    reference = "The tower opened in 1889."
    for name, answer in {"old": "Bananas grow in Ecuador.", "new": reference}.items():
        rows = [{"id": str(n), "question": f"When {n}?", "answer": answer, "reference": reference} for n in range(8)]
        rm.evaluate(rows, ["coherence"]).table.to_parquet(tmp_path / f"{name}.parquet")
    return ["old.parquet", "new.parquet"]


def test_a_judge_says_which_answer_is_better(ragmetrics: Run, answers: list[str]) -> None:
    result = ragmetrics("compare", *answers, "--preference", "lexical", "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["preference"]["wins"] == 8
    worse = ragmetrics("compare", *reversed(answers), "--preference", "lexical", "--fail-on", "regressed")
    assert worse.exit_code == 1
    assert "Gate failed: old vs new: preference: B's answer is preferred in 0 of 8 rows" in worse.stderr


def test_scores_are_compared_without_a_judge_that_never_answers(
    ragmetrics: Run, answers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with misbehaving_server(*[Fault(status=401)] * 9) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        result = ragmetrics("compare", *answers, "--preference", "openai:/local", "--cache", "none")
    assert result.exit_code == 3
    assert "paired by id" in result.output or "rows are too few" in result.output
    assert "The comparison has no preference: openai:/local: the provider refused the key" in result.output
