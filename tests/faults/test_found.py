"""What the fuzzing found, each fault once."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import RelatedChunks, Verify
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.readers import read_samples
from tests.faults.budget import in_time

_BOMB = "\n".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}' if n else 'a'] * 9)}]" for n in range(12))


@pytest.mark.parametrize(
    "metric",
    [
        "rouge(measure={[]: 1})",
        "ndcg_" + "9" * 5000,
        "builtins:int",
        int,
        {"rouge": [1]},
        {"rouge": 5},
        {"rouge": {5: 1}},
    ],
    ids=lambda each: type(each).__name__,
)
def test_no_metric(metric: Any) -> None:
    with pytest.raises(RagMetricsError):
        rm.score(metric, {"answer": "a", "reference": "a"})


@pytest.mark.parametrize("scores", [[1], None, {"correctness": "abc"}, {"correctness": 10**400}], ids=str)
def test_no_scores_to_compose(scores: Any) -> None:
    with pytest.raises(RagMetricsError):
        rm.score("rag_score", {"scores": scores})


@pytest.mark.parametrize(
    "option", [{"threshold": "x"}, {"threshold": []}, {"key": 5}, {"language": []}, {"on_missing": []}]
)
def test_no_option(option: dict[str, Any]) -> None:
    with pytest.raises(RagMetricsError):
        rm.score("rag_score", {"answer": "a"}, **option)


def test_a_number_too_long_for_a_text() -> None:
    with pytest.raises(RagMetricsError, match="number that cannot be text"):
        rm.score("coherence", {"answer": 10**5000})
    with pytest.raises(RagMetricsError, match="<int>"):
        rm.score("content_safety", {"answer": "a"}, additional_blocklist=10**5000)


@pytest.mark.parametrize(
    "text",
    ["2020-13-45", "!!int x", "!!bool x", "!!timestamp x", "9" * 5000, "[" * 5000, "0x_", "\n" + _BOMB, "&a [*a]"],
    ids=lambda text: text[:12],
)
def test_no_suite(text: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(f"preset: {text}" if not text.startswith("\n") else text, encoding="utf-8")
    with in_time(10), pytest.raises(RagMetricsError):
        rm.Suite.from_yaml(path)


@pytest.mark.parametrize("name", ["a\0.csv", "a" * 5000 + ".csv", "\ud800.csv"], ids=ascii)
def test_no_name_of_a_file(name: str) -> None:
    with pytest.raises(RagMetricsError):
        list(read_samples(name))


def test_a_damaged_archive(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(b'{"answer": "x"}\n' * 1000))
    content[17] ^= 0x55
    (tmp_path / "rows.jsonl.gz").write_bytes(content)
    with pytest.raises(RagMetricsError):
        list(read_samples(tmp_path / "rows.jsonl.gz"))


def test_the_offline_judge_grows_with_the_text_and_not_with_its_square() -> None:
    text = " ".join(f"The w{n % 97} w{n % 89} w{n % 83} saw the w{n % 79} in {1900 + n % 90}." for n in range(6000))
    claims = tuple(f"The w{n % 97} w{n % 89} w{n % 83} saw w{n % 73} {n}." for n in range(6000))
    with in_time(8):  # 250 000 characters; comparing every pair of places takes a minute
        findings, related = rm.LexicalJudge().answer([Verify(claims, (text,)), RelatedChunks(text, (text,))])
    assert len(findings) == 6000
    assert len(related) == 1
