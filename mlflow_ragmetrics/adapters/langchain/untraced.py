"""Runs a suite's judges and embeddings untraced, because their calls are not part of the application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlflow_ragmetrics.core.judge import Embedding, Judge
from mlflow_ragmetrics.judges.chat.capabilities import untraced
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.suite import Suite


def untraced_suite(suite: Suite) -> Suite:
    """Return the suite with untraced judges and embeddings; the rest is shared.

    The offline judge has no traceable calls and stays as it is.
    """
    judges = [judge if type(judge) is LexicalJudge else _UntracedJudge(judge) for judge in suite.judges]
    embeddings = [_UntracedEmbedding(embedding) for embedding in suite.embeddings]
    changed = suite.replace(judge=judges if suite.several else judges[0])
    return changed.replace(embeddings=embeddings) if embeddings else changed


class _UntracedJudge(Judge):
    """A judge whose calls are not traced."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name, self.local, self.usage = judge.name, judge.local, judge.usage
        self.calls = judge.calls  # type: ignore[method-assign]
        self.form = judge.form

    @property
    def fingerprint(self) -> str | None:  # type: ignore[override]
        return self._judge.fingerprint

    def answer(self, questions: Sequence[Any]) -> Sequence[Any]:
        with untraced():
            return self._judge.answer(questions)


class _UntracedEmbedding(Embedding):
    """An embedding model whose calls are not traced."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self.name, self.local = embedding.name, embedding.local

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        with untraced():
            return self._embedding.embed(texts)
