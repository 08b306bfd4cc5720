"""Whatever is scored with any options: one of our errors or a score in its range, quickly."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.registry import all_metrics
from mlflow_ragmetrics.rows.record import to_sample
from tests.faults.budget import in_time, inputs
from tests.faults.strange import names, records, texts, values

METRICS = sorted(all_metrics())
_RAW = re.compile(
    r"\b(Arithmetic|Assertion|Attribute|Index|Key|Overflow|Recursion|Runtime|Type|Unicode|Value|Zero)\w*Error"
)
_SETTINGS = (
    "threshold",
    "preset",
    "key",
    "language",
    "on_missing",
    "models",
    "aggregate",
    "tolerance",
    "weights",
    "no_such",
)


def check(score: rm.Score, name: str) -> None:
    metric = all_metrics()[name]
    low, high = metric.definition.range if isinstance(metric, Metric) else (0.0, 1.0)
    assert (score.value is None) == (score.status != "ok")
    assert score.value is None or low <= score.value <= high
    assert score.scaled is None or 1 <= score.scaled <= 5
    numbers = [value for value in score.details.values() if isinstance(value, float)]
    assert all(map(math.isfinite, [*numbers, *score.model_scores.values()]))
    assert not _RAW.search(score.error or ""), score.error


@pytest.mark.parametrize("name", METRICS)
@inputs(25, 4000)
@given(record=records, strict=st.booleans())
def test_any_record(name: str, record: Any, strict: bool) -> None:
    with in_time(), contextlib.suppress(RagMetricsError):
        check(rm.score(name, record, on_missing="raise" if strict else "skip"), name)


@pytest.mark.parametrize("name", METRICS)
@inputs(15, 2000)
@given(data=st.data())
def test_any_option(name: str, data: st.DataObject) -> None:
    metric = all_metrics()[name]
    own = list(metric.definition.options.model_fields) if isinstance(metric, Metric) else []
    options = data.draw(st.dictionaries(st.sampled_from([*own, *_SETTINGS]), values, min_size=1, max_size=3))
    sample = {
        "question": "Who?",
        "answer": "A b c.",
        "reference": "A b.",
        "contexts": ["A b c."],
        "gold_doc_ids": ["a"],
    }
    with in_time(), contextlib.suppress(RagMetricsError):
        given_options = {"on_missing": "skip", **options}
        check(rm.score(name, sample, **given_options), name)


@inputs(150, 20_000)
@given(record=records, columns=st.one_of(st.none(), st.dictionaries(names, names, max_size=3)))
def test_any_record_as_a_sample(record: Any, columns: dict[str, str] | None) -> None:
    with in_time(), contextlib.suppress(RagMetricsError):
        sample = to_sample(record, columns)
        assert sample.id or sample.invalid
        assert to_sample(sample) is sample


@inputs(150, 20_000)
@given(spelled=st.one_of(texts, texts.map("rouge({})".format), texts.map("ndcg_{}".format), values))
def test_any_spelling(spelled: Any) -> None:
    with in_time(), contextlib.suppress(RagMetricsError):
        rm.score(spelled, {"answer": "a b", "reference": "a b"}, on_missing="skip")
