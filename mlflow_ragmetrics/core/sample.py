"""The one row that every metric sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

FIELDS = ("question", "answer", "reference", "contexts", "retrieved_doc_ids", "gold_doc_ids", "history")


@dataclass(frozen=True)
class Chunk:
    """A retrieved passage: its text, and its id and metadata where the retriever gave them."""

    text: str
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """One turn of a conversation: who spoke (``"user"``, ``"assistant"``, ``"system"``, …), and the text."""

    role: str
    content: str


@dataclass(frozen=True)
class Sample:
    """One question with what a chain answered and what is known about the right answer.

    ``None`` is a missing field, ``""`` a blank one. ``id`` names the row in tables and comparisons. ``answer`` is the
    chain's answer to ``question``, ``references`` are the accepted answers, usually one, ``contexts`` the retrieved
    passages. ``retrieved_doc_ids`` are in rank order, ``gold_doc_ids`` those of the relevant documents. ``history``
    holds the turns before the question, ``metadata`` all other columns. ``invalid`` maps a field that could not be
    read to the sentence that says why: only metrics which need that field fail.
    """

    id: str = ""
    question: str | None = None
    answer: str | None = None
    references: tuple[str, ...] | None = None
    contexts: tuple[Chunk, ...] | None = None
    retrieved_doc_ids: tuple[str, ...] | None = None
    gold_doc_ids: tuple[str, ...] | None = None
    history: tuple[Message, ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    invalid: Mapping[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str | None:
        """The first accepted answer, or ``None``."""
        return self.references[0] if self.references else None

    @cached_property
    def texts(self) -> tuple[str, ...] | None:
        """The texts of ``contexts`` in rank order, or ``None`` where no context field was given."""
        return None if self.contexts is None else tuple(chunk.text for chunk in self.contexts)

    @cached_property
    def context_ids(self) -> tuple[str, ...] | None:
        """The ids of ``contexts`` in rank order, ``""`` for one without; ``None`` where none has an id.

        Where no context has one, ``retrieved_doc_ids`` are theirs if there are as many.
        """
        ids = tuple(chunk.id or "" for chunk in self.contexts or ())
        if any(ids):
            return ids
        given = self.retrieved_doc_ids
        return given if given and len(given) == len(ids) else None

    @property
    def contexts_assumed(self) -> str | None:
        """Why all that was retrieved stands for what the model saw, where the metadata says so: ``"no_model_call"`` was
        observed, or ``"no_call_matches"`` the answer.
        """
        why = self.metadata.get("contexts_assumed") if self.metadata else None
        return why if isinstance(why, str) and why in _ASSUMPTIONS else None


_ASSUMPTIONS = ("no_model_call", "no_call_matches")
