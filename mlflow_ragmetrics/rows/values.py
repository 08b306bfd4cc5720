"""Converts values from files, frames and traces to text, lists, chunks and labels."""

from __future__ import annotations

import ast
import io
import json
import math
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Union
from uuid import UUID

from mlflow_ragmetrics.core.options import kind_of, shown
from mlflow_ragmetrics.core.score import Chunk
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError
from mlflow_ragmetrics.text.sentences import words

_MISSING_KINDS = frozenset({"NAType", "NaTType"})
_MISSING_TEXTS = frozenset({"nan", "NaN", "<NA>", "NaT"})
"""Texts that tables use for a missing value."""
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


def decoded(value: Any) -> Any:
    """Parse a text that holds JSON or a Python mapping or list; convert an array to a list.

    Anything else is returned unchanged.
    """
    if not isinstance(value, str):
        return value.tolist() if callable(getattr(value, "tolist", None)) else value
    if value != "null" and value.lstrip()[:1] not in ('"', "{", "["):
        return value
    for parse in (json.loads, _literal):
        try:
            return parse(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
    return value


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


def elements_of(value: object, field: str) -> Sequence[Any] | None:
    """``value`` as a list of raw elements; ``None`` if it is missing.

    Accepted are a list, tuple, NumPy array or Series, and a string that holds a JSON list, a Python list literal or a
    printed NumPy array. Any other string is one element; a blank string is an empty list.

    Raises:
        InvalidFieldError: for anything else (a bare number, ``bool``, ``bytes``, a mapping).
    """
    if isinstance(value, (list, tuple)):
        return value
    if is_missing(value):
        return None
    if isinstance(value, str):
        parsed = decoded(value) if value.strip()[:1] == "[" else value
        return parsed if isinstance(parsed, list) else (value,) if value.strip() else ()
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
    texts = (text_of(element, field) for element in elements)
    return tuple(text for text in texts if text and not text.isspace())


class _Printed(ast.NodeTransformer):
    """Replaces values printed by pandas and NumPy with plain ones: ``nan``, ``array([…])``, ``np.int64(1)``."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(None) if node.id == "nan" else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        is_numpy = ast.unparse(node.func).startswith(("array", "np."))
        return self.visit(node.args[0]) if is_numpy and node.args else node


def _literal(text: str) -> object:
    """A Python list or mapping; adjacent strings are separate elements, as NumPy prints them."""
    stripped = text.strip()
    if (stripped[:1], stripped[-1:]) not in (("[", "]"), ("{", "}")):
        raise ValueError("neither a list nor a mapping")
    parsed = ast.literal_eval(_Printed().visit(ast.parse(stripped, mode="eval")))
    if not isinstance(parsed, list) or not all(isinstance(each, str) for each in parsed):
        return parsed
    if "," in text and len(parsed) > 1:
        return parsed
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    strings = [token.string for token in tokens if token.type == tokenize.STRING]
    return [ast.literal_eval(string) for string in strings] if len(strings) > 1 else parsed


_TEXT_KEYS = ("text", "page_content", "content", "document.content")
_ID_KEYS = ("doc_id", "doc_uri", "document.id", "source")  # searched after "id"
_LABEL = re.compile(r"\bchunk[ \t]*\d+[ \t]*:", re.IGNORECASE)
_LINE_LABEL = re.compile(r"^[ \t>]*chunk[ \t]*\d+[ \t]*:", re.IGNORECASE | re.MULTILINE)
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*:/|www\.)\S+", re.IGNORECASE)
_FILE = re.compile(r"[^\n]{1,250}\.(?:pdf|docx?|html?|txt|md|csv|json|xlsx?|pptx?)", re.IGNORECASE)


def chunks_of(value: object) -> tuple[Chunk, ...] | None:
    """``value`` as chunks in rank order without blank ones; ``None`` if it is missing.

    A chunk is a string, a mapping with ``text``, ``page_content`` or ``content``, or an object with ``page_content``
    (LangChain ``Document``). A string with ``chunk N:`` labels is split at the labels.

    Raises:
        InvalidFieldError: if the value is not a list or an element is not a chunk.
    """
    elements = elements_of(value, "contexts")
    if elements is None:
        return None
    if isinstance(value, str) and len(elements) == 1 and elements[0] is value:
        elements = _labelled(value)
    return tuple(chunk for element in elements if (chunk := _chunk_of(element)) is not None)


def distinct(chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
    """The chunks without duplicates, each at its first rank. Chunks with different ids are not duplicates."""
    first: dict[tuple[str | None, str], Chunk] = {}
    for chunk in chunks:
        first.setdefault((chunk.id, chunk.text), chunk)
    return tuple(first.values())


def are_texts(value: object) -> bool:
    """Whether ``value`` is a text or a list of texts or documents, not of URLs, file names, ids or numbers.

    >>> are_texts(["It rained all day."]), are_texts(["https://example.org/a", "doc-7"])
    (True, False)
    """
    try:
        elements = elements_of(value, "contexts")
    except InvalidFieldError:
        return False
    if elements is None:
        return False
    strings = []
    for element in elements:
        if isinstance(element, Mapping):
            if not any(isinstance(element.get(key), str) for key in _TEXT_KEYS):
                return False
        elif isinstance(element, str):
            strings.append(element.strip())
        elif not (isinstance(element, Chunk) or hasattr(element, "page_content") or is_missing(element)):
            return False
    if any(_URL.fullmatch(string) or _FILE.fullmatch(string) for string in strings):
        return False
    return not any(strings) or any(map(_is_prose, strings))


def _is_prose(text: str) -> bool:
    """Whether it has two words with letters, unlike an id. A Han or Kana character is a word."""
    return sum(any(map(str.isalpha, word)) for word in words(text[:1000])) > 1


def document_ids_of(chunks: Iterable[Chunk], *, prefer_uri: bool = False) -> tuple[str, ...]:
    """The ids of ``chunks`` in rank order; chunks without an id are left out.

    ``prefer_uri`` prefers ``metadata["doc_uri"]`` to the id, for gold ids that are URIs.
    """
    uris = ((chunk.metadata.get("doc_uri") if prefer_uri else None, chunk.id) for chunk in chunks)
    ids = (uri if isinstance(uri, str) and uri else chunk_id for uri, chunk_id in uris)
    return tuple(each for each in ids if each)


def _labelled(text: str) -> list[str]:
    """``text`` split at its labels; text before the first label is a passage too. Without labels: ``[text]``."""
    labels = list(_LINE_LABEL.finditer(text))
    if len(labels) < 2 and _LABEL.match(text.lstrip()):
        labels = list(_LABEL.finditer(text))
    if not labels:
        return [text]
    ends = [*(label.start() for label in labels[1:]), len(text)]
    passages = [text[label.end() : end].strip() for label, end in zip(labels, ends, strict=True)]
    return [text[: labels[0].start()].strip(), *passages]


def _chunk_of(element: Any) -> Chunk | None:
    if isinstance(element, Chunk):
        return element if element.text.strip() else None
    if hasattr(element, "page_content"):
        metadata = getattr(element, "metadata", None)
        given = {"page_content": element.page_content, "id": getattr(element, "id", None), "metadata": metadata}
        element = {name: value for name, value in given.items() if value is not None}
    if isinstance(element, Mapping):
        return _chunk_of_mapping(element)
    text = text_of(element, "contexts")
    return Chunk(text) if text and not text.isspace() else None


def _chunk_of_mapping(element: Mapping[Any, Any]) -> Chunk | None:
    key = next((key for key in _TEXT_KEYS if key in element), None)
    if key is None:
        names = ", ".join(f"`{name}`" for name in list(element)[:5]) or "none"
        message = f"`contexts` has a chunk without `text`, `page_content` or `content` (its keys: {names})."
        raise InvalidFieldError(message, field="contexts")
    if isinstance(element[key], Mapping) or hasattr(element[key], "page_content"):
        raise InvalidFieldError(f"`contexts` has a chunk whose text is {kind_of(element[key])}.", field="contexts")
    text = text_of(element[key], "contexts")
    if not text or text.isspace():
        return None
    nested = element.get("metadata")
    metadata = dict(nested) if isinstance(nested, Mapping) else {}
    extra = {str(name): each for name, each in element.items() if name not in (key, "metadata", "id")}
    return Chunk(text, _id_in(element, metadata), {**metadata, **extra})


def _id_in(element: Mapping[Any, Any], metadata: Mapping[Any, Any]) -> str | None:
    for mapping, keys in ((element, ("id",)), (metadata, ("id",)), (element, _ID_KEYS), (metadata, _ID_KEYS)):
        for key in keys:
            value = mapping.get(key)
            if type(value) is not bool and isinstance(value, (str, Real, UUID)) and (text := text_of(value, "id")):
                return text
    return None


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
