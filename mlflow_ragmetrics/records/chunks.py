"""Retrieved passages in the shapes of different libraries -> chunks with text, id and metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any
from uuid import UUID

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.sample import Chunk
from mlflow_ragmetrics.errors import InvalidFieldError
from mlflow_ragmetrics.records.values import elements_of, is_missing, text_of

__all__ = ["chunks_of", "document_ids_of"]

_TEXT_KEYS = ("text", "page_content", "content")
_ID_KEYS = ("doc_id", "doc_uri", "source")  # looked for after "id"
_LABEL = re.compile(r"\bchunk[ \t]*\d+[ \t]*:", re.IGNORECASE)
_LINE_LABEL = re.compile(r"^[ \t>]*chunk[ \t]*\d+[ \t]*:", re.IGNORECASE | re.MULTILINE)


def chunks_of(value: object, field: str = "contexts") -> tuple[Chunk, ...] | None:
    """``value`` as chunks in rank order, blank ones dropped; ``None`` where it is missing.

    A chunk is a string, a mapping with ``text``, ``page_content`` or ``content``, or an object with ``page_content``
    (LangChain ``Document``). A string with ``chunk N:`` labels is split at them.

    Raises:
        InvalidFieldError: where the value is not a list, or an element is not a chunk.
    """
    elements = elements_of(value, field)
    if elements is None:
        return None
    if isinstance(value, str) and len(elements) == 1 and elements[0] is value:
        elements = _labelled(value)
    chunks = (_chunk_of(element, field) for element in elements)
    return tuple(chunk for chunk in chunks if chunk is not None)


def document_ids_of(chunks: Iterable[Chunk], *, prefer_uri: bool = False) -> tuple[str, ...]:
    """The ids of those ``chunks`` that have one, in rank order.

    ``prefer_uri`` takes ``metadata["doc_uri"]`` before the id: gold ids that are URIs can only match URIs.
    """
    uris = ((chunk.metadata.get("doc_uri") if prefer_uri else None, chunk.id) for chunk in chunks)
    ids = (uri if isinstance(uri, str) and uri else chunk_id for uri, chunk_id in uris)
    return tuple(each for each in ids if each)


def _labelled(text: str) -> list[str]:
    """The passages after the labels; text before the first label is a passage too. Without labels: ``[text]``."""
    labels = list(_LINE_LABEL.finditer(text))
    if len(labels) < 2 and _LABEL.match(text.lstrip()):
        labels = list(_LABEL.finditer(text))
    if not labels:
        return [text]
    ends = [*(label.start() for label in labels[1:]), len(text)]
    passages = [text[label.end() : end].strip() for label, end in zip(labels, ends, strict=True)]
    return [text[: labels[0].start()].strip(), *passages]


def _chunk_of(element: Any, field: str) -> Chunk | None:
    if isinstance(element, Chunk):
        return element if element.text.strip() else None
    if isinstance(element, Mapping):
        return _chunk_of_mapping(element, field)
    if hasattr(element, "page_content"):
        return _chunk_of_document(element, field)
    text = text_of(element, field)
    return Chunk(text) if text and not text.isspace() else None


def _chunk_of_mapping(element: Mapping[Any, Any], field: str) -> Chunk | None:
    key = next((key for key in _TEXT_KEYS if key in element), None)
    if key is None:
        names = ", ".join(f"`{name}`" for name in list(element)[:5]) or "none"
        message = f"`{field}` has a chunk without `text`, `page_content` or `content` (its keys: {names})."
        raise InvalidFieldError(message, field=field)
    nested = element.get("metadata")
    metadata = dict(nested) if isinstance(nested, Mapping) else {}
    extra = {str(name): each for name, each in element.items() if name not in (key, "metadata")}
    return _chunk(element[key], _id_in(element, metadata), {**metadata, **extra}, field)


def _chunk_of_document(element: Any, field: str) -> Chunk | None:
    nested = getattr(element, "metadata", None)
    metadata = dict(nested) if isinstance(nested, Mapping) else {}
    return _chunk(element.page_content, _id_in({"id": getattr(element, "id", None)}, metadata), metadata, field)


def _chunk(value: object, chunk_id: str | None, metadata: Mapping[str, Any], field: str) -> Chunk | None:
    if isinstance(value, Mapping) or hasattr(value, "page_content"):
        raise InvalidFieldError(f"`{field}` has a chunk whose text is {kind_of(value)}.", field=field)
    text = text_of(value, field)
    return Chunk(text, chunk_id, metadata) if text and not text.isspace() else None


def _id_in(element: Mapping[Any, Any], metadata: Mapping[Any, Any]) -> str | None:
    for mapping, keys in ((element, ("id",)), (metadata, ("id",)), (element, _ID_KEYS), (metadata, _ID_KEYS)):
        for key in keys:
            value = mapping.get(key)
            if type(value) is not bool and isinstance(value, (str, Real, UUID)) and not is_missing(value):
                text = (text_of(value, "contexts") or "").strip()
                if text:
                    return text
    return None
