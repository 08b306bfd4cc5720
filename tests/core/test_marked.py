from __future__ import annotations

from mlflow_ragmetrics.core.marked import nearest_sentence
from mlflow_ragmetrics.core.sample import Chunk

CHUNKS = [
    Chunk("Bees make honey. Honey keeps for years in closed jars.", "bees"),
    Chunk("Wasps make no honey at all.", "wasps"),
]


def test_the_sentence_that_shares_most_words_is_taken():
    found = nearest_sentence("Honey keeps for centuries.", CHUNKS)
    assert (found.chunk, found.id, found.quote) == (1, "bees", "Honey keeps for years in closed jars.")


def test_without_a_common_word_nothing_is_near():
    assert nearest_sentence("Trains arrive late.", CHUNKS) is None
    assert nearest_sentence("Honey", []) is None
