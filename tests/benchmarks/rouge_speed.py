"""ROUGE against ``rouge_score`` and its native rewrites: all four types, equal numbers.

``python tests/benchmarks/rouge_speed.py``. The functions alone on short and long texts, and a whole suite with its
table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from contest import Contestant, compete
from table import Figure, main
from texts import batches, records

TYPES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
LONG = 2000
SHORT = 150
_OURS = (
    ("ours: the metric alone, with reasons", "ours"),
    ("ours: through a suite with its table", "suite"),
)
_PEERS = (
    ("rouge_score", "google", "rouge"),
    ("rouge-score-rs (Rust)", "rust", "rouge"),
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

    scorer = RougeScorer(TYPES)
    rounds = batches(size, _words(size))

    def run() -> float:
        answers, references = map(list, zip(*next(rounds), strict=True))
        scored = scorer.score_batch(references, answers)
        return checksum(scores[kind].fmeasure for scores in scored for kind in TYPES)

    return run


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
    """Equal for the same numbers in the same order, to 9 digits."""
    return round(sum(value * (1 + place % 97) for place, value in enumerate(values)), 6)


WORKS = {
    "ours": ours,
    "suite": suite,
    "google": google,
    "rust": rust,
    "rapidfuzz": rapidfuzz,
}


def figures(short: bool) -> Sequence[Figure]:
    peers = [Contestant("rouge_score", "google")] if short else [Contestant(*each) for each in _PEERS]
    contestants = [*(Contestant(*each) for each in _OURS), *peers]
    few, many = (2, 100) if short else (4, 2000)  # rouge_score takes a second for each long pair
    rounds = 1 if short else 3
    target = "rouge_score ≥ {} ×"
    return [
        Figure(
            f"ROUGE, four types, {many:,} pairs of {SHORT} words",
            compete(__file__, contestants, many, rounds),
            target.format("14") + ", through a suite 10 ×",
        ),
        Figure(
            f"ROUGE, four types, {few} pairs of {LONG:,} words",
            compete(__file__, contestants, few, rounds),
            target.format("27"),
        ),
    ]


if __name__ == "__main__":
    main(WORKS, figures)
