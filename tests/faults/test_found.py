"""One test per fault that fuzzing found."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.cli.shared_options import numbers
from mlflow_ragmetrics.core.question import RelatedChunks, Verify
from mlflow_ragmetrics.errors import InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.results.gates import check_names
from mlflow_ragmetrics.rows import join, read_samples
from tests.faults.budget import in_time

_BOMB = "\n".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}' if n else 'a'] * 9)}]" for n in range(12))


@pytest.mark.parametrize(
    "text",
    ["2020-13-45", "!!int x", "!!bool x", "!!timestamp x", "[" * 5000, "0x_", "\n" + _BOMB, "&a [*a]"],
    ids=lambda text: text[:12],
)
def test_no_suite(text: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(f"preset: {text}" if not text.startswith("\n") else text, encoding="utf-8")
    with in_time(10), pytest.raises(RagMetricsError):
        rm.Suite.from_yaml(path)


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
        findings, related = rm.LexicalJudge(longest=10**6).answer(
            [Verify(claims, (text,)), RelatedChunks(text, (text,))]
        )
    assert len(findings) == 6000
    assert len(related) == 1


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_header_of_very_many_columns(ending: str, tmp_path: Path) -> None:
    sign = "," if ending == "csv" else "\t"
    (tmp_path / f"rows.{ending}").write_text(sign.join(f"c{n}" for n in range(100_000)) + "\n1\n")
    with in_time(2):
        assert len(list(read_samples(tmp_path / f"rows.{ending}"))) == 1


PAIR = {"answer": "a", "reference": "a"}
REFUSED: list[Any] = [
    *(
        lambda metric=metric: rm.score(metric, PAIR)
        for metric in ("rouge(measure={[]: 1})", "builtins:int", int, {"rouge": [1]}, {"rouge": 5}, {"rouge": {5: 1}})
    ),
    *(
        lambda scores=scores: rm.score("rag_score", {"scores": scores})
        for scores in ([1], None, {"correctness": "abc"}, {"correctness": 10**400})
    ),
    *(
        lambda name=name, value=value: rm.score("rag_score", {"answer": "a"}, **{name: value})
        for name, value in (("threshold", "x"), ("threshold", []), ("key", 5), ("language", []), ("on_missing", []))
    ),
    *(lambda scores=scores: rm.combine(scores) for scores in ({1: 0.5}, [1], {"a": "x"})),
    lambda: rm.combine([{"metric": "a", "score": 0.5, "threshold": "x"}]),
    lambda: rm.aggregate([1.0], []),
    lambda: rm.summarize(["a"]),
    lambda: rm.summarize(5),
    lambda: rm.Suite(False),
    lambda: rm.Suite.preset([]),
    lambda: rm.Suite("rouge", thresholds=[1]),
    lambda: rm.Suite("rouge", name_prefix=5),
    lambda: numbers(click.Context(main), click.Option(["--fail-under"]), ["a=nan"]),
    lambda: numbers(click.Context(main), click.Option(["--weights"]), ["a=1e999"]),
    lambda: check_names(["a"], {"a": float("nan")}),
]


@pytest.mark.parametrize("call", REFUSED)
def test_nothing_but_an_error_of_ours(call: Any) -> None:
    with pytest.raises(RagMetricsError):
        call()


def test_scores_too_large_or_too_close_for_their_squares() -> None:
    assert rm.aggregate([1e308, 0.5]) == 0.5
    assert rm.summarize([1e308, 1e308])["n_skipped"] == 2
    tiny = rm.summarize([-2.6850122181457965e-135] * 2 + [-2.2250738585e-313] * 2)
    assert tiny["ci_low"] <= tiny["mean"] <= tiny["ci_high"]


def test_a_table_whose_columns_are_no_texts(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"columns": [["a", 1]], "data": [[1]]}')
    with pytest.raises(RagMetricsError, match="has no scores"):
        rm.compare(tmp_path / "a.json", tmp_path / "a.json")


def test_embeddings_without_a_key_are_an_option_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidOptionError, match="openai:/x"):
        rm.Suite(["semantic_similarity"], embeddings="openai:/x")


def test_two_sources_that_both_hold_arrays_are_joined() -> None:
    results = [{"id": "1", "answer": "a", "ids": np.array(["x", "y"])}]
    references = [{"id": "1", "reference": "b", "ids": np.array(["x", "z"])}]
    (row,) = join(results, references).rows
    assert list(row["ids"]) == ["x", "y"]
    assert list(row["reference_ids"]) == ["x", "z"]


def test_scores_beyond_all_scales_are_compared_as_none(tmp_path: Path) -> None:
    rows = [{"id": str(n), "k": 0.1 * n, "k_status": "ok"} for n in range(8)]
    huge = [{**row, "k": 1.1e103} if row["id"] == "3" else {**row, "k": row["k"] + 0.01} for row in rows]
    for name, table in (("a", rows), ("b", huge)):
        pd.DataFrame(table).to_csv(tmp_path / f"{name}.csv", index=False)
    found = rm.compare(tmp_path / "a.csv", tmp_path / "b.csv", tolerance=5e-324)["k"]
    assert (found.rows, found.unscored_b) == (7, 1)
    assert found.difference == pytest.approx(0.01)
