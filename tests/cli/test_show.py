"""``show`` on real runs."""

from __future__ import annotations

from pathlib import Path

import mlflow
import pytest

import mlflow_ragmetrics as rm

from .conftest import ROWS, Run


@pytest.fixture
def run(mlflow_store: str) -> str:
    mlflow.set_experiment("ragmetrics")
    rows = [{**row, "topic": "x", "faithfulness": 0.25} for row in ROWS]
    rm.Suite(["faithfulness", "rag_score"]).evaluate(rows).log(run_name="mine")
    return "mine"


def test_rows_of_a_run_are_shown_lowest_first(ragmetrics: Run, run: str) -> None:
    lines = ragmetrics("show", run).stdout.splitlines()
    assert lines[0].split()[:2] == ["id", "rag_score"]
    assert [line.split()[0] for line in lines[2:4]] == ["tower", "river"]
    assert "tower" not in ragmetrics("show", run, "--where", "faithfulness > 0.9").stdout
    assert "1 of 2 rows" in ragmetrics("show", run, "--where", "faithfulness > 0.9").stdout


def test_a_row_is_shown_with_its_claims_marked(ragmetrics: Run, run: str) -> None:
    shown = ragmetrics("show", run, "tower").stdout
    assert "The tower is 330 metres high. [✓] It was built in 1925. [?]" in shown
    assert "? not in the passages: “It was built in 1925.”" in shown
    assert "passage 2: “It was built in 1889 by engineers.”" in shown
    assert "faithfulness 0.500" in shown


def test_no_line_is_wider_than_the_terminal(ragmetrics: Run, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (40, 60, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        for arguments in (["show", run], ["show", run, "tower"]):
            assert max(map(len, ragmetrics(*arguments).stdout.splitlines())) <= width


def test_figures_are_not_cut_at_sixty_columns(ragmetrics: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(map(__import__("json").dumps, ROWS)))
    monkeypatch.setenv("COLUMNS", "60")
    shown = ragmetrics("evaluate", "a.jsonl", "--no-log").stdout
    table = shown.partition("rag_score =")[0]
    assert "…" not in table
    assert "answer_relevance" in table


def test_mistakes_are_one_sentence(ragmetrics: Run, run: str) -> None:
    for arguments, said in (
        (["mine", "towr"], "has no row 'towr'; did you mean 'tower'?"),
        (["nobody"], "'nobody' is neither a file"),
        (["mine", "--where", "faithful > 1"], "'faithful' is not a metric of mine"),
        (["mine", "--where", "faithfulness"], "is not a condition on a score"),
    ):
        result = ragmetrics("show", *arguments)
        assert result.exit_code == 2
        assert said in result.stderr


def test_which_part_failed_is_shown(ragmetrics: Run, mlflow_store: str) -> None:
    mlflow.set_experiment("ragmetrics")
    fact = "The tower is red. It opened in 1889."
    rows = [
        {"id": "good", "question": "Which?", "answer": fact, "reference": fact, "contexts": [fact]},
        {"id": "lacking", "question": "Which?", "answer": "It rains.", "reference": fact, "contexts": ["It rains."]},
        {"id": "unknown", "question": "Which?", "answer": fact, "reference": None, "contexts": [fact]},
    ]
    rm.Suite.preset("diagnose").evaluate(rows, progress=False).log(run_name="diagnosed", traces=False)
    shown = ragmetrics("show", "diagnosed").stdout
    assert shown.split()[:2] == ["id", "diagnosis"]
    assert "Diagnosis: retrieval 1, no fault 1, not measured 1" in shown
    assert "Diagnosis: Retrieval: 2 of 2 facts of the reference are not in" in ragmetrics(
        "show", "diagnosed", "lacking"
    ).stdout.replace("\n  ", " ")


def test_the_worst_rows_come_first_as_everywhere(ragmetrics: Run, mlflow_store: str) -> None:
    mlflow.set_experiment("ragmetrics")
    reference = "The tower is red. It opened in 1889."
    answers = {"good": reference, "bad": "It rains. It is cold.", "half": "The tower is red. It rains."}
    asked = {"question": "Which tower?", "reference": reference}
    rows = [{"id": name, "answer": answers[name], "contexts": [reference], **asked} for name in answers]
    rows.append({"id": "bare", "answer": reference, "contexts": [], **asked})
    for metrics in (["hallucination_rate"], ["hallucination_rate", "faithfulness"], ["faithfulness", "rag_score"]):
        report = rm.Suite(metrics).evaluate(rows, progress=False)
        run = report.log(traces=False)
        lines = ragmetrics("show", run).stdout.splitlines()[2:6]
        ranked = [row.sample.id for row in report.worst_rows(4)]
        assert [line.split()[0] for line in lines][: len(ranked)] == ranked
        assert f"the worst row by {report.totals.ranking.by} is shown" in " ".join(
            ragmetrics("show", run, "--limit", "1").stdout.split()
        )
    assert "by rule 1.000" in next(line for line in lines if line.startswith("bare"))
    assert "faithfulness 1.000, 5.0 of 5, not measured" in ragmetrics("show", run, "bare").stdout


def test_a_file_shows_its_worst_rows_with_the_score_that_says_so(ragmetrics: Run, tmp_path: Path) -> None:
    rows = [{"id": str(n), "answer": "a b c d"[:n], "reference": "a b c d", "contexts": ["a b"]} for n in (7, 3)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(__import__("json").dumps, rows)))
    evaluate = ("evaluate", "a.jsonl", "--no-log", "-m", "rouge", "-m", "hallucination_rate", "-o", "b.csv")
    assert ragmetrics(*evaluate).exit_code == 0
    head, _, first = ragmetrics("show", "b.csv").stdout.splitlines()[:3]
    assert head.split()[:3] == ["id", "worst", "score"]
    assert first.split()[:3] == ["3", "0.667", "rouge1_f1"]
    assert ragmetrics("show", "b.csv", "3").exit_code == 0
