"""The short form of all benchmarks runs and prints a table; no time is asserted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.mark.slow
def test_the_short_form_prints_every_table() -> None:
    command = [sys.executable, str(FOLDER / "run.py"), "--short"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert "failed:" not in done.stderr
    titles = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert len(titles) >= 9
    lines = re.findall(r"^  (\S.*?) +([\d.]+) s .* MB", done.stdout, re.MULTILINE)
    assert len(lines) >= 20
    assert "rouge_score" in done.stdout
    assert done.stdout.count("equal numbers") >= 3
