"""Put the table that the first command of the README prints into the README.

Run it from anywhere after a change of judge, metrics or display::

    python docs/making/readme_output.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"(?<=<!-- output -->\n)```text\n.*?```\n(?=<!-- /output -->)", re.DOTALL)
COMMAND = re.compile(r"^  ragmetrics (.*)$", re.MULTILINE)


def printed(arguments: list[str]) -> str:
    """The output of the command in a folder with nothing but the examples, 100 columns wide."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples" / "data", Path(folder, "examples", "data"))
        command = [sys.executable, "-c", "from mlflow_ragmetrics.cli import main; main()", *arguments]
        environment |= {"COLUMNS": "100", "PYTHONUTF8": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=True)
    return done.stdout.strip("\n")


def shortened(shown: str) -> str:
    """The title and the table; an ellipsis replaces the rest."""
    title, table, *_ = shown.split("\n\n")
    return f"{title}\n\n{table}\n[…]"


def main() -> None:
    readme = README.read_text(encoding="utf-8")
    found = COMMAND.search(readme)
    assert found is not None, "the README's first command is not there"
    block = f"```text\n{shortened(printed(found[1].split()))}\n```\n"
    README.write_text(BLOCK.sub(lambda _: block, readme), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
