"""Each example runs as a reader would run it: in an empty folder, without a key."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlflow_ragmetrics.registry import metric_of

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
NOTEBOOK = json.loads((EXAMPLES / "main_flow.ipynb").read_text(encoding="utf-8"))


def _run(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW_", "OPENAI_"))}
    environment = {**kept, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": ""}
    words = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=280, check=False
    )


def _printed(folder: Path, name: str, *arguments: str) -> str:
    done = _run(folder, name, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_prompt_is_improved_by_what_the_reasons_say(tmp_path: Path) -> None:
    printed = _printed(tmp_path, "improve_a_prompt.py")
    assert "retrieve a passage that does: “It is painted green every year.”" in printed
    assert "faithfulness 0.50 -> 1.00" in printed


@pytest.mark.slow
def test_two_versions_are_compared_and_the_gate_is_open(tmp_path: Path) -> None:
    printed = _printed(tmp_path, "compare_and_gate.py")
    assert re.search(r"faithfulness .* improved", printed)
    assert "Gate open" in printed
    assert re.search(r"rt\d{5}", (tmp_path / "comparison.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_gate_is_closed_when_the_new_version_is_worse(tmp_path: Path) -> None:
    newer, older = EXAMPLES / "data/ragtruth_gpt-4.jsonl", EXAMPLES / "data/ragtruth_llama-2-13b.jsonl"
    done = _run(tmp_path, "compare_and_gate.py", str(newer), str(older))
    assert done.returncode == 1
    assert re.search(r"Gate closed: .*faithfulness", done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_genai_evaluate_scores_what_it_traces(tmp_path: Path) -> None:
    printed = _printed(tmp_path, "genai_evaluate.py", "--rows", "3")
    assert re.search(r"faithfulness/mean +[01]\.\d+", printed)
    assert "Means over 3 questions" in printed


@pytest.mark.slow
def test_retrieval_is_scored_from_two_files(tmp_path: Path) -> None:
    printed = _printed(tmp_path, "retrieval_from_tsv.py", "--k", "5")
    assert re.search(r"ndcg_5 +0\.\d{3}", printed)
    assert "missed <urn:uuid:" in printed


@pytest.mark.slow
def test_an_own_metric_and_judge_take_part(tmp_path: Path) -> None:
    printed = _printed(tmp_path, "own_metric_and_judge.py")
    assert re.search(r"faithfulness +\d\.\d\d  verbatim \d\.\d\d, lexical \d\.\d\d", printed)
    assert re.search(r"brevity .* computed", printed)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed")
def test_a_spark_frame_is_scored(tmp_path: Path) -> None:
    printed = _printed(tmp_path, "spark.py")
    assert re.search(r"faithfulness/n_scored +60\.000", printed)
    assert "rt12183" in printed


@pytest.mark.slow
def test_a_chain_is_scored_while_it_runs(tmp_path: Path) -> None:
    assert "faithfulness" in _printed(tmp_path, "score_a_chain.py")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("langchain") is None, reason="langchain is not installed")
def test_an_agent_is_scored_by_what_its_tool_gave(tmp_path: Path) -> None:
    printed = _printed(tmp_path, "langgraph_agent.py")
    assert printed.count("seen: ") == printed.count("faithfulness 1.00") == 5
    assert "seen: honey_bee::chunk-3" in printed
    assert "5 of 5 answers scored" in printed


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("httpx") is None, reason="httpx is not installed")
def test_a_service_loses_nothing_when_it_ends(tmp_path: Path) -> None:
    printed = _printed(tmp_path, "fastapi_service.py")
    said = printed.partition("When it had ended: ")[2]
    assert {"seen": 3, "written": 3, "unwritten": 0, "lost": 0}.items() <= ast.literal_eval(said.strip()).items()


@pytest.mark.slow
def test_the_notebook_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(EXAMPLES)
    names: dict[str, Any] = {}
    shown = ""
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "main_flow.ipynb", "exec"), names)
            printed = [output.get("text", []) for output in cell["outputs"]]
            assert capsys.readouterr().out == "".join(line for lines in printed for line in lines)
            shown += "".join(line for each in cell["outputs"] for line in each.get("data", {}).get("text/plain", []))
    assert repr(names["old"]) in shown, "run: jupyter nbconvert --to notebook --inplace --execute main_flow.ipynb"
    assert names["comparison"].verdict["faithfulness"] == "improved"


def test_the_notebook_is_kept_with_its_outputs_and_small() -> None:
    outputs = [output for cell in NOTEBOOK["cells"] for output in cell.get("outputs", [])]
    pages = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    assert any("rag_score" in page and "<table>" in page for page in pages)
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert (EXAMPLES / "main_flow.ipynb").stat().st_size < 100_000


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_says_how_to_run_it_and_how_to_give_it_a_real_model(name: str) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) or ""
    assert f"python examples/{name}" in said
    assert "sys.path" not in text
    assert "openai:/gpt-4o-mini" in said or "no model is asked" in said


def test_each_metric_that_one_migrates_to_exists() -> None:
    lines = (EXAMPLES.parent / "docs" / "metrics" / "migrating.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ")[1] for line in lines if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row) if not name.endswith("=")]
    assert len(named) > 20
    for name in named:
        assert metric_of(name.replace("…", "5")).key


def test_the_list_of_examples_is_complete() -> None:
    listed = set(re.findall(r"\]\(([\w.]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8")))
    assert {*SCRIPTS, "main_flow.ipynb"} <= listed
