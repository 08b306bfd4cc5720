"""Whatever is combined, summarized, compared and calibrated: one of our errors or finite figures, quickly."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.results import stored
from tests.faults.budget import in_time, inputs
from tests.faults.strange import scalars, texts, values

KEYS = ("faithfulness", "rouge1_f1", "k", "")
figures = st.one_of(st.floats(), st.floats(0, 1), st.sampled_from([0, 1, 0.5, 5e-324, 1e308, -1e308, None]), scalars)
keys = st.one_of(st.sampled_from(KEYS), texts, st.integers(), st.floats(), st.none(), st.tuples(texts))
shares = st.one_of(st.none(), st.dictionaries(keys, figures, max_size=4), st.lists(figures, max_size=3), values)


def assert_finite(value: Any) -> None:
    if isinstance(value, Mapping):
        for each in value.values():
            assert_finite(each)
    elif isinstance(value, float):
        assert math.isfinite(value)


@inputs(150, 12_000)
@given(
    scores=st.one_of(
        st.dictionaries(keys, figures, max_size=4),
        st.lists(
            st.dictionaries(st.sampled_from(["metric", "score", "threshold"]), figures | texts, max_size=3), max_size=4
        ),
        values,
    ),
    weights=shares,
)
def test_anything_combined(scores: Any, weights: Any) -> None:
    with in_time(), contextlib.suppress(RagMetricsError):
        found = rm.combine(scores, weights)
        assert (found.value is None) == (found.status != "ok")
        assert_finite(found.value)
        assert_finite(found.details)


@inputs(150, 10_000)
@given(
    numbers=st.one_of(st.lists(figures, max_size=6), st.lists(st.floats(), min_size=1, max_size=6), values),
    how=st.one_of(st.sampled_from(["mean", "median", "min", "max", "majority", "consensus"]), values),
    tolerance=st.one_of(st.just(0.1), figures),
)
def test_anything_aggregated(numbers: Any, how: Any, tolerance: Any) -> None:
    with in_time(), contextlib.suppress(RagMetricsError):
        assert math.isfinite(rm.aggregate(numbers, how, tolerance))


@inputs(100, 5000)
@given(numbers=st.one_of(st.lists(figures, max_size=8), st.lists(st.floats(), min_size=1, max_size=8), values))
def test_anything_summed_up(numbers: Any) -> None:
    with in_time(), contextlib.suppress(RagMetricsError):
        assert_finite(rm.summarize(numbers))


columns = st.sampled_from(["id", "question", "reference", "k", "k_status", "k_passed", "label", "k_judge", "k_reason"])
cells = st.one_of(
    st.floats(), st.integers(), st.booleans(), texts, st.sampled_from(["ok", "a", "b", "1", "true", "supported", None])
)


@st.composite
def tables(draw: Any) -> list[dict[str, Any]]:
    """Rows as an evaluation writes them, and rows that are almost valid."""
    good = st.fixed_dictionaries(
        {"id": st.sampled_from("abcdef"), "k": st.one_of(st.floats(0, 1), st.none()), "k_status": st.just("ok")}
    )
    rows: list[dict[str, Any]] = draw(st.lists(good, min_size=1, max_size=6, unique_by=lambda row: str(row["id"])))
    for row in rows:
        row.update(draw(st.dictionaries(columns, cells, max_size=2)))
    return rows


def results(rows: list[dict[str, Any]], description: Any) -> Evaluation:
    return stored(
        "r",
        pd.DataFrame(rows, dtype=object),
        pd.DataFrame(columns=["id", "metric", "kind", "text", "verdict"]),
        description,
    )


descriptions = st.dictionaries(st.sampled_from(["judge", "metrics", "weights", "thresholds"]), values, max_size=2)


@inputs(60, 4000)
@given(a=tables(), b=tables(), about=descriptions, different=st.booleans(), tolerance=st.one_of(st.just(0.05), figures))
def test_any_two_tables_compared(a: Any, b: Any, about: Any, different: bool, tolerance: Any) -> None:
    with in_time(2), contextlib.suppress(RagMetricsError):
        found = rm.compare(
            results(a, about), results(b, {}), allow_different=different, tolerance=tolerance, resamples=100
        )
        json.dumps(found.to_dict(), allow_nan=False)
        assert found.to_html()
        assert str(found)


@inputs(60, 4000)
@given(
    table=tables(),
    labels=st.one_of(
        st.dictionaries(st.sampled_from("abcdef"), cells, max_size=6),
        st.lists(cells, max_size=6),
        st.sampled_from(["label", "no_such"]),
        values,
    ),
    options=st.dictionaries(
        st.sampled_from(["key", "default", "good_from", "column", "groups", "words"]),
        st.one_of(figures, st.sampled_from(["k", "label"])),
        max_size=2,
    ),
)
def test_any_table_calibrated(table: Any, labels: Any, options: dict[str, Any]) -> None:
    with in_time(2), contextlib.suppress(RagMetricsError):
        found = rm.calibrate(results(table, {}), labels, **options)
        assert_finite(found.metrics)
        assert str(found)


file_rows = st.one_of(
    tables().map(lambda rows: json.dumps(rows, default=str)),
    tables().map(lambda rows: "\n".join(json.dumps(row, default=str) for row in rows)),
    tables().map(lambda rows: pd.DataFrame(rows, dtype=object).to_csv(index=False)),
    st.dictionaries(st.sampled_from(["columns", "data"]), st.lists(st.one_of(columns, cells, st.lists(cells)))).map(
        json.dumps
    ),
    texts,
)


@inputs(60, 6000)
@given(ending=st.sampled_from([".json", ".jsonl", ".csv", ".tsv", ".parquet"]), a=file_rows, b=file_rows)
def test_any_two_files_compared(ending: str, a: str, b: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{name}{ending}") for name in "ab"]
        for path, text in zip(paths, (a, b), strict=True):
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
        with in_time(2), contextlib.suppress(RagMetricsError):
            rm.compare(*paths, resamples=100)
        with in_time(2), contextlib.suppress(RagMetricsError):
            rm.calibrate(paths[0], paths[1])
