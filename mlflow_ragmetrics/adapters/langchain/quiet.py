"""Judges whose model calls leave no traces and reach nobody else's callbacks."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from mlflow_ragmetrics.core.judge import Embedding, Judge
from mlflow_ragmetrics.judges.isolation import untraced
from mlflow_ragmetrics.suite import Suite

__all__ = ["quietened"]


def quietened(suite: Suite) -> Suite:
    """The suite with judges and embeddings whose calls are not traced; everything else is shared."""
    quiet = copy.copy(suite)
    quiet.judges = [_QuietJudge(judge) for judge in suite.judges]
    quiet.embeddings = [_QuietEmbedding(embedding) for embedding in suite.embeddings]
    return quiet


class _QuietJudge:
    """A judge that answers without being traced; it has every attribute of the other."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)

    @property
    def name(self) -> str:
        return self._judge.name

    def answer(self, questions: Sequence[Any]) -> Sequence[Any]:
        with untraced():
            return self._judge.answer(questions)


class _QuietEmbedding:
    """An embedding model that embeds without being traced."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedding, name)

    @property
    def name(self) -> str:
        return self._embedding.name

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        with untraced():
            return self._embedding.embed(texts)
