"""Static word vectors from the wheel of ``wordllama``: English, 256 dimensions, no download (extra ``wordllama``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np

from mlflow_ragmetrics.core.judge import Embedding
from mlflow_ragmetrics.errors import MissingExtraError


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
