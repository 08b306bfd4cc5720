"""Suite files as text: read safely, and a threshold put in without losing comments or order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError

__all__ = ["read_yaml", "save_threshold", "with_threshold"]


def read_yaml(file: Path) -> Any:
    """What the suite's file holds; ``InvalidDataError`` where it cannot be read or is not YAML."""
    return _parsed(_text_of(file), file.name)


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")  # as bytes, so that line ends stay what they are
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the name
        raise InvalidDataError(f"the suite {str(file)!r} cannot be read: {error}") from None


def _parsed(text: str, name: str) -> Any:
    try:
        return yaml.safe_load(text)
    # beside its own errors, PyYAML lets out those of what it calls, for 2024-13-45, !!bool x and the like
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise InvalidDataError(f"the suite {name!r} is not YAML: {' '.join(str(error).split())}") from None


_ENTRY = "thresholds"


def save_threshold(path: str | Path, key: str, threshold: float) -> None:
    """Set ``thresholds.<key>`` in the file; ``InvalidOptionError`` where its thresholds are a preset's name."""
    file = Path(path)
    file.write_bytes(with_threshold(_text_of(file), key, threshold, file.name).encode("utf-8"))


def with_threshold(text: str, key: str, threshold: float, name: str = "suite.yaml") -> str:
    """The YAML text with ``thresholds.<key>`` set.

    >>> print(with_threshold("preset: white_paper  # ours", "faithfulness", 0.57))
    preset: white_paper  # ours
    thresholds:
      faithfulness: 0.57
    <BLANKLINE>
    """
    content = _parsed(text, name)
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
