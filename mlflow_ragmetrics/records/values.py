"""Values as they come from files, frames and traces -> text and lists, or an error that says why not."""

from __future__ import annotations

import ast
import io
import json
import tokenize
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any
from uuid import UUID

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.errors import InvalidFieldError

__all__ = ["elements_of", "is_missing", "text_of", "texts_of"]

_MISSING_KINDS = frozenset({"NAType", "NaTType"})
_CONTAINERS = (bytes, list, tuple, dict)


def is_missing(value: object) -> bool:
    """Whether ``value`` stands for no value: ``None``, NaN of any float type, ``pandas.NA``, ``NaT``."""
    if value is None:
        return True
    if isinstance(value, (str, *_CONTAINERS)):
        return False
    if isinstance(value, Decimal):
        return value.is_nan()
    kind = type(value).__name__
    if isinstance(value, Real) or kind in ("datetime64", "timedelta64"):
        return bool(value != value)
    return kind in _MISSING_KINDS


def text_of(value: object, field: str) -> str | None:
    """``value`` as text, ``None`` where it is missing.

    A string is taken as it is; numbers (not ``bool``) and UUIDs become text.

    Raises:
        InvalidFieldError: for any other type.
    """
    if isinstance(value, str):
        return value
    if is_missing(value):
        return None
    if type(value) is not bool and isinstance(value, (Real, Decimal, UUID)):
        return str(value)
    raise InvalidFieldError(f"`{field}` is {kind_of(value)}, but must be text or a number.", field=field)


def elements_of(value: object, field: str) -> Sequence[Any] | None:
    """``value`` as a list of raw elements, ``None`` where it is missing.

    Accepted: list, tuple, NumPy array, Series and the like; a string that holds a JSON list, a Python list literal or
    a printed NumPy array; any other string is one element, a blank one none.

    Raises:
        InvalidFieldError: for anything else (a bare number, ``bool``, ``bytes``, a mapping).
    """
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, str):
        return _parsed_list(value)
    if is_missing(value):
        return None
    listed = _listed(value)
    if listed is None:
        raise InvalidFieldError(
            f"`{field}` is {kind_of(value)}, but must be a list, an array or a string that holds one.", field=field
        )
    return listed


def texts_of(value: object, field: str) -> tuple[str, ...] | None:
    """``value`` as a list of texts without missing and blank ones, ``None`` where it is missing itself.

    Raises:
        InvalidFieldError: where the value is not a list, or an element is not text.
    """
    elements = elements_of(value, field)
    if elements is None:
        return None
    texts = (text_of(element, field) for element in elements)
    return tuple(text for text in texts if text and not text.isspace())


def _listed(value: object) -> list[Any] | None:
    for name in ("tolist", "to_list", "to_pylist"):
        convert = getattr(value, name, None)
        if callable(convert):
            listed = convert()
            return listed if isinstance(listed, list) else None
    return None


def _parsed_list(text: str) -> Sequence[Any]:
    stripped = text.strip()
    if not stripped:
        return ()
    if stripped.startswith("[") and stripped.endswith("]"):
        for parse in (json.loads, _literal):
            try:
                parsed = parse(stripped)
            except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
                continue
            if isinstance(parsed, list):
                return parsed
    return (text,)


def _literal(text: str) -> object:
    """A Python list literal; neighbouring strings are the elements of a printed NumPy array, not one string."""
    parsed = ast.literal_eval(text)
    if not isinstance(parsed, list) or ("," in text and len(parsed) > 1):
        return parsed
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    strings = [token.string for token in tokens if token.type == tokenize.STRING]
    return [ast.literal_eval(string) for string in strings] if len(strings) > 1 else parsed
