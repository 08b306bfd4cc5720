"""Expected effects of changes to a row occur as often as documented, or always."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))

import metamorphic  # noqa: E402

pytestmark = pytest.mark.slow
Counts = Mapping[str, Mapping[str, Sequence[int]]]
ALWAYS = {
    "append an unsupported sentence": ("faithfulness", "weakest_claim", "factual_correctness", "hallucination_rate"),
    "another row's answer": ("faithfulness", "correctness", "factual_correctness", "rag_score", "semantic_similarity"),
    "all passages wrong": ("faithfulness", "fact_recall_reference"),
    "shuffle passages": ("correctness", "chunk_precision", "context_sufficiency"),
    "add irrelevant passages": ("chunk_precision", "faithfulness", "fact_recall_reference"),
    "duplicate a passage": ("faithfulness", "weakest_claim", "fact_recall_reference"),
    "answer := the question": ("answer_relevance",),
    "answer twice": ("faithfulness", "weakest_claim", "answer_relevance"),
    "swap answer and reference": ("rouge1_f1", "semantic_similarity", "factual_correctness"),
    "whitespace": ("correctness", "chunk_precision", "answer_relevance", "rouge1_f1", "lexical_groundedness"),
}
"""What comparing words must see in nine rows of ten; all else is in the documentation with its share."""


def check(found: Counts) -> None:
    for relation, keys in ALWAYS.items():
        for key in keys:
            broken, rows = found[relation][key]
            assert broken <= 0.1 * rows, f"{relation}: {key} breaks it in {broken} of {rows} rows"


def test_the_relations_hold_on_the_examples_as_often_as_documented() -> None:
    found = metamorphic.shares(metamorphic.read(metamorphic.EXAMPLES))
    check(found)
    documented: Counts = json.loads(metamorphic.FIGURES.read_text(encoding="utf-8"))
    assert found == documented, (
        "run tests/benchmarks/metamorphic.py, and put its table into docs/explanation/validity.md"
    )
    assert metamorphic.table(found) in (ROOT / "docs" / "explanation" / "validity.md").read_text(encoding="utf-8")


@pytest.mark.skipif("RAGMETRICS_ROWS" not in os.environ, reason="RAGMETRICS_ROWS names no file of other rows")
def test_the_relations_hold_on_other_rows() -> None:
    check(metamorphic.shares(metamorphic.read([Path(os.environ["RAGMETRICS_ROWS"])], 50)))
