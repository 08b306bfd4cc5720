"""Runs the code blocks of pages as a reader would; ``python tests/snippets.py PAGE …`` renews the outputs.

These parts of a Markdown page are run: ``python`` blocks, which share their names, and lines of ``bash`` blocks that
begin with ``ragmetrics`` or ``pytest`` (``# exit code 1`` at the end: the expected code, if not 0). A block whose first
line is a comment with a file name is written to that file. A ``text`` block right below a block is its expected output;
``[…]`` matches anything. ``<!-- not run: why -->`` above a block skips it. A page that begins with
``<!-- needs: module, module -->`` is run only if these modules are installed.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from mlflow_ragmetrics.cli import main

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>.+?) -->\n+)?^```(?P<language>\w+)\n(?P<code>.*?)^```$"
    r"(?P<below>\n+```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"^(?:#|//) ([\w./-]+\.(?:py|yaml|csv|jsonl|json|toml|txt))\n")
_NEEDS = re.compile(r"^<!-- needs: (.+?) -->$", re.MULTILINE)
_EXIT = re.compile(r"\s+# exit code (\d+)$")
_CHANGING = re.compile(
    r"(?<= rows in )[\d.]+(?= s$)|(?<= passed in )[\d.]+(?=s$)|(?<=^MLflow run: ).*$|(?<=--backend-store-uri )\S+$",
    re.MULTILINE,
)
_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_PLUGIN = (
    () if entry_points(group="pytest11", name="ragmetrics") else ("-p", "mlflow_ragmetrics.adapters.pytest_plugin")
)
RUN = ("python", "bash", "yaml", "json", "jsonl", "csv", "toml")


@dataclass(frozen=True)
class Block:
    """A block of a page: its language, its code, the output below it, and why it is not run."""

    language: str
    code: str
    output: str | None
    why: str | None
    start: int
    end: int

    @property
    def file(self) -> str | None:
        """The file that the block defines, by its first line."""
        found = _FILE.match(self.code)
        return found[1] if found else None

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block that call ``ragmetrics`` or ``pytest``, with continued lines joined."""
        lines = self.code.replace("\\\n", " ").splitlines()
        return [" ".join(line.split()) for line in lines if line.startswith(("ragmetrics ", "pytest "))]

    @property
    def is_run(self) -> bool:
        """Whether any of it is executed or written to a file."""
        if self.why is not None or self.language not in RUN:
            return False
        return bool(self.file) or self.language == "python" or (self.language == "bash" and bool(self.commands))


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, except outputs below other blocks."""
    found = []
    for each in _BLOCK.finditer(text):
        found.append(Block(each["language"], each["code"], each["output"], each["why"], each.start(), each.end()))
    return found


def missing(text: str) -> list[str]:
    """The modules that a page needs and that are not installed."""
    found = _NEEDS.search(text)
    names = re.split(r",\s*", found[1]) if found else []
    return [name for name in names if importlib.util.find_spec(name) is None]


def run(text: str, page: str) -> Iterator[tuple[Block, str]]:
    """Executes a page in the working directory; returns each executed block with its output."""
    names: dict[str, Any] = {"__name__": "__page__"}
    for number, block in enumerate(blocks(text), 1):
        if not block.is_run:
            continue
        if block.file:
            path = Path(block.file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_FILE.sub("", block.code), encoding="utf-8")
            yield block, ""
        elif block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(block.code, f"{page}, block {number}", "exec"), names)
            yield block, printed.getvalue()
        else:
            yield block, "".join(map(_called, block.commands))


def _called(command: str) -> str:
    found = _EXIT.search(command)
    expected = int(found[1]) if found else 0
    arguments = shlex.split(_EXIT.sub("", command))[1:]
    if command.startswith("pytest "):
        return _tested(arguments, expected)
    result = CliRunner(env={"COLUMNS": "100"}).invoke(main, arguments)
    assert result.exit_code == expected, (
        f"{command}\nends with {result.exit_code}:\n{result.output}{result.exception!r}"
    )
    return result.output


def _tested(arguments: list[str], expected: int) -> str:
    """The output of pytest in a separate project."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "--rootdir=.", "-p", "no:cacheprovider", *_PLUGIN, *arguments]
    done = subprocess.run(
        command, env={**environment, "COLUMNS": "100"}, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == expected, f"pytest ends with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def agrees(shown: str, printed: str) -> bool:
    """Whether the output on a page equals the printed one, ignoring blanks, times, run names and ``[…]``."""
    shown, printed = _CHANGING.sub("", shown.replace("[…]", "...")), _CHANGING.sub("", printed)
    return doctest.OutputChecker().check_output(shown, printed, _LIKE)


def difference(shown: str, printed: str) -> str:
    """Both outputs, for a message."""
    return f"the page shows\n{shown}\nand the code printed\n{printed}"


def written_anew(path: Path) -> str:
    """The page with each outdated output replaced."""
    text = path.read_text(encoding="utf-8")
    parts, end = [], 0
    for block, printed in run(text, path.name):
        if block.output is not None and not agrees(block.output, printed):
            shown = text[block.start : block.end]
            at = block.start + shown.rindex("```text\n")
            lines = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
            parts += [text[end:at], f"```text\n{lines}\n```"]
            end = block.end
    return "".join([*parts, text[end:]])


def refresh(page: Path) -> None:
    """Renews the outputs of ``page`` in a folder that has the example data and a store."""
    data, page = Path(__file__).parents[1] / "examples" / "data", page.resolve()
    os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///mlflow.db"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(data, Path(folder, "examples", "data"))
        os.chdir(folder)
        sys.path.insert(0, folder)
        page.write_text(written_anew(page), encoding="utf-8")
        os.chdir(data)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        refresh(Path(sys.argv[1]))
    else:
        for name in sys.argv[1:]:  # one process per page, because MLflow keeps the store that it opened
            subprocess.run([sys.executable, __file__, name], check=True)
