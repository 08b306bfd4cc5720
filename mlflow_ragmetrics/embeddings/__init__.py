"""Embedding models: ``"char-ngram"`` is built in; others need an extra or are your own objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

from mlflow_ragmetrics.core.judge import Embedding, EmbedsTexts, take_over
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.embeddings.char_ngram import CharNgram
from mlflow_ragmetrics.embeddings.langchain import LangChainEmbedding
from mlflow_ragmetrics.embeddings.wordllama import Wordllama
from mlflow_ragmetrics.errors import InvalidOptionError

EmbeddingLike = Union[str, Path, Embedding, Any]


def embeddings_of(embeddings: EmbeddingLike | Sequence[EmbeddingLike]) -> list[Embedding]:
    """The models for ``embeddings``; their names must differ.

    ``InvalidOptionError`` if one is not an embedding model, or if two have the same name.
    """
    given = list(embeddings) if isinstance(embeddings, (list, tuple)) else [embeddings]
    if not given:
        message = "embeddings=[] contains no model; leave it out to use the built-in char-ngram"
        raise InvalidOptionError(message, param="embeddings")
    models = [resolve(each) for each in given]
    names = [model.name for model in models]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        message = f"two embedding models have the name {repeated[0]!r}; names must be unique"
        raise InvalidOptionError(message, param="embeddings")
    return models


def resolve(embedding: EmbeddingLike) -> Embedding:
    """The model for a spelling or an object.

    ``InvalidOptionError`` if it is not an embedding model; ``MissingExtraError`` names the package to install.
    """
    spelling = str(embedding) if isinstance(embedding, (str, Path)) else ""
    if spelling == "char-ngram":
        return CharNgram()
    if spelling == "wordllama":
        return Wordllama()
    if ":/" in spelling:
        return LangChainEmbedding.from_uri(spelling)
    if hasattr(embedding, "embed_documents"):
        return LangChainEmbedding(embedding)
    if isinstance(embedding, EmbedsTexts):
        return embedding if isinstance(embedding, Embedding) else AdaptedEmbedding(embedding)
    message = (
        f'embeddings={shown(spelling or embedding)} is not an embedding model; use "char-ngram", "wordllama", a model '
        'URI such as "openai:/text-embedding-3-small", LangChain Embeddings, or a list of these'
    )
    raise InvalidOptionError(message, param="embeddings")


class AdaptedEmbedding(Embedding):
    """An embedding model with the members of another object."""

    def __init__(self, given: EmbedsTexts) -> None:
        self.name = given.name
        self._given = given
        take_over(self, given, ("local",))

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the object's vectors."""
        return self._given.embed(texts)
