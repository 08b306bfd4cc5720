"""YAML as a suite's file has it: read safely, and not larger than it looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from mlflow_ragmetrics.errors import InvalidDataError

__all__ = ["MOST_NODES", "parse_yaml", "read_yaml"]

MOST_NODES: Final = 100_000


def read_yaml(file: Path) -> Any:
    """What the suite's file holds; ``InvalidDataError`` where it cannot be read, is no YAML, or is too large."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidDataError(f"the suite {file} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # not UTF-8, or a NUL in the name
        raise InvalidDataError(f"the suite {str(file)!r} is no YAML: {error}") from None
    return parse_yaml(text, str(file))


def parse_yaml(text: str, name: str) -> Any:
    """What ``text`` says; ``name`` is the file's for messages.

    ``InvalidDataError`` where it is no YAML, or its aliases stand for more than ``MOST_NODES`` values.
    """
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        said = " ".join(str(error).split())  # the parser lets its conversions' errors through: of dates, of numbers
        raise InvalidDataError(f"the suite {name!r} is no YAML: {said}") from None
    if not _is_small(content):
        raise InvalidDataError(f"the suite {name} is too large: its aliases stand for more than {MOST_NODES} values")
    return content


def _is_small(content: object) -> bool:
    """Whether ``content`` holds at most ``MOST_NODES`` values, counted as often as they are referred to.

    A few lines of aliases of aliases stand for billions of values, and one that holds itself for no end of them: what
    reads them all, such as an error that shows them, would not come back.
    """
    pending = [content]
    seen = 0
    while pending:
        value = pending.pop()
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        seen += 1
        if isinstance(inner, (list, tuple, set)):
            pending.extend(inner)
        if seen + len(pending) > MOST_NODES:
            return False
    return True
