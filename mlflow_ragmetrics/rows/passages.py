"""Converts values to retrieved passages: texts, documents of LangChain and LlamaIndex, and hits of vector stores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any
from uuid import UUID

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.score import Chunk
from mlflow_ragmetrics.errors import InvalidFieldError
from mlflow_ragmetrics.rows.aliases import PASSAGE_TEXT
from mlflow_ragmetrics.rows.values import cell, decoded, elements_of, is_list, is_missing, text_of
from mlflow_ragmetrics.text.words import words

TEXT_KEYS = ("text", "page_content", "content", "document.content")
_OTHER_TEXT_NAMES = (
    *("contents", "passage_text", "passage", "chunk_text", "chunk", "snippet"),
    *("body", "paragraph_text", "sentences"),
)
_TEXT_LISTS = {"documents": "text", "texts": "text"}
_ID_LISTS = {"ids": "id", "metadatas": "metadata"}
_HOLDERS = ("node", "document", "payload", "_source", "entity", "properties", "kwargs", "metadata")
"""Entries in which LlamaIndex and the clients of vector stores keep a passage."""
_ID_KEYS = ("doc_id", "doc_uri", "document.id", "id_", "_id", "source")  # searched after "id"
_DEEPEST = 4
_LABEL = re.compile(r"\bchunk[ \t]*\d+[ \t]*:", re.IGNORECASE)
_LINE_LABEL = re.compile(r"^[ \t>]*chunk[ \t]*\d+[ \t]*:", re.IGNORECASE | re.MULTILINE)
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*:/|www\.)[^\s,;]+(?: ?[,;(][^\n]{,150})?", re.IGNORECASE)
_PLACE = re.compile(
    r"[^\n.!?]{1,150}(?:\bp{1,2}\.|[ (](?:§|page|section|chapter|стр\.|раздел|seite)) ?\d[\d.,–-]*\)?", re.IGNORECASE
)
"""A title with a page or section."""
_ID = re.compile(r"(?=[^\d/]*[\d/])[!-~]+")
"""An id with a digit, or a path."""
_FILE = re.compile(r"[^\n]{1,250}\.(?:pdf|docx?|html?|txt|md|csv|json|xlsx?|pptx?)", re.IGNORECASE)


def chunks_of(value: object) -> tuple[Chunk, ...] | None:
    """``value`` as chunks in rank order without blank ones; ``None`` if it is missing.

    A chunk is a string, a mapping with ``text``, ``page_content`` or ``content``, or an object with ``page_content``
    (LangChain ``Document``). A string with ``chunk N:`` labels is split at the labels.

    Raises:
        InvalidFieldError: if the value is not a list or an element is not a chunk.
    """
    elements = _elements(value)
    if elements is None:
        return None
    if isinstance(value, str) and len(elements) == 1 and elements[0] is value:
        elements = _labelled(value)
    chunks = (_chunk_of(element, place) for place, element in enumerate(elements, start=1))
    return tuple(chunk for chunk in chunks if chunk is not None)


def _elements(value: Any) -> Sequence[Any] | None:
    """``elements_of``; a mapping or document is one element, a mapping of equally long lists one per position."""
    value = cell(value, "contexts") if isinstance(value, str) else value
    if isinstance(value, Mapping):
        rows: list[Any] = passages_of_columns(value)
        value = rows or (text_entry(value)[0] is None and hits_in(value)) or [value]
    if isinstance(value, Chunk) or hasattr(value, "page_content"):
        return [value]
    listed = elements_of(value, "contexts")
    if not any(isinstance(entry, dict) for entry in listed or ()):
        return listed
    return [passage for entry in listed or () for passage in (_passages_by_id(entry) or [entry])]


def _passages_by_id(element: Any) -> list[dict[str, Any]]:
    """The passages of a mapping from ids, files or URLs to one or several texts; else ``[]``."""
    entries = element.items() if isinstance(element, Mapping) else ()
    if not all(isinstance(key, str) and is_pointer(key) for key, _ in entries):
        return []
    lists = [(key, texts if is_list(texts) else [texts]) for key, texts in entries]
    passages = [{"id": key, "text": text} for key, texts in lists for text in texts]
    return passages if all(isinstance(passage["text"], str) for passage in passages) else []


def passages_of_columns(columns: Mapping[Any, Any]) -> list[dict[Any, Any]]:
    """The passages of a mapping of equally long lists, as Hugging Face, Chroma and TriviaQA store them; else ``[]``."""
    texts = next((name for name in (*_TEXT_LISTS, *TEXT_KEYS, *_OTHER_TEXT_NAMES) if is_list(columns.get(name))), None)
    if texts is None or any(isinstance(value, str) for value in columns.values()):
        return []
    lists = {name: values for name, values in columns.items() if is_list(values)}
    if texts in _TEXT_LISTS and len(lists[texts]) == 1 and is_list(lists[texts][0]):  # Chroma: one list per query
        lists = {name: values[0] for name, values in lists.items() if len(values) == 1 and is_list(values[0])}
    lists = {name: values for name, values in lists.items() if len(values) == len(lists[texts])}
    names = [_TEXT_LISTS.get(name, _ID_LISTS.get(name, name)) for name in lists]
    return [dict(zip(names, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def hits_in(outputs: Any, depth: int = 1) -> list[Any]:
    """The first list of mappings with a text in a vector store's reply; ``[]`` if there is none."""
    if is_list(outputs) and outputs and all(isinstance(hit, Mapping) for hit in outputs):
        return list(outputs) if all(text_entry(hit)[0] for hit in outputs) else []
    inner = outputs.values() if isinstance(outputs, Mapping) else outputs if is_list(outputs) else ()
    return next((hits for value in inner if depth < _DEEPEST and (hits := hits_in(value, depth + 1))), [])


