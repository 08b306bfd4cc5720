"""Texts of one megabyte, of every kind that was once slow: a score or one of our errors, quickly."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.registry import all_metrics
from tests.faults.budget import LONG, SECONDS, in_time

_LENGTH = 1_000_000
_PIECE = 20_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def repeated(piece: str) -> Callable[[random.Random], str]:
    return lambda _: (piece * (_LENGTH // len(piece) + 1))[:_LENGTH]


def drawn(characters: str) -> Callable[[random.Random], str]:
    return lambda chance: "".join(chance.choices(characters, k=_LENGTH))


def prose(chance: random.Random) -> str:
    words = ["the", "of", "was", "not", "and", "in", "1889", "Paris"] * 20
    words += ["".join(chance.choices(_LETTERS, k=chance.randint(3, 9))) for _ in range(3000)]
    sentences = (" ".join(chance.choices(words, k=chance.randint(6, 22))).capitalize() for _ in range(_LENGTH // 60))
    return ". ".join(sentences)[:_LENGTH]


def other_words(chance: random.Random) -> str:
    words = ("".join(chance.choices(_LETTERS, k=chance.randint(3, 9))) for _ in range(_LENGTH // 7))
    return " ".join(word.capitalize() + "." if place % 8 == 0 else word for place, word in enumerate(words))[:_LENGTH]


KINDS = {
    "prose": prose,
    "other words": other_words,
    "one word": repeated("a"),
    "spaces": lambda _: " " * _LENGTH + "a",
    "newlines": lambda _: "\n" * _LENGTH + "a",
    "short lines": repeated("a b\n"),
    "one sentence": repeated("the tower of steel and glass "),
    "repeated sentence": repeated("The tower was not built in 1889 by Gustave. "),
    "punctuation": drawn(".,;:!?'\"-()"),
    "digits": drawn("0123456789"),
    "numbers": drawn("0123456789.,:-/ "),
    "phones": repeated("(555) 123-4567, "),
    "addresses": repeated("a.b@c-d_"),
    "brackets": lambda _: "[(" * (_LENGTH // 2),
    "citations": repeated("【1】 [2]("),
    "han": drawn("巴黎是法国首都铁塔高三百米。，"),
    "kana": drawn("あいうえおかきくけこカキク"),
    "emoji": drawn("😀🎉👩‍💻🏽🇫🇷 "),
    "one mark": lambda _: "e" + "\u0301" * _LENGTH,
    "marks": drawn("e\u0301\u0323 a"),
    "right to left": drawn("\u202eשלום عالم\u202c. "),
    "hyphens": repeated("-_"),
    "apostrophes": repeated("isn't don’t a'b'c "),
    "abbreviations": repeated("U.S.A. e.g. Dr. J. "),
    "no answer": repeated("I don't know. "),
    "clauses": repeated("it is, and he x; "),
}
_OFTEN = ("prose", "spaces", "han", "abbreviations")


@pytest.mark.parametrize("kind", KINDS if LONG else _OFTEN)
def test_a_megabyte_in_every_field(kind: str) -> None:
    answer, reference, context = (KINDS[kind](random.Random(seed)) for seed in range(3))
    contexts = [context[start : start + _PIECE] for start in range(0, len(context), _PIECE)]
    row = {"question": "Who built the tower in 1889?", "answer": answer, "reference": reference, "contexts": contexts}
    for metric in sorted(name for name in all_metrics() if not name.startswith("judged_")):  # these need grades
        with in_time(5 * SECONDS):
            score = rm.score(metric, row, on_missing="skip")
        assert score.status in ("ok", "skipped") or "rm.LexicalJudge(longest=" in str(score.error), (
            metric,
            score.error,
        )
        assert score.value is None or (math.isfinite(score.value) and 0 <= score.value <= 1), metric
