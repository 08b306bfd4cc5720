"""The patterns of the package that take longest on repeated pieces: ``python tests/benchmarks/regex_growth.py``.

Every pattern runs over texts of 10, 20 and 40 kB that repeat marks as broken model output does. Growth is the
factor in CPU time for the last doubling: 2 for a linear pattern, 4 for a quadratic one.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mlflow_ragmetrics

SIZES = (10_000, 20_000, 40_000)
PIECES = (" ", "\t", "\n", ".", "…", "!", "a", "é", "ж", "。", "0", "0,", "0.", "a.", "A. ", "a ", " .", "- ", "* ")
METHODS = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")


class Used(NamedTuple):
    """A pattern, the name that holds it, and the method of ``re`` that runs it."""

    place: str
    pattern: re.Pattern[str]
    method: str


def patterns() -> list[Used]:
    """Every pattern of the package, with the methods that its module calls, or any if it is public."""
    everywhere = "".join(path.read_text(encoding="utf-8") for path in Path(mlflow_ragmetrics.__path__[0]).rglob("*.py"))
    uses: dict[tuple[str, int, str], Used] = {}
    for info in pkgutil.walk_packages(mlflow_ragmetrics.__path__, "mlflow_ragmetrics."):
        try:
            module = importlib.import_module(info.name)
        except ImportError:  # an optional dependency is not installed
            continue
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        for line, pattern, method in _inline(source):
            uses.setdefault((pattern.pattern, 0, method), Used(f"{info.name} line {line}", pattern, method))
        for name, pattern in [(name, held) for name, value in vars(module).items() for held in _patterns_in(value)]:
            text = source if name.startswith("_") else everywhere
            methods = set(re.findall(rf"\b{re.escape(name)}\.({'|'.join(METHODS)})\b", text))
            for method in methods or {next((method for method in METHODS if f".{method}" in text), "search")}:
                key = (pattern.pattern, pattern.flags, method)
                uses.setdefault(key, Used(f"{info.name}.{name}", pattern, method))
    return list(uses.values())


def _inline(source: str) -> Iterator[tuple[int, re.Pattern[str], str]]:
    """Patterns written as the first argument of a function of ``re``: line, pattern, method."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            owner, _, method = ast.unparse(node.func).rpartition(".")
            if owner == "re" and method in METHODS:
                yield node.lineno, re.compile(node.args[0].value), method


def _patterns_in(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, (tuple, list, set, frozenset, dict)):
        for part in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from _patterns_in(part)


def seconds(used: Used, piece: str, size: int, repeats: int) -> float:
    """CPU seconds to run the pattern over a text of ``size`` characters, unchanged or with a different end."""
    text = piece * (size // len(piece))
    return max(min(_timed(used, each) for _ in range(repeats)) for each in (text, text + "\0x"))


def _timed(used: Used, text: str) -> float:
    start = time.process_time()
    if used.method == "sub":
        used.pattern.sub("", text)
    elif used.method == "finditer":
        list(used.pattern.finditer(text))
    else:
        getattr(used.pattern, used.method)(text)
    return time.process_time() - start


def main() -> None:
    """Print the slowest text of each of the slowest patterns."""
    slowest = []
    for used in patterns():
        piece = max(PIECES, key=lambda piece: seconds(used, piece, 1000, 1))
        slowest.append(([1000 * seconds(used, piece, size, 3) for size in SIZES], piece, used))
    print(f"{len(slowest)} patterns, the slowest 20: milliseconds for 10, 20 and 40 kB, growth per doubling")
    for times, piece, used in sorted(slowest, key=lambda row: -row[0][-1])[:20]:
        growth = times[-1] / max(times[-2], 1e-6)
        print(
            "".join(f"{each:>10.2f}" for each in times) + f"  x{growth:<5.1f}{used.method:<10}{piece!r:<8}{used.place}"
        )


if __name__ == "__main__":
    main()
