"""Lists of words, phrases and patterns, stored as text in ``lists/`` and grouped by language."""

from __future__ import annotations

import re
from importlib.resources import files


def lines_of(name: str) -> list[str]:
    """The lines of ``lists/<name>.txt`` without comments, which begin with ``#`` and a space."""
    text = (files("mlflow_ragmetrics") / "text" / "lists" / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("# ")]


def words_of(name: str) -> frozenset[str]:
    """The words of a list, as a set."""
    return frozenset(" ".join(lines_of(name)).split())


def phrases_of(name: str) -> list[list[str]]:
    """The phrases of a list, separated by bars or line ends, each split into words."""
    return [phrase.split() for line in lines_of(name) for phrase in line.split("|")]


def pattern_of(name: str, *, before: str = "", after: str = "", **parts: str) -> re.Pattern[str]:
    """Combine a list's patterns into one, ignoring case; ``<name>`` in a pattern is replaced by the part ``name``."""
    pattern_text = f"{before}(?:{'|'.join(lines_of(name))}){after}"
    for part, pattern in parts.items():
        pattern_text = pattern_text.replace(f"<{part}>", pattern)
    return re.compile(pattern_text, re.IGNORECASE)
