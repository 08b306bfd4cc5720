"""The short form of all benchmarks runs and prints a table; no time is asserted, but the lengths of paths are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("benchmarks")
COMMAND = FOLDER / "run.py"


@pytest.mark.slow
@pytest.mark.timeout(900)  # a minute's work, and many processes that compete for what else the machine does
def test_the_short_form_prints_every_table() -> None:
    done = subprocess.run(
        [sys.executable, str(COMMAND), "--short"], capture_output=True, text=True, timeout=880, check=False
    )
    assert done.returncode == 0, done.stderr
    titles = [line for line in done.stdout.splitlines() if re.match(r"\S.* rows|ROUGE|Retrieval|Fresh|mlflow", line)]
    assert len(titles) >= 10
    assert len(re.findall(r"^ .* [\d.]+ s +\d+ MB   \S", done.stdout, re.MULTILINE)) >= 25
    assert "failed" not in done.stdout + done.stderr
    assert "OTHER NUMBERS" not in done.stdout
    assert done.stdout.count("equal numbers") >= 4


@pytest.fixture(scope="module")
def path_counts() -> str:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "path_counts.py")], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_package_has_no_circles_and_probes_no_judge(path_counts: str) -> None:
    assert "\n0 circles of imports at run time" in path_counts
    assert "\n0 circles of imports with types" in path_counts
    assert "\n0 probes of judges" in path_counts


@pytest.mark.slow
@pytest.mark.parametrize("path", ["one row on the main job", "one judged question", "one chain run"])
def test_little_of_the_package_must_be_read_to_follow_one_piece_of_work(path: str, path_counts: str) -> None:
    found = re.search(rf"^{path} +(\d+) +(\d+) +\d+$", path_counts, re.MULTILINE)
    assert found is not None
    assert int(found[1]) <= int(found[2])
