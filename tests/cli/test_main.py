from __future__ import annotations

import subprocess
import sys

import pytest

from mlflow_ragmetrics import __version__

COMMANDS = (
    *("evaluate", "compare", "calibrate", "label", "watch", "show", "stress"),
    *("list", "explain", "doctor", "init"),
)
HEAVY = ("mlflow", "pandas", "langchain_core", "numpy", "pydantic", "rich")


def test_help_names_every_command_and_loads_nothing_heavy():
    code = (
        "import sys\nfrom mlflow_ragmetrics.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print('loaded', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout
    assert "loaded []" in done.stdout


def test_the_version_is_the_package_s(ragmetrics):
    assert ragmetrics("--version").stdout.split()[-1] == __version__


def test_a_misspelled_command_is_recognised(ragmetrics):
    result = ragmetrics("evaluatte")
    assert result.exit_code == 2
    assert "did you mean 'evaluate'?" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns(ragmetrics, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = ragmetrics(command, "--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
