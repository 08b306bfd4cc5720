"""The names that other libraries use for the fields of a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlflow_ragmetrics.core.score import FIELDS

RECORD_FIELDS = ("id", *FIELDS)
"""The canonical names, for records and column mappings."""


ALIASES: Mapping[str, Sequence[str]] = {
    "id": ["qid", "question_id", "query_id", "request_id", "respondent_id"],
    "question": ["input", "inputs", "query", "prompt", "user_input", "userInput", "request", "guide_question"],
    "answer": [
        "output",
        "outputs",
        "response",
        "prediction",
        "predictions",
        "actual_output",
        "actualOutput",
        "result",
        "answer_rag",
    ],
    "reference": [
        "groundTruth",
        "ground_truth",
        "expectedOutput",
        "expected",
        "expected_output",
        "expected_response",
        "target",
        "targets",
        "answer_ref",
        "reference_outputs",
        "ideal",
    ],
    "contexts": [
        "context",
        "contextsList",
        "retrieved_context",
        "retrieved_contexts",
        "retrieval_context",
        "retrievalContext",
        "documents",
        "source_documents",
    ],
    "retrieved_doc_ids": ["doc_ids", "retrieved_context_ids", "retrieved_ids"],
    "gold_doc_ids": ["document_ids", "gold_docs", "reference_context_ids"],
    "history": (),
}
"""Canonical field -> aliases, in search order. The canonical name takes precedence."""

ALIASES_BY_NATURE: Mapping[str, Sequence[str]] = {
    "contexts": [
        "passages",
        "docs",
        "chunks",
        "sources",
        "retrieved_docs",
        "retrieved_documents",
        "context_documents",
        "document.content",
    ],
    "history": ["conversation", "chat_history"],
}
"""Ambiguous aliases: ``sources`` may be URLs, ``conversation`` may be an id. They are used only if the values are texts
or messages and no other name of the field has a value."""
