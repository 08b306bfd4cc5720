"""Any LangChain ``Embeddings``, given as an object or as a model URI such as ``openai:/text-embedding-3-small``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlflow_ragmetrics.core.judge import Embedding, created_by_langchain, name_of_model
from mlflow_ragmetrics.core.options import shown


class LangChainEmbedding(Embedding):
    """A LangChain embedding model, named by its ``model`` or ``model_name``, or by its class."""

    def __init__(self, model: Any, *, name: str | None = None) -> None:
        self.model = model
        self.name: str = name or name_of_model(model)

    @classmethod
    def from_uri(cls, uri: str, *, name: str | None = None, **options: Any) -> LangChainEmbedding:
        """The model of ``provider:/model`` through LangChain's ``init_embeddings``, named ``name`` or else by its URI.

        ``options`` (dimensions, base_url, api_key, …) are passed to the model. ``MissingExtraError`` if LangChain or
        the provider's package is not installed; ``InvalidOptionError`` if the provider rejects the options;
        ``MissingKeyError`` if there is no key.
        """
        provider, _, model = uri.partition(":/")
        with created_by_langchain(f"embeddings={shown(uri)}", "embeddings"):
            from langchain.embeddings import init_embeddings

            return cls(init_embeddings(model.lstrip("/"), provider=provider, **options), name=name or uri)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, from ``embed_documents``; the model's exceptions are not caught."""
        vectors: list[list[float]] = self.model.embed_documents(list(texts))
        return vectors
