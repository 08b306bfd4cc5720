"""Modules in the data's folder are found by name and never replace another package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_MAIN = "import sys; sys.path[:] = [p for p in sys.path if p]; from mlflow_ragmetrics.cli import main; main()"
_METRIC = "def length(answer: str) -> float:\n    return min(1.0, len(answer) / 100)\n"


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _MAIN, *arguments]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_files_beside_the_data_do_not_stand_in_for_packages(tmp_path: Path) -> None:
    for name in ("rich", "yaml", "pandas", "statistics", "csv"):
        (tmp_path / f"{name}.py").write_text("open(__name__ + ' ran', 'w').close()\n")
    (tmp_path / "mine.py").write_text(_METRIC)
    (tmp_path / "rows.jsonl").write_text('{"answer": "It is red."}\n')
    done = run(tmp_path, "evaluate", "rows.jsonl", "-m", "mine:length", "--no-log")
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("* ran"))


@pytest.mark.slow
def test_a_metric_beside_the_data_is_found_unless_python_keeps_the_folder_out(tmp_path: Path) -> None:
    (tmp_path / "sibling.py").write_text("LONGEST = 100\n")
    (tmp_path / "mine.py").write_text("from sibling import LONGEST\n" + _METRIC.replace("100", "LONGEST"))
    assert run(tmp_path, "explain", "mine:length").returncode == 0
    kept_out = run(tmp_path, "explain", "mine:length", PYTHONSAFEPATH="1")
    assert kept_out.returncode == 2
    assert "cannot import the metric mine:length" in kept_out.stderr


def test_the_path_is_as_before_after_the_command(ragmetrics, tmp_path: Path) -> None:
    (tmp_path / "mine_once.py").write_text(_METRIC)
    before = list(sys.path)
    assert ragmetrics("explain", "mine_once:length").exit_code == 0
    assert sys.path == before
