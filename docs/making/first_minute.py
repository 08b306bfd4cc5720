"""Record the first minute of a new user: a new environment, the installation, and a row that fails.

Runs the README's commands in a terminal of 100 columns. Writes a cast for asciinema
(``docs/_static/first_minute.cast``) and an animated picture (``docs/_static/first_minute.svg``, drawn by rich). Pauses
are cut to three seconds::

    python docs/making/first_minute.py
"""

from __future__ import annotations

import codecs
import json
import os
import pty
import re
import select
import shutil
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from fcntl import ioctl
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "docs" / "_static"
COLUMNS, LINES = 100, 44
LONGEST_PAUSE = 3.0
COMMANDS = (
    "python3 -m venv .venv && . .venv/bin/activate",
    "pip install -qq .",
    "ragmetrics evaluate examples/data/ragtruth_llama-2-13b.jsonl --worst 1",
)
Event = tuple[float, str]
THEME = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [(72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34), *[(88, 166, 255)] * 3, (201, 209, 217)],
)


def typed(command: str) -> str:
    """The prompt and the command, as a reader sees them."""
    return f"\x1b[1m$ {command}\x1b[0m\n"


def recorded(folder: Path) -> list[Event]:
    """What appears on the terminal, each piece with the seconds since the beginning."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "PYTHONPATH"))}
    environment = {**kept, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES), "PYTHONUTF8": "1"}
    said = "\n".join(f"printf '%b' {json.dumps(typed(command))}; {command} || exit 1" for command in COMMANDS)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe("bash", ["bash", "--norc", "-c", said], environment)
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    began, events = time.monotonic(), []
    while True:
        select.select([terminal], [], [])
        try:
            read = os.read(terminal, 65536)
        except OSError:  # the other side has ended
            break
        if not read:
            break
        events.append((round(time.monotonic() - began, 3), decoder.decode(read)))
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        sys.exit("".join(text for _, text in events))
    return events


def shortened(events: list[Event]) -> list[Event]:
    """No pause is longer than three seconds."""
    found, before, now = [], 0.0, 0.0
    for at, text in events:
        now += min(at - before, LONGEST_PAUSE)
        before = at
        found.append((round(now, 3), text))
    return found


def cast(events: list[Event]) -> str:
    """The file that ``asciinema play`` takes, version 2."""
    head = {"version": 2, "width": COLUMNS, "height": LINES, "title": "From pip install to a failing row"}
    parts = [head, *([at, "o", said] for at, said in events)]
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in parts)


def shown(events: list[Event]) -> list[tuple[float, Text]]:
    """The lines that stay on the screen, each with the time at which it was whole."""
    lines: list[tuple[float, Text]] = []
    line = ""
    for at, text in events:
        *whole, rest = (line + text).replace("\r\n", "\n").split("\n")
        lines += [(at, Text.from_ansi(each.rpartition("\r")[2])) for each in whole]
        line = rest
    return [*lines, (events[-1][0], Text.from_ansi(line))] if line.strip() else lines


def picture(lines: Sequence[tuple[float, Text]]) -> str:
    """An SVG in which each line appears at its time; it starts again five seconds after the last."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), color_system="truecolor", force_terminal=True)
    lines = [(at, part) for at, text in lines for part in text.divide(range(COLUMNS, len(text), COLUMNS))]
    for _, text in lines:
        console.print(text, soft_wrap=True)
    svg = console.export_svg(title="the first minute", theme=THEME, unique_id="m")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # nothing is loaded: the reader's own font
    length = lines[-1][0] + 5
    styles = []
    for number, (at, _) in enumerate(lines):
        share = 100 * at / length
        styles.append(
            f"@keyframes l{number} {{ 0%, {share:.2f}% {{ opacity: 0 }} {share + 0.01:.2f}%, 100% {{ opacity: 1 }} }}"
            f" [clip-path='url(#m-line-{number})'] {{ animation: l{number} {length:.1f}s step-end infinite }}"
        )
    played = "\n".join(styles)
    return svg.replace("</style>", f"@media (prefers-reduced-motion: no-preference) {{\n{played}\n}}\n</style>", 1)


def main() -> None:
    """Record in a copy of what a clone has, and write both files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "mlflow_ragmetrics")
        folder.mkdir()
        for each in ("mlflow_ragmetrics", "examples/data"):
            shutil.copytree(ROOT / each, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
        for each in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / each, folder)
        events = recorded(folder)
    TARGET.mkdir(exist_ok=True)
    played = shortened(events)
    (TARGET / "first_minute.cast").write_text(cast(played), encoding="utf-8")
    (TARGET / "first_minute.svg").write_text(picture(shown(played)), encoding="utf-8")
    print(f"{events[-1][0]:.0f} seconds, {played[-1][0]:.0f} as played")


if __name__ == "__main__":
    main()
