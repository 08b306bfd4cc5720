"""The short form of the speed benchmark prints its tables; no time is asserted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("benchmarks")


@pytest.mark.slow
@pytest.mark.timeout(900)  # a minute of work in many processes, which would disturb other tests
def test_the_short_form_prints_every_table() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "speed.py"), "--short"], capture_output=True, text=True, timeout=880, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\S", done.stdout, re.MULTILINE)) == 12
    assert len(re.findall(r"^ .* [\d.]+ s +\d+ MB   \S", done.stdout, re.MULTILINE)) >= 20
    assert done.stdout.count("equal numbers") >= 5
    missing = re.findall(r" s +(\S.*?)   could not be run", done.stdout)
    assert set(missing) <= {"rouge-score-rs (Rust)", "ir_measures"}  # they are not in the environment of the tests
