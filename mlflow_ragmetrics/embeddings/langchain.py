"""Any LangChain ``Embeddings``, given as an object or as a model URI such as ``openai:/text-embedding-3-small``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlflow_ragmetrics.core.judge import Embedding, name_of_model
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError


class LangChainEmbedding(Embedding):
    """A LangChain embedding model, named by its ``model`` or ``model_name``, or by its class."""

    def __init__(self, model: Any, *, name: str | None = None) -> None:
        self.model = model
        self.name: str = name or name_of_model(model)

    @classmethod
    def from_uri(cls, uri: str, *, name: str | None = None, **options: Any) -> LangChainEmbedding:
        """The model of ``provider:/model`` through LangChain's ``init_embeddings``, named ``name`` or else by its URI.

        ``options`` (dimensions, base_url, api_key, …) are passed to the model. ``MissingExtraError`` if LangChain or
        the provider's package is not installed; ``InvalidOptionError`` if the provider rejects the options or has no
        key.
        """
        provider, _, model = uri.partition(":/")
        try:
            from langchain.embeddings import init_embeddings

            return cls(init_embeddings(model.lstrip("/"), provider=provider, **options), name=name or uri)
        except ImportError as error:
            extra = "openai" if provider == "openai" else "langchain"
            also = "" if provider == "openai" else f" and the LangChain package of {provider!r}"
            message = f"embeddings={uri!r} needs more packages: pip install 'mlflow_ragmetrics[{extra}]'{also}"
            raise MissingExtraError(message) from error
        except Exception as error:  # the provider's own validation of options or key
            message = f"embeddings={shown(uri)} cannot be created: {redact(' '.join(str(error).split()))[:300]}"
            raise InvalidOptionError(message, param="embeddings") from error

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, from ``embed_documents``; the model's exceptions are not caught."""
        vectors: list[list[float]] = self.model.embed_documents(list(texts))
        return vectors
