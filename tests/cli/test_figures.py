"""Groups and slices on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.display.document import to_markdown
from mlflow_ragmetrics.display.text import report_blocks


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(arguments))
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers of two versions in eight conversations on two topics, evaluated into a.parquet and b.parquet."""
    monkeypatch.chdir(tmp_path)
    Path("by_topic.yaml").write_text("metrics: [coherence]\nby: topic\n")
    for name, good in (("a", 3), ("b", 7)):
        rows = [
            {
                "id": str(n),
                "question": f"What about {n}?",
                "answer": f"Cat {n} sleeps at noon." if n * 7 % 8 < good else "No. It. Is. Not. Yes. No.",
                "talk": f"c{n // 4}",
                "topic": "ab"[n % 2],
                "human": int(n * 7 % 8 < good) if n < 12 else None,
            }
            for n in range(32)
        ]
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        code, text = run("evaluate", f"{name}.jsonl", "-m", "coherence", "--no-log", "-o", f"{name}.parquet")
        assert code == 0, text


@pytest.mark.usefixtures("files")
def test_groups_slices_and_gates_of_an_evaluation() -> None:
    code, text = run(
        *("evaluate", "a.jsonl", "--suite", "by_topic.yaml", "--no-log", "--groups", "talk"),
        *("--fail-under", "coherence/ci_low=0.99"),
    )
    assert code == 1
    assert "Intervals are over 8 groups (talk)" in text
    assert "few groups: the interval may cover less than 95 %" in text
    assert "p (Holm)" in text
    assert "Gate failed: coherence/ci_low =" in text
    assert "(few groups) < 0.99" in text


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_mean_of_a_slice_is_cut_on_narrow_terminals(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [
        json.loads(line) | {"contexts": ["Cats."], "reference": "Cats sleep."}
        for line in Path("a.jsonl").read_text().splitlines()
    ]
    rows = [{**row, "topic": f"a topic with quite a long name {row['topic']}"} for row in rows]
    Path("long.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    Path("all.yaml").write_text("preset: diagnose\nby: topic\n")
    arguments = ("evaluate", "long.jsonl", "--suite", "all.yaml", "--no-log", "--worst", "0")
    lines = CliRunner().invoke(main, list(arguments)).output.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith(("topic", "to")) and "mean" in line)
    cells = [line.split() for line in lines[head + 2 : head + 20]]
    assert "mean" in lines[head].split()
    assert any("noise_sensitivity_irrelevant" in row for row in cells)
    assert all(len(line) <= width for line in lines[head : head + 20])
    assert not [cell for row in cells for cell in row if cell.endswith("…") and cell[0] == "0"]


@pytest.mark.usefixtures("files")
def test_a_comparison_over_groups() -> None:
    arguments = ("compare", "a.parquet", "b.parquet", "--groups", "talk", "--allow-different")
    code, text = run(*arguments, "--html", "page.html")
    assert code == 0, text
    assert "b is better on coherence (+0." in text
    assert "32 rows in 8 groups (few groups))" in text
    assert "(few groups)" in Path("page.html").read_text(encoding="utf-8")


def test_what_only_a_rule_gave_is_no_figure_in_any_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": name, "question": "Which?", "answer": "", "contexts": ["The sea."]} for name in "ab"]
    Path("a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    code, text = run("evaluate", "a.jsonl", "--no-log", "-m", "faithfulness", "-m", "answer_relevance")
    assert code == 0
    assert "measured by rule skipped failed" in text
    assert "faithfulness – – – 0 2 0 0" in text
    assert "faithfulness 1.00 by rule" in text
    report = rm.Suite(["faithfulness", "answer_relevance"]).evaluate(rows, progress=False)
    assert repr(report) == "<Report of 2 rows: answer_relevance 0.000>"
    assert "| 🟡 faithfulness | – | – | – | 0 | 2 | 0 | 0 |" in to_markdown(report_blocks(report))
    shown = report._repr_html_()
    assert 'faithfulness</span></td><td class="number"><span class="middling">–</span>' in shown
    assert "faithfulness 1.00 by rule" in shown
