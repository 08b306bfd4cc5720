"""No pattern of the package takes quadratic time on malformed model output."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mlflow_ragmetrics
from mlflow_ragmetrics.judges.lexical.support import split_claims
from mlflow_ragmetrics.text.sentences import read_sentences

SIZE = 40_000
SECONDS = 2.0  # a linear pattern takes a few milliseconds; earlier quadratic ones took 4 to 39 s
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


def seconds(used: Used, piece: str) -> float:
    """CPU seconds to run the pattern over a text, or over its bytes."""
    text: Any = piece.encode() if isinstance(used.pattern.pattern, bytes) else piece
    start = time.process_time()
    if used.method == "sub":
        used.pattern.sub(text[:0], text)
    elif used.method == "finditer":
        list(used.pattern.finditer(text))
    else:
        getattr(used.pattern, used.method)(text)
    return time.process_time() - start


@pytest.mark.slow
def test_the_patterns_of_the_package_are_found_with_their_methods() -> None:
    found = {(used.place.rpartition(".")[2], used.method) for used in patterns()}
    assert {("_TOKEN", "finditer"), ("_DASHES", "sub"), ("_TOKEN", "split")} <= found
    assert len(found) > 50


@pytest.mark.slow
def test_every_pattern_reads_repeated_pieces_in_linear_time() -> None:
    slow = []
    for used in patterns():
        for piece in PIECES:
            text = piece * (SIZE // len(piece))
            if max(seconds(used, text), seconds(used, text + "\0x")) > SECONDS:
                slow.append((used.place, piece))
    assert not slow


@pytest.mark.parametrize(
    "piece", [" ", "\t", "\u00a0", "\n", ".", "…", "?!", ".'", "【", "[1 ", "[1, ", "; ", ", and ", "。"]
)
def test_claims_are_split_in_linear_time(piece: str) -> None:
    text = f"It is{piece * (100_000 // len(piece))}red [1]."
    start = time.process_time()
    list(read_sentences(text))
    split_claims(text)
    assert time.process_time() - start < SECONDS