def with_text(value: Any, name: str) -> Any:
    """``value`` with ``text`` in each mapping inside it that has the entry ``name``."""
    value = decoded(value)
    if isinstance(value, Mapping):
        inner = {key: with_text(entry, name) for key, entry in value.items()}
        return {**inner, "text": inner[name]} if name in inner else inner
    return [with_text(entry, name) for entry in value] if is_list(value) else value


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
            if text_entry(element)[0] is None and not _passages_by_id(element):
                return False
        elif isinstance(element, str):
            strings.append(element.strip())
        elif not (isinstance(element, Chunk) or hasattr(element, "page_content") or is_missing(element)):
            return False
    if any(map(names_source, strings)):
        return False
    # prose has two words with letters, unlike an id; a Han or Kana character is a word
    counts = (sum(any(map(str.isalpha, word)) for word in words(string[:1000])) for string in strings)
    return not any(strings) or any(count > 1 for count in counts)


def names_source(text: str) -> bool:
    """Whether ``text`` is a URL or file, or a title with a page or section."""
    return any(form.fullmatch(text) for form in (_URL, _FILE, _PLACE))


def is_pointer(text: str) -> bool:
    """Whether ``text`` is an id with a digit, or names a source."""
    return _ID.fullmatch(text) is not None or names_source(text)


def document_ids_of(chunks: Iterable[Chunk], *, prefer_uri: bool = False) -> tuple[str, ...]:
    """The ids of ``chunks`` in rank order; chunks without an id are left out.

    ``prefer_uri`` prefers ``metadata["doc_uri"]`` to the id, for gold ids that are URIs.
    """
    pairs = ((chunk.metadata.get("doc_uri") if prefer_uri else None, chunk.id) for chunk in chunks)
    ids = (uri if isinstance(uri, str) and uri else chunk_id for uri, chunk_id in pairs)
    return tuple(filter(None, ids))


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


def _chunk_of(element: Any, place: int) -> Chunk | None:
    if isinstance(element, str):
        return None if is_missing(element) or not element or element.isspace() else Chunk(element)
    if isinstance(element, Chunk):
        return element if element.text.strip() else None
    element = as_mapping(element)
    if isinstance(element, Mapping):
        return _chunk_of_mapping(element, place)
    if is_list(element):
        message = f"passage {place} of `contexts` is {kind_of(element)}, but must be a text or a mapping with its text."
        raise InvalidFieldError(message, field="contexts")
    text = text_of(element, "contexts")
    return Chunk(text) if text and not text.isspace() else None


