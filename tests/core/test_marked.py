from __future__ import annotations

from mlflow_ragmetrics.core.marked import claims_of, nearest_sentence
from mlflow_ragmetrics.core.score import Chunk, Item, Score

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


def test_claims_held_against_the_passages_mark_the_answer_first():
    by_reference = Item("claim", "Wasps sting.", "NEUTRAL", against="reference")
    by_passages = Item("claim", "Bees fly.", "SUPPORTED")
    scores = {"factual_correctness": Score(0.0, items=(by_reference,))}
    assert claims_of(scores) == [by_reference]
    assert claims_of({**scores, "faithfulness": Score(1.0, items=(by_passages,))}) == [by_passages]
