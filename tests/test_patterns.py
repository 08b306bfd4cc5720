"""No pattern of the package takes quadratic time on malformed model output."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest

from mlflow_ragmetrics.judges.lexical.source import split_claims
from mlflow_ragmetrics.text.sentences import read_sentences

SIZE = 40_000
SECONDS = 2.0  # a linear pattern takes a few milliseconds; earlier quadratic ones took 4 to 39 s

_spec = importlib.util.spec_from_file_location(
    "regex_growth", Path(__file__).with_name("benchmarks") / "regex_growth.py"
)
assert _spec is not None
assert _spec.loader is not None
regex_growth = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(regex_growth)


@pytest.mark.slow
def test_the_benchmark_finds_the_patterns_of_the_package_with_their_methods() -> None:
    found = {(used.place.rpartition(".")[2], used.method) for used in regex_growth.patterns()}
    assert {("_TOKEN", "finditer"), ("_DASHES", "sub"), ("_TOKEN", "split")} <= found
    assert len(found) > 50


@pytest.mark.slow
def test_every_pattern_reads_repeated_pieces_in_linear_time() -> None:
    slow = []
    for used in regex_growth.patterns():
        for piece in regex_growth.PIECES:
            seconds = regex_growth.seconds(used, piece, SIZE, 1)
            if seconds > SECONDS:
                slow.append((used.place, piece, seconds))
    assert not slow


@pytest.mark.parametrize(
    "piece", [" ", "\t", "\u00a0", "\n", ".", "…", "?!", ".'", "【", "[1 ", "[1, ", "; ", ", and ", "。"]
)
def test_claims_are_split_in_linear_time(piece: str) -> None:
    text = f"It is{piece * (100_000 // len(piece))}red [1]."
    start = time.process_time()
    list(read_sentences(text))
    split_claims(text)
    assert time.process_time() - start < SECONDS