def as_mapping(element: Any) -> Any:
    """A document, a document or text with its score, or a title with its sentences as a mapping; others unchanged."""
    if hasattr(element, "page_content"):
        names = ("page_content", "id", "metadata")
        return {name: value for name in names if (value := getattr(element, name, None)) is not None}
    node = getattr(element, "node", element)
    if callable(getattr(node, "get_content", None)):  # LlamaIndex
        return {"text": node.get_content(), "id": node.node_id, "metadata": node.metadata}
    if not is_list(element) or len(element) != 2:
        return element
    first, second = as_mapping(element[0]), element[1]
    if isinstance(first, (str, Mapping)) and isinstance(second, (Real, type(None))):
        return {**(first if isinstance(first, Mapping) else {"text": first}), "score": second}
    if isinstance(first, str) and is_list(second) and second and all(isinstance(text, str) for text in second):
        return {"title": first, "sentences": second}  # HotpotQA
    return element


def text_entry(element: Mapping[Any, Any]) -> tuple[str | None, Mapping[Any, Any]]:
    """The name of a passage's text, and the mapping that holds it, with the entries around it.

    The name is a usual one, also inside the entries in which vector stores keep a passage, else that of the only entry
    that is prose, else ``None``.
    """
    known = next((key for key in (*TEXT_KEYS, *_OTHER_TEXT_NAMES) if not is_missing(element.get(key))), None)
    if known is not None:
        return known, element
    holder = next((name for name in _HOLDERS if isinstance(element.get(name), Mapping)), None)
    if holder is not None:
        key, inner = text_entry(element[holder])
        if key is not None:
            return key, {**inner, **{name: value for name, value in element.items() if name != holder}}
    prose = [key for key, value in element.items() if isinstance(value, str) and are_texts(value)]
    return prose[0] if len(prose) == 1 else next((key for key in TEXT_KEYS if key in element), None), element


def _chunk_of_mapping(element: Mapping[Any, Any], place: int) -> Chunk | None:
    key, element = text_entry(element)
    if key is None:
        held = next((element[name] for name in _HOLDERS if isinstance(element.get(name), Mapping)), element)
        names = ", ".join(f"`{name}`" for name in list(held)[:5]) or "none"
        name = next((name for name, entry in reversed([*held.items()]) if isinstance(entry, str)), "NAME")
        ways = f"columns={{'{PASSAGE_TEXT}': {name!r}}} or --columns {PASSAGE_TEXT}={name}"
        message = (
            f"passage {place} of `contexts` has no text under `text`, `page_content` or `content` (its keys: {names}); "
            f"if it is `{name}`, use {ways}."
        )
        raise InvalidFieldError(message, field="contexts")
    text = text_of(_joined_text(element[key]), "contexts")
    if not text or text.isspace():
        return None
    metadata = element["metadata"] if isinstance(element.get("metadata"), Mapping) else {}
    extra = {str(name): value for name, value in element.items() if name not in (key, "metadata", "id")}
    return Chunk(text, _id_in(element, metadata), {**metadata, **extra})


def _joined_text(value: Any) -> Any:
    """The sentences, text blocks or text mapping of a passage as one text; anything else unchanged."""
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return value["text"]
    if not is_list(value) or not value:
        return value
    texts = list(map(_joined_text, value))
    if not all(isinstance(text, str) for text in texts):
        return value
    return " ".join(map(str.strip, texts)) if isinstance(value[0], str) else "".join(texts)


def _id_in(element: Mapping[Any, Any], metadata: Mapping[Any, Any]) -> str | None:
    for mapping, keys in ((element, ("id",)), (metadata, ("id",)), (element, _ID_KEYS), (metadata, _ID_KEYS)):
        for key in keys:
            value = mapping.get(key)
            if type(value) is not bool and isinstance(value, (str, Real, UUID)) and (text := text_of(value, "id")):
                return text
    return None
