from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlflow_ragmetrics.rows import join, read_samples
from mlflow_ragmetrics.suite import Suite

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted((EXAMPLES / "data").glob("*.jsonl"))


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_has_what_the_white_paper_s_metrics_need(path):
    samples = list(read_samples(path))
    assert len(samples) == 60
    for sample in samples:
        assert sample.question
        assert sample.answer
        assert sample.reference
        assert not sample.invalid
        assert [chunk.id for chunk in sample.contexts] == [f"{sample.id}-{n}" for n in (1, 2, 3)]


def test_both_versions_answer_the_same_questions():
    first, second = (records(path) for path in FILES)
    assert [each["id"] for each in first] == [each["id"] for each in second]
    assert [each["question"] for each in first] == [each["question"] for each in second]
    assert all(a["answer"] != b["answer"] for a, b in zip(first, second, strict=True))


def test_the_retrieval_pair_joins_completely():
    joined = join(EXAMPLES / "data" / "retrieval_results.tsv", EXAMPLES / "data" / "retrieval_reference.tsv")
    assert joined.warning is None
    report = Suite.preset("retrieval").evaluate(joined.rows)
    assert report.metrics["sample_count"] == 60
    assert 0 < report.metrics["avg_context_recall"] < 1
