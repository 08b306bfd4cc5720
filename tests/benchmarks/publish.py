"""Run all benchmarks and write their figures to docs/data/benchmarks.json: ``python tests/benchmarks/publish.py``.

The page docs/benchmarks shows that file and nothing else. Run it on an otherwise idle machine. If a part fails, or
numbers differ, nothing is written; a contestant that could not be run is shown as such.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "docs" / "data" / "benchmarks.json"
COLUMNS = ["work", "program", "CPU seconds", "times ours", "peak memory", "numbers"]
_ABOUT = (
    "CPU seconds of one round, the median of several. Contestants take turns, each in its own process and environment. "
    "The first program of each task is ours, or the baseline for ours."
)
_TITLE = re.compile(r"^(?P<work>\S.*?)(?:   \(target: .*\))?$")
_MEASURED = re.compile(
    r"^\s+(?:(?P<ratio>[\d.]+) ×)?\s+(?P<seconds>[\d.]+) s\s+(?P<megabytes>\d+) MB   (?P<who>.+?)(?:   (?P<said>.+))?$"
)
_FAILED = re.compile(r"^\s+failed\s+(?P<who>.+?): (?P<why>.*)$")


def rows_of(lines: Iterable[str]) -> list[dict[str, str]]:
    """The figures printed by ``run.py``, one per contestant."""
    rows: list[dict[str, str]] = []
    title = ""
    for line in lines:
        measured, failed = _MEASURED.match(line), _FAILED.match(line)
        if measured:
            row = {
                "program": measured["who"],
                "CPU seconds": measured["seconds"],
                "times ours": measured["ratio"] or "",
            }
            rows.append(
                {"work": title, **row, "peak memory": f"{measured['megabytes']} MB", "numbers": measured["said"] or ""}
            )
            title = ""  # in the first row of its task
        elif failed:
            rows.append({"work": title, "program": failed["who"], "numbers": "could not be run"})
            title = ""
        elif found := _TITLE.match(line):
            title = found["work"]
    return rows


def table(lines: list[str], day: date) -> dict[str, Any]:
    """The entry ``speed`` of the committed figures; ``ValueError`` for figures that must not be published."""
    if any("OTHER NUMBERS" in line for line in lines):
        raise ValueError("a contestant has other numbers than ours; nothing is written")
    rows = rows_of(lines)
    if not rows:
        raise ValueError("nothing was measured; nothing is written")
    about = f"{_ABOUT} {lines[0].strip()}."
    return {
        "about": about,
        "command": "python tests/benchmarks/run.py",
        "date": day.isoformat(),
        "columns": COLUMNS,
        "rows": rows,
    }


def main() -> None:
    command = [sys.executable, "-u", str(Path(__file__).with_name("run.py")), *sys.argv[1:]]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    if process.returncode or "--short" in sys.argv:
        sys.exit("a part failed, or this was the short form: nothing is written")
    figures = json.loads(DATA.read_text(encoding="utf-8"))
    figures["speed"] = table(lines, date.today())
    DATA.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {len(figures['speed']['rows'])} rows into {DATA}")


if __name__ == "__main__":
    main()
