"""A few cases of two killed services; ``two_services.py`` runs all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.budget import LONG


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_no_answer_is_in_a_foreign_run() -> None:
    command = [sys.executable, str(Path(__file__).with_name("two_services.py")), "18" if LONG else "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.count("right") == (18 if LONG else 2)
