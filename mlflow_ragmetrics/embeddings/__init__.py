"""Embedding models: ``"char-ngram"`` is built in; others need an extra or are your own objects.

Others are ``wordllama`` (static word vectors: English, 256 dimensions, no download) and any LangChain ``Embeddings``,
given as an object or as a model URI such as ``openai:/text-embedding-3-small``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Union, cast

import numpy as np

from mlflow_ragmetrics.core.judge import Embedding, created_by_langchain, name_of_model
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.embeddings.char_ngram import CharNgram
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError

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
    if hasattr(embedding, "name") and hasattr(embedding, "embed"):
        return cast(Embedding, embedding)
    message = (
        f'embeddings={shown(spelling or embedding)} is not an embedding model; use "char-ngram", "wordllama", a model '
        'URI such as "openai:/text-embedding-3-small", LangChain Embeddings, or a list of these'
    )
    raise InvalidOptionError(message, param="embeddings")


class LangChainEmbedding(Embedding):
    """A LangChain embedding model, named by its ``model`` or ``model_name``, or by its class."""

    def __init__(self, model: Any, *, name: str | None = None) -> None:
        self.model = model
        self.name: str = name or name_of_model(model)

    @classmethod
    def from_uri(cls, uri: str, *, name: str | None = None, **options: Any) -> LangChainEmbedding:
        """The model of ``provider:/model`` through LangChain's ``init_embeddings``, named ``name`` or else by its URI.

        ``options`` (dimensions, base_url, api_key, …) are passed to the model. ``MissingExtraError`` if LangChain or
        the provider's package is not installed; ``InvalidOptionError`` if the provider rejects the options,
        or if there is no key.
        """
        provider, _, model = uri.partition(":/")
        with created_by_langchain(f"embeddings={shown(uri)}", "embeddings"):
            from langchain.embeddings import init_embeddings

            return cls(init_embeddings(model.lstrip("/"), provider=provider, **options), name=name or uri)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, from ``embed_documents``; the model's exceptions are not caught."""
        vectors: list[list[float]] = self.model.embed_documents(list(texts))
        return vectors


class Wordllama(Embedding):
    """Averaged word vectors: good for English paraphrases, worse than ``char-ngram`` for Russian.

    ``MissingExtraError`` if the package is not installed. Nothing is downloaded.
    """

    name = "wordllama"
    local = True

    def __init__(self) -> None:
        if find_spec("wordllama") is None:
            message = "embeddings='wordllama' needs a package: pip install 'mlflow_ragmetrics[wordllama]'"
            raise MissingExtraError(message)

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector of 256 float32 values per text; the first call loads the table."""
        if not texts:
            return []
        vectors = np.asarray(_model().embed(list(texts)), dtype=np.float32)
        return cast("list[Sequence[float]]", list(vectors))


@lru_cache(maxsize=1)
def _model() -> Any:
    import wordllama

    # Without its own wheel's folder, wordllama searches elsewhere for its tokenizer and then downloads it.
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
