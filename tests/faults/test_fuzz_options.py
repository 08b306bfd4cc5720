"""Whatever is given to the command line or a suite: one of our errors or a working suite, quickly."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main, shared_options
from mlflow_ragmetrics.display.text import to_junit
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.results.gates import check_figures
from tests.comparison.reports import report_of
from tests.faults.budget import in_time, inputs
from tests.faults.strange import texts, values

FIGURES = {"faithfulness/mean": 0.5, "faithfulness/n_scored": 2.0, "rouge1_f1/n_scored": 0.0}
CONTEXT = click.Context(main)
COMPARISON = rm.compare(report_of([0.5] * 8), report_of([0.6] * 8), resamples=100)
numbers = st.one_of(st.floats().map(str), st.sampled_from(["1_0", "nan", "inf", "-0", "1e999", "٣", "9" * 400]), texts)
sides = st.one_of(
    st.sampled_from(["faithfulness", "rouge1_f1", "faithfulness/ci_low", "a/b/c", "question", "answer"]), texts
)
assignments = st.one_of(
    st.tuples(sides, numbers).map("=".join),
    st.lists(st.tuples(sides, numbers).map("=".join), max_size=3).map(",".join),
    texts,
)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Keeps the time of first imports out of an input's time."""
    rm.Suite("rouge").evaluate([{"answer": "a", "reference": "a"}])
    with contextlib.suppress(RagMetricsError):
        rm.Suite("rouge", judge="openai:/x", embeddings="openai:/x")


@inputs(200, 15_000)
@given(given_texts=st.lists(assignments, max_size=3), rate=st.one_of(st.none(), st.floats(), st.floats(0, 1)))
def test_any_gate(given_texts: list[str], rate: float | None) -> None:
    with in_time(), contextlib.suppress(RagMetricsError):
        limits = shared_options.numbers(CONTEXT, click.Option(["--fail-under"]), given_texts) or {}
        assert all(map(math.isfinite, limits.values()))
        checks = check_figures(FIGURES, limits, rate)
        to_junit(checks).encode("utf-8")


@inputs(100, 5000)
@given(given_texts=st.lists(assignments, max_size=3), verdict=texts)
def test_any_columns(given_texts: list[str], verdict: str) -> None:
    with in_time(), contextlib.suppress(RagMetricsError):
        columns = shared_options.assignments(CONTEXT, click.Option(["--columns"]), given_texts)
        rm.Suite("rouge").evaluate([{"answer": "a", "reference": "a"}], columns=columns)
    with in_time(), contextlib.suppress(RagMetricsError):
        COMPARISON.checks([verdict])


_SUITE = ("weights", "thresholds", "language", "name_prefix", "concurrency", "aggregate", "tolerance", "judge",
          "embeddings", "calls", "max_calls", "prompts", "no_such")  # fmt: skip
settings = st.one_of(
    values,
    st.dictionaries(st.sampled_from(["rouge1_f1", "rag_score", "faithfulness", "no_such"]), values, max_size=2),
    st.sampled_from(["lexical", "openai:/x", "en", "balanced", "no:/such", "char-ngram", 1, 1.0, 0, True]),
)


@inputs(150, 10_000)
@given(
    metrics=st.one_of(st.just(["rouge"]), st.lists(st.one_of(sides, values), max_size=3), values),
    options=st.dictionaries(st.sampled_from(_SUITE), settings, max_size=3),
)
def test_any_suite(metrics: Any, options: dict[str, Any]) -> None:
    with in_time(), contextlib.suppress(RagMetricsError):
        suite = rm.Suite(metrics, **options)
        if options.get("judge", "lexical") == "lexical":
            report = suite.evaluate([{"answer": "a", "reference": "a"}])
            assert all(map(math.isfinite, report.metrics.values()))


_OPTIONS = ("--fail-under", "--columns", "--metric", "--suite", "--language", "--groups", "--min-scored", "--worst",
            "--limit", "--max-calls", "--judge", "--output")  # fmt: skip


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text('{"id": "a", "question": "Who?", "answer": "a b c", "reference": "a b"}\n', encoding="utf-8")
    return str(path)


@inputs(30, 2500)
@given(
    options=st.lists(
        st.tuples(st.sampled_from(_OPTIONS), st.one_of(assignments, sides, numbers)), min_size=1, max_size=2
    )
)
def test_any_option_on_the_command_line(
    rows: str, options: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    words = [word for option, value in options for word in (option, value)]
    with pytest.MonkeyPatch.context() as patch, in_time(2):
        patch.chdir(tmp_path_factory.getbasetemp())
        result = CliRunner().invoke(main, ["evaluate", rows, "-m", "rouge", "--no-log", *words])
    assert result.exit_code in (0, 1, 2), result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit), words
