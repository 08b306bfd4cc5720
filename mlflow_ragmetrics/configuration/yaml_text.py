"""Suite files as text: read safely, and a threshold put in without losing comments or order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError

__all__ = ["MOST_NODES", "parse_yaml", "read_yaml", "save_threshold", "with_threshold"]

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


_ENTRY = "thresholds"


def save_threshold(path: str | Path, key: str, threshold: float) -> None:
    """Set ``thresholds.<key>`` in the file; ``InvalidOptionError`` where its thresholds are a preset's name."""
    file = Path(path)
    try:
        text = file.read_bytes().decode("utf-8")  # as bytes, so that line ends stay what they are
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDataError(f"the suite {file} cannot be read: {error}") from None
    file.write_bytes(with_threshold(text, key, threshold, file.name).encode("utf-8"))


def with_threshold(text: str, key: str, threshold: float, name: str = "suite.yaml") -> str:
    """The YAML text with ``thresholds.<key>`` set.

    >>> print(with_threshold("preset: white_paper  # ours", "faithfulness", 0.57))
    preset: white_paper  # ours
    thresholds:
      faithfulness: 0.57
    <BLANKLINE>
    """
    content = parse_yaml(text, name)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or not isinstance(content, dict):
        raise InvalidDataError(f"the suite {name} must be a mapping, as `ragmetrics init` writes it")
    entry = _value(root, _ENTRY)
    if entry is None or (isinstance(entry, yaml.ScalarNode) and entry.tag.endswith(":null")):
        return _appended(text, entry, key, threshold)
    if not isinstance(entry, yaml.MappingNode):
        message = (
            f"the suite {name} has thresholds: {yaml.serialize(entry).split()[0]}, a preset; write the metric as "
            f"{key}(threshold={threshold:g}) under metrics instead"
        )
        raise InvalidOptionError(message, param=_ENTRY)
    return _changed(text, entry, key, threshold)


def _value(node: yaml.MappingNode, key: str) -> yaml.Node | None:
    return next((value for name, value in node.value if name.value == key), None)


def _appended(text: str, empty: yaml.Node | None, key: str, threshold: float) -> str:
    line = f"\n  {key}: {threshold:g}"
    if empty is not None:
        place = empty.start_mark.index
        return text[:place] + line + text[empty.end_mark.index :]
    start = text if text.endswith("\n") or not text else f"{text}\n"
    return f"{start}{_ENTRY}:{line}\n"


def _changed(text: str, entry: yaml.MappingNode, key: str, threshold: float) -> str:
    present = _value(entry, key)
    if present is not None:
        return text[: present.start_mark.index] + f"{threshold:g}" + text[present.end_mark.index :]
    place = entry.start_mark.index
    if not entry.flow_style:
        indent = " " * entry.start_mark.column
        return f"{text[:place]}{key}: {threshold:g}\n{indent}{text[place:]}"
    comma = ", " if entry.value else ""
    return f"{text[: place + 1]}{key}: {threshold:g}{comma}{text[place + 1 :]}"
