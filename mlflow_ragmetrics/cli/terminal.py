"""Text for a terminal: without what could steer it, shortened, and broken between words."""

from __future__ import annotations

import re
import shutil
import unicodedata
from textwrap import wrap
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "clean",
    "clean_lines",
    "console",
    "fitted",
    "for_terminal",
    "shorten",
    "terminal_width",
    "unbroken",
    "wrapped",
]

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
_UNBROKEN = "\N{NO-BREAK SPACE}"
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: object) -> str:
    """``text`` on one line, without escape sequences, control characters and changes of writing direction.

    >>> clean("red \\x1b[31malert\\x1b[0m\\nnext")
    'red alert next'
    """
    plain = _DIRECTION.sub("", _ESCAPE.sub("", str(text)))
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in plain).split())


def clean_lines(text: str) -> str:
    """``text`` line for line, without what ``clean`` takes away.

    >>> clean_lines("one  \\x1b[31mtwo\\nthree")
    'one  two\\nthree'
    """
    plain = _DIRECTION.sub("", _ESCAPE.sub("", text))
    return "".join(" " if unicodedata.category(c) == "Cc" and c != "\n" else c for c in plain)


def shorten(text: object, length: int) -> str:
    """The clean text in at most ``length`` characters; an ellipsis says that something was cut."""
    plain = clean(text)
    return plain if len(plain) <= length else plain[: max(0, length - 1)].rstrip() + "…"


def unbroken(text: str) -> str:
    """``text`` as one word to ``wrapped``, which does not break it."""
    return text.replace(" ", _UNBROKEN)


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """``text`` in lines of at most ``width`` columns; the second and later ones stand two columns further in."""
    lines = wrap(text, max(20, width - indent - 2), break_on_hyphens=False)
    shown = [" " * (indent + 2 * (number > 0)) + line for number, line in enumerate(lines)]
    return [line.replace(_UNBROKEN, " ") for line in shown]


def fitted(line: str, width: int) -> str:
    """``line`` as it is where it fits, else broken between words, with its own indent."""
    if len(line) <= width:
        return line
    text = line.lstrip()
    return "\n".join(wrapped(text, width, indent=len(line) - len(text)))


def for_terminal(text: str, stream: IO[Any]) -> str:
    """``text`` broken between words where ``stream`` is a terminal, and as it is, line for line, where it is not."""
    width = terminal_width(stream)
    return text if width is None else "\n".join(fitted(line, width) for line in text.splitlines())


def terminal_width(stream: IO[Any]) -> int | None:
    """The columns of the terminal that ``stream`` writes to; ``None`` for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def console() -> Console:
    """Standard output: colours on terminals only, markup never read."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)
