"""Whether the time of any regular expression of the package grows faster than its text, on repeated short pieces.

    python tests/benchmarks/regex_growth.py [--all]

Every compiled pattern and every pattern given to a function of ``re`` is searched in texts of 10, 20 and 40 kB made
of repeated pieces: the pattern's own literals and members of its character classes, alone and in pairs, and marks that
broken model output repeats. CPU time is the best of three; growth is the factor for a doubling, 2 for a linear pattern
and 4 for a quadratic one. The table has each pattern's slowest text; without ``--all``, only patterns that take a
millisecond or more.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mlflow_ragmetrics

SIZES = (10_000, 20_000, 40_000)
RANKED_AT = 1_000
WORTH_TIMING = 0.001
PIECES = (" ", "\t", "\n", ".", "…", "!", "a", "é", "ж", "。", "0", "0,", "0.", "a.", "A. ", "a ", " .", "- ", "* ")
ANYTHING = ("a", " ", "0")
SAMPLES = {"DIGIT": "0", "SPACE": " ", "WORD": "a", "NOT_DIGIT": "a", "NOT_SPACE": "a", "NOT_WORD": " "}
METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")


class Used(NamedTuple):
    """A pattern, its location, and the method of ``re`` that runs it."""

    place: str
    pattern: re.Pattern[str]
    method: str


class Growth(NamedTuple):
    """A pattern's slowest text: the repeated piece, and the CPU seconds for each size."""

    used: Used
    piece: str
    seconds: tuple[float, ...]

    @property
    def doubling(self) -> float:
        """The factor by which the time grows if the text doubles, over the last doubling."""
        return self.seconds[-1] / max(self.seconds[-2], 1e-9)


def patterns() -> list[Used]:
    """Every pattern of the package once, with the methods that its module calls, or any if its name is public."""
    everywhere = "".join(path.read_text(encoding="utf-8") for path in Path(mlflow_ragmetrics.__path__[0]).rglob("*.py"))
    found: dict[tuple[str, int, str], Used] = {}
    for info in pkgutil.walk_packages(mlflow_ragmetrics.__path__, "mlflow_ragmetrics."):
        try:
            module = importlib.import_module(info.name)
        except ImportError:  # an optional dependency is not installed
            continue
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        held = [(name, each) for name, value in vars(module).items() for each in _patterns_in(value)]
        inline = [(f"line {line}", pattern, method) for line, pattern, method in _inline(source)]
        for name, pattern in held:
            text = source if name.startswith("_") else everywhere
            for method in sorted(set(re.findall(rf"\b{re.escape(name)}\.({'|'.join(METHODS)})\b", text))) or ["search"]:
                found.setdefault((pattern.pattern, pattern.flags, method), Used(f"{info.name}.{name}", pattern, method))
        for name, pattern, method in inline:
            found.setdefault((pattern.pattern, pattern.flags, method), Used(f"{info.name} {name}", pattern, method))
    return list(found.values())


def _patterns_in(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, (tuple, list, set, frozenset)):
        for each in value:
            yield from _patterns_in(each)
    elif isinstance(value, dict):
        for each in (*value.keys(), *value.values()):
            yield from _patterns_in(each)


def _inline(source: str) -> Iterator[tuple[int, re.Pattern[str], str]]:
    """Patterns written as the first argument of a function of ``re``: line, pattern, method."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in METHODS
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            yield node.lineno, re.compile(node.args[0].value), node.func.attr


def pieces(pattern: re.Pattern[str]) -> list[str]:
    """Pieces that a hostile text for ``pattern`` may repeat: literals, class members, and pairs of both."""
    from re import _parser  # type: ignore[attr-defined]

    singles: dict[str, None] = {}
    words: dict[str, None] = {}

    def visit(tokens: Any) -> None:
        word = ""
        for operation, argument in tokens:
            name = str(operation)
            word = word + chr(argument) if name == "LITERAL" else _end(word)
            if name == "LITERAL":
                singles[chr(argument)] = None
            elif name in ("ANY", "NOT_LITERAL"):
                singles.update(dict.fromkeys(ANYTHING))
            elif name == "IN":
                singles.update(dict.fromkeys(_members(argument)))
            else:
                _visit_inside(argument)
        _end(word)

    def _end(word: str) -> str:
        if len(word) > 1:
            words[word] = words[word + " "] = None
        return ""

    def _visit_inside(argument: Any) -> None:
        if hasattr(argument, "data"):
            visit(argument)
        elif isinstance(argument, (list, tuple)):
            for each in argument:
                _visit_inside(each)

    visit(_parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
    few = list(singles)[:16]
    pairs = [left + right for left in few for right in few if left != right]
    return list(dict.fromkeys((*PIECES, *singles, *list(words)[:40], *pairs)))


def _members(argument: Any) -> Iterator[str]:
    negated = any(str(operation) == "NEGATE" for operation, _ in argument)
    if negated:
        yield from ANYTHING
    for operation, value in argument:
        name = str(operation)
        if name == "LITERAL":
            yield chr(value)
        elif name == "RANGE":
            yield chr(value[0])
        elif name == "CATEGORY":
            yield SAMPLES.get(str(value).removeprefix("CATEGORY_"), "a")


def grow(used: Used) -> Growth:
    """The slowest text of a pattern: every piece in a thousand characters, the slowest three in all sizes."""
    texts = sorted(pieces(used.pattern), key=lambda piece: -seconds(used, piece, RANKED_AT, 2))[:3]
    timed = [Growth(used, piece, tuple(seconds(used, piece, size, 3) for size in SIZES)) for piece in texts]
    return max(timed, key=lambda growth: growth.seconds[-1])


def seconds(used: Used, piece: str, size: int, repeats: int) -> float:
    """CPU seconds to run the pattern over a text of ``size`` characters, unchanged and with a different end."""
    text = piece * (size // len(piece))
    runs: list[Callable[[], object]] = [lambda: _run(used, text), lambda: _run(used, text + "\0x")]
    return max(min(_timed(run) for _ in range(repeats)) for run in runs)


def _run(used: Used, text: str) -> object:
    if used.method in ("sub", "subn"):
        return used.pattern.sub("", text)
    if used.method in ("match", "fullmatch", "search", "split", "findall"):
        return getattr(used.pattern, used.method)(text)
    return sum(1 for _ in used.pattern.finditer(text))


def _timed(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    """Prints the table, the fastest growing pattern first."""
    parser = argparse.ArgumentParser(description="How the time of every pattern grows with its text.")
    parser.add_argument("--all", action="store_true", help="also patterns that take less than a millisecond")
    options = parser.parse_args()
    measured = [grow(used) for used in patterns()]
    slow = [each for each in measured if options.all or each.seconds[-1] >= WORTH_TIMING]
    print(
        f"{len(measured)} patterns, {len(slow)} of them shown; milliseconds for 10, 20 and 40 kB, growth per doubling"
    )
    for each in sorted(slow, key=lambda growth: -growth.seconds[-1]):
        milliseconds = "".join(f"{1000 * seconds:>10.2f}" for seconds in each.seconds)
        print(f"{milliseconds}  x{each.doubling:<5.1f}{each.used.method:<10}{each.piece!r:<12}{each.used.place}")


if __name__ == "__main__":
    main()
