"""Docstrings as Markdown, and tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["escaped", "in_cell", "prose", "table"]

_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
_MARKED = re.compile(r"([<>*\[\]])")
_WORDS = ("Formula:", "Unscored:", "Options:", "Source:", "Without context:", "Blank answer:")


def escaped(text: str) -> str:
    """``text`` with the signs of Markdown as they are, and double backticks as single ones."""
    parts = _CODE.split(text)
    return "".join(
        re.sub(r"^``(.*)``$", r"`\1`", part, flags=re.DOTALL) if number % 2 else _MARKED.sub(r"\\\1", part)
        for number, part in enumerate(parts)
    )


def prose(docstring: str) -> str:
    """A docstring as Markdown: paragraphs, indented blocks after ``::`` and doctests as fenced code."""
    return "\n\n".join(_block(each) for each in _blocks(docstring)).strip()


def _blocks(docstring: str) -> Iterable[str]:
    """Paragraphs; what follows a ``::`` line goes with it until the text is no longer indented."""
    literal: list[str] = []
    for paragraph in re.split(r"\n\s*\n", docstring.strip("\n")):
        if literal and paragraph.startswith("    "):
            literal.append(paragraph)
            continue
        if literal:
            yield "\n\n".join(literal)
            literal = []
        if paragraph.rstrip().endswith("::"):
            literal = [paragraph]
        else:
            yield paragraph
    if literal:
        yield "\n\n".join(literal)


def _block(paragraph: str) -> str:
    head, _, rest = paragraph.partition("\n")
    if head in ("Args:", "Raises:", "Returns:") and rest.startswith("    "):
        entries = re.split(r"\n    (?=\S)", f"\n{rest}")[1:]
        return f"**{head}**\n\n" + "\n".join(f"- {escaped(' '.join(entry.split()))}" for entry in entries)
    if paragraph.startswith("==="):
        return f"```text\n{paragraph}\n```"
    if paragraph.lstrip().startswith(">>>"):
        return f"```pycon\n{paragraph}\n```"
    before, sign, rest = paragraph.partition("::\n")
    if sign and rest.strip():
        head = escaped(before.strip())
        code = "\n".join(line[4:] for line in rest.strip("\n").splitlines())
        return (f"{head}:\n\n" if head else "") + f"```text\n{code}\n```"
    if ">>> " in paragraph:
        said, _, example = paragraph.partition(">>> ")
        return f"{escaped(said.strip())}\n\n```pycon\n>>> {example}\n```"
    text = escaped(paragraph)
    for word in _WORDS:
        text = re.sub(rf"(^|\s){re.escape(word)}", rf"\n\n**{word}**", text)
    return text.strip()


def in_cell(text: str) -> str:
    """``text`` for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(in_cell(cell) for cell in line)} |" for line in lines)
