"""The project's words are plain English: phrases that readers have to read twice are rare."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mlflow_ragmetrics"
PHRASES = re.compile(
    r"\b(?:of which|where that|where there (?:is|are)|where nothing|where none|anew\b|of one's own"
    r"|stands? (?:in|beside|where)|(?:held?|holds?) against|hang(?:s|ed)? on|so many|as many as"
    r"|who judges|what (?:was|were|is|are) (?:read|asked|known|said|done|kept|measured|given|found|left)"
    r"|mends?|mended|gives? up|is told|are told|knows? (?:of|no|nothing)|from \d+ on\b"
    r")\b"
    r"|\bbeside (?:the|it|them|each|a)\b",
    re.IGNORECASE,
)
MOST_IN_A_THOUSAND_LINES = 1.0


def prose_of_page(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a Markdown page outside code blocks, with their numbers."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and line.strip():
            yield number, re.sub(r"`[^`]*`", "", line)


def prose_of_module(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a module's docstrings, comments and strings with a space, without code and patterns."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value
            and "\\" not in node.value
        ):
            for offset, line in enumerate(node.value.splitlines()):
                if line.strip() and not line.lstrip().startswith(">>>"):
                    yield node.lineno + offset, line


def places() -> Iterator[tuple[str, list[tuple[int, str]]]]:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(PACKAGE.rglob("*.json"))]:
        if "locales/ru" not in path.as_posix() and "_build" not in path.parts:
            yield path.relative_to(ROOT).as_posix(), list(prose_of_page(path.read_text(encoding="utf-8")))
    for path in (path for kind in ("yaml", "js", "html") for path in PACKAGE.rglob(f"*.{kind}")):
        yield path.relative_to(ROOT).as_posix(), list(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    for path in PACKAGE.rglob("*.py"):
        yield path.relative_to(ROOT).as_posix(), list(prose_of_module(path.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_phrases_that_must_be_read_twice_are_rare() -> None:
    lines, found = 0, []
    for name, prose in places():
        lines += len(prose)
        found += [f"{name}:{number}: {hit[0]}" for number, line in prose for hit in PHRASES.finditer(line)]
    assert lines > 5000
    assert len(found) <= MOST_IN_A_THOUSAND_LINES * lines / 1000, "\n".join(found)


@pytest.mark.parametrize(
    "text", ["the rows of which none was measured", "ask the judge anew", "it stands in the table", "from 50 on"]
)
def test_the_phrases_are_noticed(text: str) -> None:
    assert PHRASES.search(text)
