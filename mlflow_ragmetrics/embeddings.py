"""Embedding models: ``"char-ngram"`` is built in; others need an extra or are your own objects.

Others are ``wordllama`` (static word vectors: English, 256 dimensions, no download) and any LangChain ``Embeddings``,
given as an object or as a model URI such as ``openai:/text-embedding-3-small``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Union, cast

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.question import Embedding, created_by_langchain, name_of_model
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError
from mlflow_ragmetrics.text.words import normalize

EmbeddingLike = Union[str, Path, Embedding, Any]


def embeddings_of(embeddings: EmbeddingLike | Sequence[EmbeddingLike]) -> list[Embedding]:
    """The models for ``embeddings``; their names must differ.

    ``InvalidOptionError`` if one is not an embedding model, or if two have the same name.
    """
    listed = list(embeddings) if isinstance(embeddings, (list, tuple)) else [embeddings]
    if not listed:
        message = "embeddings=[] contains no model; leave it out to use the built-in char-ngram"
        raise InvalidOptionError(message, param="embeddings")
    models = [resolve(model) for model in listed]
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
    if (built_in := {"char-ngram": CharNgram, "wordllama": Wordllama}.get(spelling)) is not None:
        return built_in()
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


_BATCH: Final = 256
_LARGEST_BATCH: Final = 200_000
_SIZES: Final = (3, 4, 5)
_SPACE: Final = 32
_DIMENSIONS: Final = 1024
_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
_BASE: Final = np.uint64(0x9E3779B97F4A7C15)
_MIXERS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class CharNgram(Embedding):
    """Counts of the 3- to 5-character pieces of words, hashed into 1,024 signed places, scaled to length 1.

    The cosine measures similar spelling: it is lexical, not semantic. Inflections and typing errors have little effect,
    but paraphrases with other words score low, often below the 0.7 that a semantic model gives. Vectors are the same in
    every process. A text without a letter or digit is the zero vector.

    >>> vectors = CharNgram().embed(["the blue cats", "a blue cat", "tax law"])
    >>> bool(vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2])
    True
    """

    name = "char-ngram"
    local = True

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector of 1,024 float32 values per text, in order."""
        vectors: list[NDArray[np.float32]] = []
        batch: list[str] = []
        size = 0
        for text in texts:
            batch.append(_padded(text))
            size += len(batch[-1])
            if len(batch) == _BATCH or size > _LARGEST_BATCH:
                vectors.extend(_embed_batch(batch))
                batch, size = [], 0
        vectors.extend(_embed_batch(batch))
        return cast("list[Sequence[float]]", vectors)


def _embed_batch(padded: list[str]) -> NDArray[np.float32]:
    if not padded:
        return np.zeros((0, _DIMENSIONS), np.float32)
    codes = np.frombuffer("".join(padded).encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    owners = np.repeat(np.arange(len(padded)), [len(text) for text in padded])
    counts = np.zeros(len(padded) * _DIMENSIONS)
    for size in _SIZES:
        hashes, starts = _hashed_pieces(codes, size)
        places = owners[starts] * _DIMENSIONS + (hashes % np.uint64(_DIMENSIONS)).astype(np.int64)
        signs = 1.0 - 2.0 * (hashes >> np.uint64(63)).astype(np.float64)
        counts += np.bincount(places, weights=signs, minlength=len(counts))
    matrix = counts.reshape(len(padded), _DIMENSIONS)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _padded(text: str) -> str:
    """The normalised words of ``text`` (each Han or Kana character is one), each surrounded by two spaces."""
    return "".join(f" {word} " for word in _WORD.findall(normalize("NFKC", text).casefold()))


def _hashed_pieces(codes: NDArray[np.uint64], size: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes (64 bits, well mixed) of the ``size``-character pieces of words, and their start positions."""
    count = len(codes) - size + 1
    if count <= 0:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    hashes = np.full(count, size, np.uint64)
    for place in range(size):
        hashes = hashes * _BASE + codes[place : place + count]
    borders = np.concatenate(([0], np.cumsum((codes[1:] == _SPACE) & (codes[:-1] == _SPACE))))
    starts = np.flatnonzero(borders[size - 1 : size - 1 + count] == borders[:count])
    hashes = hashes[starts]
    for shift, mixer in zip((30, 27), _MIXERS, strict=True):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * mixer
    return hashes ^ (hashes >> np.uint64(31)), starts
