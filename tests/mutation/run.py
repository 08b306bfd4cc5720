"""How many of our own wrong decisions the tests notice: ``python tests/mutation/run.py [folder or number …]``.

Each mutant of ``mutants.py`` is put into a copy of the package, and the tests of its folder run until the first one
fails. Survivors are named; a mutant whose text is not there any more is named too, and must be written anew. All of it
takes about an hour: CI runs it weekly. Exit code 1 where less than 90 % are killed or a mutant is not found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

if __package__:
    from .mutants import MUTANTS
else:
    from mutants import MUTANTS

ROOT = Path(__file__).parents[2]
PACKAGE = "mlflow_ragmetrics"
LEAST = 0.9
_LONGEST = 900

Mutant = tuple[str, str, str, str]


def place_of(mutant: Mutant, root: Path) -> Path | None:
    """The file that holds the mutant's text: the one that it names, else the only one that does."""
    _, file, old, _ = mutant
    hint = root / PACKAGE / file
    if hint.exists() and old in hint.read_text(encoding="utf-8"):
        return hint
    holding = [path for path in (root / PACKAGE).rglob("*.py") if old in path.read_text(encoding="utf-8")]
    return holding[0] if len(holding) == 1 else None


def chosen(words: Sequence[str]) -> list[tuple[int, Mutant]]:
    """The mutants of these folders or numbers; all without any."""
    numbered = list(enumerate(MUTANTS, 1))
    return [each for each in numbered if not words or str(each[0]) in words or each[1][0] in words]


def run_tests(copy: Path, folder: str, seconds: float) -> str:
    """``"passed"``, ``"failed"``, ``"timeout"`` or what pytest said instead."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", f"tests/{folder}"]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "timeout"
    return {0: "passed", 1: "failed", 2: "failed"}.get(done.returncode, done.stdout[-500:] + done.stderr[-500:])


def judged(copy: Path, mutant: Mutant, seconds: float) -> str:
    """``"killed"``, ``"timed out"`` (which counts as killed), ``"survived"`` or ``"not found"``."""
    folder, _, old, new = mutant
    path = place_of(mutant, copy)
    if path is None:
        return "not found"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    try:
        return {"passed": "survived", "timeout": "timed out"}.get(run_tests(copy, folder, seconds), "killed")
    finally:
        path.write_text(text, encoding="utf-8")


def main(words: Sequence[str]) -> int:
    mutants = chosen(words)
    outcomes: list[str] = []
    limits: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in (PACKAGE, "tests", "examples", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, copy / name)
        for number, mutant in mutants:
            where, file, old, new = mutant
            if where not in limits:
                began = time.perf_counter()
                outcome = run_tests(copy, where, _LONGEST)
                if outcome != "passed":
                    sys.exit(f"tests/{where} must pass without a mutant: {outcome}")
                limits[where] = 60 + 4 * (time.perf_counter() - began)
            outcomes.append(judged(copy, mutant, limits[where]))
            print(f"{number:>4}  {outcomes[-1]:10} {file}: {old!r} -> {new!r}", flush=True)
    counts = {outcome: outcomes.count(outcome) for outcome in ("killed", "timed out", "survived", "not found")}
    noticed = counts["killed"] + counts["timed out"]
    share = noticed / max(1, noticed + counts["survived"])
    print("\n" + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) + f": {share:.0%} killed")
    return int(share < LEAST or counts["not found"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
