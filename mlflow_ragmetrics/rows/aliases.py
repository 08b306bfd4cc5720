"""The names that other libraries use for the fields of a sample."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from mlflow_ragmetrics.core.score import FIELDS
from mlflow_ragmetrics.errors import InvalidDataError

RECORD_FIELDS = ("id", *FIELDS)
"""The canonical names, for records and column mappings."""
PASSAGE_TEXT = "contexts.text"
"""The entry of a column mapping that names the entry of each passage with its text."""


ALIASES: Mapping[str, Sequence[str]] = {
    "id": ["qid", "question_id", "query_id", "request_id", "respondent_id"],
    "question": ["input", "inputs", "query", "prompt", "user_input", "userInput", "request", "guide_question"],
    "answer": [
        *("output", "outputs", "response", "prediction", "predictions"),
        *("actual_output", "actualOutput", "result", "answer_rag", "completion"),
    ],
    "reference": [
        *("groundTruth", "ground_truth", "expectedOutput", "expected", "expected_output", "expected_response"),
        *("target", "targets", "answer_ref", "reference_outputs", "ideal"),
    ],
    "contexts": [
        *("context", "contextsList", "retrieved_context", "retrieved_contexts"),
        *("retrieval_context", "retrievalContext", "documents", "source_documents"),
    ],
    "retrieved_doc_ids": ["doc_ids", "retrieved_context_ids", "retrieved_ids"],
    "gold_doc_ids": ["document_ids", "gold_docs", "reference_context_ids"],
    "history": (),
}
"""Canonical field -> aliases, in search order. The canonical name takes precedence."""

_MODELS = ("generated", "predicted", "model", "llm", "rag", "ai", "bot", "chatbot", "assistant", "agent", "final")
_EXPERTS = ("ground_truth", "gt", "gold", "golden", "correct", "expected", "reference", "ideal", "true", "target")
_FOUND = ("retrieved", "retrieval", "context", "search", "top", "similar", "relevant_context")


def _combined(kinds: Iterable[str], nouns: Iterable[str], *others: str) -> list[str]:
    """``others``, and each kind with each noun in the singular and the plural, except names in ``ALIASES``."""
    known = {name for field, names in ALIASES.items() for name in (field, *names)}
    combined = (f"{kind}_{noun}{end}" for kind in kinds for noun in nouns for end in ("", "s"))
    return [name for name in dict.fromkeys((*others, *combined)) if name not in known]


_TEXTS = ("answer", "response", "output")
_IDS = ("doc_id", "document_id", "chunk_id", "passage_id")

ALIASES_BY_NATURE: Mapping[str, Sequence[str]] = {
    "question": _combined(("user", "test"), ("question", "query", "prompt"), "questions", "question_text"),
    "answer": _combined(_MODELS, (*_TEXTS, "text"), "answers", "pred", "predicted", "generated", "generation", "reply"),
    "reference": _combined((*_EXPERTS, "human", "best"), _TEXTS, "ground_truths", "expected_result", "generation_gt"),
    "contexts": _combined(
        _FOUND,
        ("chunk", "passage", "text", "content", "result", "doc", "document", "context", "node"),
        *("passages", "passage", "document", "docs", "chunks", "sources", "document.content"),
        *("ctxs", "context_list", "context_str", "source_nodes", "source_text", "source_chunks"),
    ),
    "retrieved_doc_ids": _combined(("retrieved",), _IDS),
    "gold_doc_ids": _combined(
        ("gold", "relevant", "expected", "ground_truth"), _IDS, "gold_ids", "relevant_ids", "retrieval_gt"
    ),
    "history": ["conversation", "chat_history"],
}
"""Ambiguous aliases: ``sources`` may be URLs, ``conversation`` may be an id. They are used only if the values are texts
or messages and no other name of the field has a value."""

FIELD_BY_NATURE: Mapping[str, str] = {name: field for field, names in ALIASES_BY_NATURE.items() for name in names}
"""Ambiguous alias -> canonical field."""

FIELD_OF: Mapping[str, str] = {name: field for field in RECORD_FIELDS for name in (field, *ALIASES[field])}
"""Canonical name or alias -> canonical field."""

RECORD_NAMES = (*FIELD_OF, *FIELD_BY_NATURE)
"""All accepted names of fields."""

MLFLOW_COLUMNS = ("inputs", "outputs", "expectations")
"""The columns of an MLflow evaluation row. Each holds a mapping."""

QUESTION_IDS = ("question_id", "query_id", "qid")
"""Aliases of ``id`` that several rows may share; the shared value is their group."""

_IGNORED = re.compile(r"[\s_\-\ufeff]+")
_ASIDE = re.compile(r"\([^()]*\)\s*\Z")


def folded(name: str) -> str:
    """``name`` without case, blanks, ``_``, ``-`` and byte order mark."""
    return _IGNORED.sub("", name).casefold()


_ACCEPTED = {folded(name): name for name in (*reversed(RECORD_NAMES), *MLFLOW_COLUMNS, "messages", "metadata")}


@lru_cache(maxsize=4096)
def accepted_name(name: Any) -> str | None:
    """The accepted name that differs from ``name`` at most in case, blanks, ``_``, ``-`` and words in brackets at the
    end; ``None`` if none does.

    >>> accepted_name("User Input"), accepted_name("Answer (final)"), accepted_name("Comment")
    ('user_input', 'answer', None)
    """
    if not isinstance(name, str):
        return None
    return name if name in FIELD_OF else _ACCEPTED.get(folded(name), _ACCEPTED.get(folded(_ASIDE.sub("", name))))


def with_accepted_names(row: Mapping[Any, Any], kept: Iterable[Any] = ()) -> Mapping[Any, Any]:
    """``row`` with the accepted spelling of its names, except those in ``kept``. A field's exact names take precedence.

    >>> with_accepted_names({"Answer": "It rains.", "Answer (old)": "It snows."})
    {'answer': 'It rains.', 'Answer (old)': 'It snows.'}

    Raises:
        InvalidDataError: if two names differ only in case, blanks, ``_`` and ``-``.
    """
    renamed = _respelled(tuple(row), tuple(kept))
    return {renamed.get(name, name): value for name, value in row.items()} if renamed else row


@lru_cache(maxsize=64)
def _respelled(names: tuple[Any, ...], kept: tuple[Any, ...]) -> Mapping[Any, str]:
    renamed = {name: accepted for name in names if (accepted := accepted_name(name)) not in (None, name)}
    exact = {FIELD_OF.get(name, name) for name in names}
    for name, accepted in [*renamed.items()]:
        if name in kept or FIELD_OF.get(accepted, accepted) in exact:
            del renamed[name]
    repeated = [name for name, accepted in renamed.items() if [*renamed.values()].count(accepted) > 1]
    if len({*map(folded, repeated)}) < len(repeated):
        columns = " and ".join(map(repr, repeated))
        raise InvalidDataError(f"The columns {columns} differ only in spelling; rename one of them.")
    # beside "Answer", "Answer (old)" is another column
    return {name: column for name, column in renamed.items() if name not in repeated or folded(name) in _ACCEPTED}
