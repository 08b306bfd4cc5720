"""Texts of any length with the word frequencies of natural language (Zipf), one sentence per line."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate, cycle

_VOCABULARY = 5000
_SENTENCE = 15
_ROUNDS = 5


def text_pairs(count: int, words: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Pairs of independent texts with this number of words."""
    generator = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(generator.choices(letters, k=generator.randint(2, 10))) for _ in range(_VOCABULARY)]
    weights = list(accumulate(1 / rank for rank in range(1, _VOCABULARY + 1)))
    for _ in range(count):
        drawn = generator.choices(vocabulary, cum_weights=weights, k=2 * words)
        yield _text(drawn[:words]), _text(drawn[words:])


def batches(count: int, words: int) -> Iterator[list[tuple[str, str]]]:
    """Lists of pairs, one per round, so that a contestant cannot reuse results of its last round."""
    return cycle([list(text_pairs(count, words, seed)) for seed in range(_ROUNDS)])


def _text(words: list[str]) -> str:
    sentences = (words[start : start + _SENTENCE] for start in range(0, len(words), _SENTENCE))
    return "\n".join(" ".join(sentence).capitalize() + "." for sentence in sentences)


def records(count: int, words: int, seed: int = 0) -> list[dict[str, str]]:
    """Rows with question, answer and reference."""
    return [
        {
            "id": str(number),
            "question": " ".join(reference.split()[:12]) + "?",
            "answer": answer,
            "reference": reference,
        }
        for number, (answer, reference) in enumerate(text_pairs(count, words, seed))
    ]
