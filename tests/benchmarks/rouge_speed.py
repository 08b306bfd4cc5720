"""ROUGE against ``rouge_score`` and its native rewrites: all four types, equal numbers.

``python tests/benchmarks/rouge_speed.py``. The functions alone on short and long texts, and a whole suite with its
table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from contest import Contestant, Figure, compete, serve
from texts import batches, records

TYPES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
LONG = 2000
SHORT = 150
_CONTESTANTS = (
    ("rouge_score", "google", "rouge"),
    ("rouge-score-rs", "rust", "rouge"),
    ("rapidfuzz and Counter (no Lsum)", "rapidfuzz", "rouge"),
)


def _words(size: int) -> int:
    return LONG if size < 100 else SHORT


def ours(size: int) -> Callable[[], Any]:
    from mlflow_ragmetrics import rouge

    score = rouge.definition.function
    rounds = batches(size, _words(size))
    return lambda: checksum(
        score(answer, reference, rouge_type=kind, tokenizer="rouge_score").value
        for answer, reference in next(rounds)
        for kind in TYPES
    )


def suite(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    rounds = cycle([records(size, _words(size), seed) for seed in range(5)])
    scored = rm.Suite([{"rouge": {"rouge_type": kind, "tokenizer": "rouge_score"}} for kind in TYPES])

    def run() -> float:
        table = scored.evaluate(next(rounds), progress=False).table
        return checksum(value for row in zip(*(table[f"{kind}_f1"] for kind in TYPES), strict=True) for value in row)

    return run


def google(size: int) -> Callable[[], Any]:
    from rouge_score.rouge_scorer import RougeScorer

    return _scorer(RougeScorer(TYPES), size)


def rust(size: int) -> Callable[[], Any]:
    from rouge_score_rs.rouge_scorer import RougeScorer

    return _scorer(RougeScorer(TYPES), size)


def rapidfuzz(size: int) -> Callable[[], Any]:
    import re
    from collections import Counter

    from rapidfuzz.distance import LCSseq

    rounds = batches(size, _words(size))

    def grams(tokens: list[str], n: int) -> Counter[tuple[str, ...]]:
        return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))

    def run() -> None:
        for texts in next(rounds):
            one, other = (re.findall("[a-z0-9]+", text.lower()) for text in texts)
            for n in (1, 2):
                sum((grams(one, n) & grams(other, n)).values())
            LCSseq.similarity(one, other)

    return run


def _scorer(scorer: Any, size: int) -> Callable[[], Any]:
    rounds = batches(size, _words(size))

    def run() -> float:
        scored = (scorer.score(reference, answer) for answer, reference in next(rounds))
        return checksum(scores[kind].fmeasure for scores in scored for kind in TYPES)

    return run


def checksum(values: Any) -> float:
    """The same for the same numbers in the same order, to 9 digits."""
    return round(sum(value * (1 + place % 97) for place, value in enumerate(values)), 6)


WORKS = {"ours": ours, "suite": suite, "google": google, "rust": rust, "rapidfuzz": rapidfuzz}


def figures(short: bool) -> Sequence[Figure]:
    peers = [Contestant("rouge_score", "google")] if short else [Contestant(*each) for each in _CONTESTANTS]
    few, many = (2, 100) if short else (4, 300)  # rouge_score takes a second for each long pair
    sizes = ((many, "150 words", 14), (few, "2,000 words", 27))
    rounds = 1 if short else 3
    found = []
    for size, words, target in sizes:
        results = compete(__file__, [Contestant("ours", "ours"), *peers], size, rounds)
        found.append(Figure(f"ROUGE, four types, {size} pairs of {words}", results, f"≥ {target} × rouge_score"))
    results = compete(__file__, [Contestant("ours", "suite"), *peers], many, rounds)
    found.append(Figure(f"ROUGE through a suite with its table, {many} rows", results, "≥ 10 × rouge_score"))
    return found


if __name__ == "__main__":
    if "--work" in sys.argv:
        serve(WORKS)
    else:
        from run import show

        show(figures("--short" in sys.argv))
