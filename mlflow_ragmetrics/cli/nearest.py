"""The sentence of the retrieved passages that shares most words with a claim."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.core.sample import Chunk
from mlflow_ragmetrics.core.score import Evidence
from mlflow_ragmetrics.core.text import sentences, terms

__all__ = ["nearest_sentence"]


def nearest_sentence(claim: str, chunks: Sequence[Chunk]) -> Evidence | None:
    """Where a reader should look first; ``None`` where no sentence shares a word with the claim.

    Of sentences that share equally many distinct words the shorter one is taken.
    """
    wanted = set(terms(claim))
    best: tuple[int, int] = (0, 0)
    found: Evidence | None = None
    for number, chunk in enumerate(chunks, 1):
        for sentence in sentences(chunk.text):
            rank = (len(wanted & set(terms(sentence))), -len(sentence))
            if rank[0] and rank > best:
                best, found = rank, Evidence(number, chunk.id, sentence.strip())
    return found
