"""A metric from another package, installed by pip, found by its entry point, and used like a built-in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlflow_ragmetrics.cli import main

pytest.importorskip("hatchling")

PACKAGE = Path(__file__).parent / "plugin_package"
ROWS = [{"id": "a", "answer": "Yes, please."}, {"id": "b", "answer": "Please wait, thank you."}]


@pytest.fixture(autouse=True)
def mlflow_store() -> None:
    """These tests log nothing."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where pip has installed the plugin's package."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    arguments = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(PACKAGE)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def _run(installed: Path, code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"}
    words = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        words, capture_output=True, text=True, encoding="utf-8", env=environment, cwd=cwd, check=False
    )


def test_both_doors_find_it_and_name_a_plugin_that_cannot_be_loaded(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text("metrics: [{politeness: {phrases: [please]}}, coherence]\n", encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    asked = ["evaluate", "rows.jsonl", "-m", "politeness", "--no-log", "--output", "scored.jsonl"]
    code = (
        "import json, warnings, mlflow_ragmetrics as rm\n"
        "warnings.simplefilter('always')\n"
        "sample = {'answer': 'Yes, please.'}\n"
        "score = rm.score('politeness', sample)\n"
        "suite = rm.Suite.from_yaml('suite.yaml')\n"
        "print(json.dumps([score.value, score.passed, score.reason, rm.score('courtesy', sample).value,\n"
        "    rm.score(rm.politeness, sample, preset='conservative').passed, suite.keys,\n"
        "    suite.evaluate([sample]).metrics['politeness/mean']]))\n"
        "from mlflow_ragmetrics.cli import main\n"
        "main(['list'], standalone_mode=False)\n"
        "print('explained')\n"
        "main(['explain', 'politeness'], standalone_mode=False)\n"
        "main(prog_name='ragmetrics')\n"
    )
    done = _run(installed, code, *asked, "--fail-under", "politeness=0.9", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    in_python, _, printed = done.stdout.partition("\n")
    assert json.loads(in_python) == [0.5, True, "1 of 2 phrases", 0.5, False, ["politeness", "coherence"], 1.0]
    assert "the metric plugin broken (ragmetrics_politeness:no_such_metric) cannot be loaded" in done.stderr
    listed, _, explained = printed.partition("explained\n")
    assert "politeness" in listed
    assert "The share of the polite" in explained
    assert "phrases" in explained
    scored = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["politeness"] for row in scored] == [0.5, 1.0]
    assert [row["politeness_passed"] for row in scored] == [True, True]


def test_without_the_package_there_is_no_such_metric() -> None:
    done = CliRunner().invoke(main, ["explain", "politeness"])
    assert done.exit_code == 2
    assert "unknown metric 'politeness'" in done.stderr
