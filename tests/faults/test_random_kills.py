"""A few processes ended at random moments; ``random_kills.py`` can end more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.budget import LONG


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_nothing_is_lost_unsaid_doubled_or_taken_for_complete() -> None:
    command = [sys.executable, str(Path(__file__).with_name("random_kills.py")), "200" if LONG else "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    counts = [int(n) for n in re.findall(r"^ +(\d+)  (?:evaluate|live), ", done.stdout, re.MULTILINE)]
    assert sum(counts) == (200 if LONG else 4)
