"""The README's code runs: its Python as one program, its commands' options, and its table."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.registry import all_metrics

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OWN = all_metrics()
FIGURES = re.compile(r"^\w+  +(?:\d\.\d{3}|–) .*$", re.MULTILINE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlflow_store: str) -> Path:
    """A folder with the example data, like a user's clone."""
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "examples" / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_blocks_run_one_after_the_other(clone, capsys):
    found = blocks("python")
    assert len(found) >= 4
    names: dict[str, object] = {}
    for number, block in enumerate(found, 1):
        exec(compile(block, f"README.md, Python block {number}", "exec"), names)
    shown = capsys.readouterr().out
    assert "('SUPPORTED', '330 metres.'), ('NEUTRAL', 'It is green.')" in shown
    assert not re.search(r"\b(?:None|nan)\b", shown)


def test_the_table_is_what_the_first_command_prints(clone):
    (command,) = re.findall(r"^  ragmetrics (.*)$", blocks("bash")[0], re.MULTILINE)
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 0, result.output
    (shown,) = blocks("text")
    assert FIGURES.findall(shown) == FIGURES.findall(result.stdout)
    assert len(FIGURES.findall(shown)) == 6


def test_every_option_and_command_named_exists():
    context = click.Context(main)
    known = {"--version"}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        known |= {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README)) - {"--backend-store-uri"}
    assert named <= known
    for line in re.findall(r"ragmetrics (\w+)", " ".join(blocks("bash"))):
        assert line in main.list_commands(context)


def test_what_it_links_to_is_there():
    links = re.findall(r"\]\(([^)#]+)\)|<img src=\"([^\"]+)\"", README)
    assert len(links) > 8
    for link in map("".join, links):
        assert link.startswith("https://") or (ROOT / link).exists(), link
