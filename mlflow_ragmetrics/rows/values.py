"""Converts values from files, frames and traces to text, lists and labels, also what Python printed into a text."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from typing import Any, TypeGuard, Union
from uuid import UUID

from mlflow_ragmetrics.core.options import kind_of, shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError

PRINTED_START = re.compile(
    r"""\A\s*(?:[\[{(]\s*b?['"{\[(]|\[\s*(?:-?\d|\]|nan\b|None\b)|[\[(]?[A-Z]\w*\(\w+=|\[?(?:np\.|torch\.)?(?:array|tensor)\("""
    r"""|\[np\.\w+\(|(?:frozen)?set\(|deque\(|(?:Ordered|default)[Dd]ict\(|(?:page_)?content=['"\[])"""
)
"""How the printed form of an object begins."""
_CERTAIN = re.compile(
    r"\s*(?:\[?(?:Document|NodeWithScore|\w*Node|\w*Message(?:Chunk)?)\(\w+=|array\(\[|(?:page_)?content='"
    r"|(?:\{'.*\}|\[\{?b?'.*\]|\(b?'.*\))\s*\Z)",
    re.DOTALL,
)
_ADJACENT = re.compile(r"""['"]\s+['"]""")
_FIELDS_OF_AN_OBJECT = re.compile(r"\s*(?:page_)?content=")
_TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z))"""
    r"""|<[\w.]+:\ (?P<value>'[^']*'|"[^"]*"|\d+)>|(?P<object><[^<>]*>)"""
    r"""|(?P<gap>(?<=[\w'"\])}.])\s+(?=['"{\[(\d]|-\d|[A-Za-z_]\w*[=(]))""",
    re.DOTALL,
)
_WRAPPERS = frozenset(
    {"array", "tensor", "set", "frozenset", "deque", "OrderedDict", "defaultdict", "UUID", "Timestamp"}
)


def is_printed(text: str) -> bool:
    """Whether ``text`` can only be a printed object or container, so that it is damaged if it cannot be parsed."""
    return _CERTAIN.match(text) is not None


def parse_printed(text: str) -> Any:
    """The list or mapping that was printed as ``text``; tuples, sets and arrays become lists, objects mappings.

    Raises ``ValueError``, ``SyntaxError``, ``MemoryError`` or ``RecursionError`` for any other text.
    """
    text = text.strip()
    if text[:1] == "[" and not _ADJACENT.search(text):  # a list of texts, as most are
        with suppress(ValueError, SyntaxError, TypeError):
            listed = ast.literal_eval(text)
            if all(type(element) is str for element in listed):
                return listed
    source = _TOKEN.sub(_plain, text)
    if _FIELDS_OF_AN_OBJECT.match(source):  # str() of a message or document: its fields, without commas
        source = f"Fields({source})"
    parsed = _value_of(ast.parse(source, mode="eval").body)
    if not isinstance(parsed, (list, dict)):
        raise ValueError("neither a list nor a mapping")
    return parsed


def _plain(token: re.Match[str]) -> str:
    """Strings unchanged, the value of an enum's member, ``None`` for other objects, a comma where NumPy prints none."""
    if token["string"]:
        return token["string"]
    return token["value"] or ("None" if token["object"] else ", ")


def _value_of(node: ast.expr | None) -> Any:
    """The value that was printed, with lists and mappings for containers and objects."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [_value_of(element) for element in node.elts]
    if isinstance(node, ast.Dict):
        return {_value_of(key): _value_of(value) for key, value in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.Name) and node.id in ("nan", "inf", "NaT", "NA"):
        return None
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)  # type: ignore[arg-type]
    name = ast.unparse(node.func)
    kind = name.rpartition(".")[2]
    if node.args and (kind in _WRAPPERS or name.startswith("np.")):
        inner = _value_of(node.args[-1 if kind == "defaultdict" else 0])
        return dict(inner) if kind == "OrderedDict" else inner
    if not kind[:1].isupper() and kind not in ("datetime", "date", *_WRAPPERS):
        raise ValueError("a call in source text")
    if node.args or not node.keywords:
        return [] if kind in _WRAPPERS else ast.unparse(node)
    entries = {str(keyword.arg): _value_of(keyword.value) for keyword in node.keywords}
    if kind.endswith(("Message", "MessageChunk")):
        entries.setdefault("type", kind.partition("Message")[0].lower())
    return entries


_MISSING_KINDS = frozenset({"NAType", "NaTType"})
_MISSING_TEXTS = frozenset({"nan", "NaN", "<NA>", "NaT"})
"""Texts that tables use for a missing value."""
_NOT_AVAILABLE = frozenset({"none", "null", "na", "n/a", "#n/a", "#na", "\\n"})
_JSON = re.compile(r'\s*["\[{]|null\Z')
_STRUCTURED = re.compile(f"{_JSON.pattern}|{PRINTED_START.pattern}")
_FORMS: Sequence[tuple[Callable[[str], object], Callable[[str], Any]]] = (
    (_JSON.match, json.loads),
    (PRINTED_START.match, parse_printed),
)
_CONTAINERS = (bytes, list, tuple, dict)
_ID_FIELDS = ("id", "retrieved_doc_ids", "gold_doc_ids")


def is_missing(value: object) -> bool:
    """Whether ``value`` is ``None``, NaN of any float type, ``pandas.NA``, ``NaT`` or the text of one of these."""
    if value is None:
        return True
    if isinstance(value, str):
        return value in _MISSING_TEXTS
    if isinstance(value, _CONTAINERS):
        return False
    if isinstance(value, Decimal):
        return value.is_nan()
    kind = type(value).__name__
    if isinstance(value, Real) or kind in ("datetime64", "timedelta64"):
        return bool(value != value)
    return kind in _MISSING_KINDS


def is_not_available(value: object) -> bool:
    """Whether it is a word such as ``N/A``, which marks a missing reference, context or id but may be an answer."""
    return isinstance(value, str) and len(value) < 20 and value.strip().lower() in _NOT_AVAILABLE


def decoded(value: Any) -> Any:
    """Parse a text that holds JSON or the printed form of a Python object; convert an array to a list.

    Anything else is returned unchanged.
    """
    if not isinstance(value, str):
        return value.tolist() if callable(getattr(value, "tolist", None)) else value
    for begins, parse in _FORMS:
        if begins(value):
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
                return parse(value)
    return value


def mapping_of(value: object) -> Mapping[Any, Any]:
    """``value`` if it is a mapping or the JSON of one, else an empty mapping."""
    parsed = decoded(value)
    return parsed if isinstance(parsed, Mapping) else {}


def looks_structured(text: str) -> bool:
    """Whether ``text`` begins as JSON or a printed object does."""
    return _STRUCTURED.match(text) is not None


def cell(value: Any, field: str) -> Any:
    """``decoded``; raises ``InvalidFieldError`` for the printed form of an object that is damaged."""
    if isinstance(value, str) and not looks_structured(value):
        return value
    parsed = decoded(value)
    if parsed is value and isinstance(value, str) and is_printed(value):
        message = (
            f"`{field}` is a printed Python object that cannot be read; save its text, or a list of texts as JSON."
        )
        raise InvalidFieldError(message, field=field)
    return parsed


def text_of(value: object, field: str) -> str | None:
    """``value`` as text; ``None`` if it is missing.

    Strings are unchanged; numbers (not ``bool``) and UUIDs become text. Ids are stripped, and whole floats in ids
    become integers, because pandas turns an integer column with gaps into floats.

    Raises:
        InvalidFieldError: for any other type.
    """
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value.strip() if field in _ID_FIELDS else value
    if isinstance(value, int) and type(value) is not bool:
        return format(value, "d")
    if type(value) is not bool and isinstance(value, (Real, Decimal, UUID)):
        if field in _ID_FIELDS and isinstance(value, (Real, Decimal)) and value % 1 == 0:
            return format(value, ".0f")
        return str(value)
    raise InvalidFieldError(f"`{field}` is {kind_of(value)}, but must be text or a number.", field=field)


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is a list or a tuple."""
    return isinstance(value, (list, tuple))


def elements_of(value: object, field: str) -> Sequence[Any] | None:
    """``value`` as a list of raw elements; ``None`` if it is missing.

    Accepted are a list, tuple, set, NumPy array or Series, and a string that holds a JSON list or a printed one. Any
    other string is one element; a blank string is an empty list.

    Raises:
        InvalidFieldError: for anything else (a bare number, ``bool``, ``bytes``) and for a damaged printed list.
    """
    if isinstance(value, (list, tuple)):
        return value
    if is_missing(value):
        return None
    if isinstance(value, str):
        parsed = cell(value, field)
        if not isinstance(parsed, (list, dict)):
            return (value,) if value.strip() else ()
        value = parsed
    if isinstance(value, (list, set, frozenset)):
        return list(value)
    convert = next((getattr(value, name) for name in ("tolist", "to_list", "to_pylist") if hasattr(value, name)), None)
    listed = convert() if callable(convert) else None
    if not isinstance(listed, list):
        message = f"`{field}` is {kind_of(value)}, but must be a list, an array or a string that holds one."
        raise InvalidFieldError(message, field=field)
    return listed


def texts_of(value: object, field: str) -> tuple[str, ...] | None:
    """``value`` as a list of texts without missing and blank elements; ``None`` if ``value`` is missing.

    Raises:
        InvalidFieldError: if the value is not a list or an element is not text.
    """
    elements = elements_of(value, field)
    if elements is None:
        return None
    if set(map(type, elements)) == {str} and _MISSING_TEXTS.isdisjoint(elements):  # at once: lists of ids are long
        stripped = filter(None, map(str.strip, elements))
        return tuple(stripped if field in _ID_FIELDS else filter(str.strip, elements))
    if elements and all(is_list(element) for element in elements):
        elements = [inner for element in elements for inner in element]  # [["d1", "d2"]]
    read = [text_of(element, field) for element in elements]
    return tuple([text for text in read if text and not text.isspace()])


Label = Union[float, None]

_LABEL_WORDS = {
    **dict.fromkeys(("true", "yes", "pass", "good", "supported", "correct", "entailed", "faithful", "related"), 1.0),
    **dict.fromkeys(("fully supported", "grounded", "relevant", "да", "верно", "хорошо", "подтверждено"), 1.0),
    **dict.fromkeys(("false", "no", "fail", "bad", "unsupported", "incorrect", "hallucinated", "not supported"), 0.0),
    **dict.fromkeys(
        ("contradicted", "neutral", "unfaithful", "unrelated", "wrong", "not faithful", "not correct"), 0.0
    ),
    **dict.fromkeys(("not grounded", "ungrounded", "irrelevant", "нет", "неверно", "плохо", "не подтверждено"), 0.0),
    **dict.fromkeys(("partially supported", "partly supported", "partially faithful", "partially correct"), 0.5),
    **dict.fromkeys(("partial", "partially", "partly", "mixed", "частично", "частично подтверждено"), 0.5),
}
_BLANKS = re.compile(r"[\s_\-]+")


def word_of(text: str) -> str:
    """A label's word in lower case, with single spaces."""
    return _BLANKS.sub(" ", text.strip().lower())


def as_number(value: Any) -> Label:
    """A label as a number; ``None`` if it is missing; ``InvalidDataError`` for an unknown word."""
    if is_missing(value):
        return None
    if isinstance(value, str):
        word = word_of(value)
        if not word:
            return None
        if word in _LABEL_WORDS:
            return _LABEL_WORDS[word]
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        message = f"label {shown(value)} is neither a number nor a word such as true, yes, supported, unsupported"
        raise InvalidDataError(message) from None
    return number if math.isfinite(number) else None
