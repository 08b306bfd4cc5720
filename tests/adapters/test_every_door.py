"""Every metric and preset through every door with the offline judge: equal means, and no failed run."""

from __future__ import annotations

import math

import mlflow
import pytest

from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.registry import all_metrics
from tests.adapters.door_table import NAMES, RANKED, fault
from tests.adapters.doors import DOORS, Door, directly, quiet, suite_of  # noqa: F401 - a fixture

CASES = [pytest.param(name, marks=() if name == "ndcg_5" else pytest.mark.slow) for name in NAMES]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", CASES)
def test_every_metric_has_the_same_mean_through_every_door(name: str, door: Door) -> None:
    assert any(math.isfinite(value) for key, value in directly(suite_of(name)).items() if key.endswith("/mean"))
    assert fault(door, name) is None
    (run,) = mlflow.search_runs(output_format="list")
    assert not any(key == "" or key.endswith("/") for key in run.data.metrics)
    assert run.info.status == "FINISHED"


def test_no_metric_is_forgotten() -> None:
    assert {name for name, each in all_metrics().items() if isinstance(each, Metric)} <= {*NAMES, *RANKED}
