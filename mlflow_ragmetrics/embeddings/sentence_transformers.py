"""A sentence-transformers model from a local folder or a hub id (extra ``nli``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from mlflow_ragmetrics.core.judge import Embedding
from mlflow_ragmetrics.errors import MissingExtraError

__all__ = ["SentenceTransformersEmbedding"]


class SentenceTransformersEmbedding(Embedding):
    """``model``: a folder, a hub id, or a loaded ``SentenceTransformer``. The name is the folder's, or the id."""

    local = True

    def __init__(self, model: Any, *, name: str | None = None) -> None:
        self.model = _load(str(model)) if isinstance(model, (str, Path)) else model
        self.name: str = name or _name_of(model)

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One float32 vector per text."""
        if not texts:
            return []
        vectors = np.asarray(self.model.encode(list(texts), show_progress_bar=False), dtype=np.float32)
        return cast("list[Sequence[float]]", list(vectors))


def _load(model: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        message = f"embeddings={model!r} needs sentence-transformers: pip install 'mlflow_ragmetrics[nli]'"
        raise MissingExtraError(message) from error
    return SentenceTransformer(model)


def _name_of(model: Any) -> str:
    if isinstance(model, (str, Path)):
        return Path(model).name if Path(model).is_dir() else str(model)
    return type(model).__name__
