"""Every metric and preset through every door with the offline judge: equal means, and no failed run."""

from __future__ import annotations

import json
from pathlib import Path

import mlflow
import pytest

from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.registry import all_metrics
from mlflow_ragmetrics.tracking.writer import mlflow_name
from tests.adapters import door_table
from tests.adapters.door_table import NAMES, RANKED
from tests.adapters.doors import DOORS, Door, directly, quiet, suite_of  # noqa: F401 - a fixture

CASES = [pytest.param(name, marks=() if name == "ndcg_5" else pytest.mark.slow) for name in NAMES]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", CASES)
def test_every_metric_has_the_same_mean_through_every_door(name: str, door: Door) -> None:
    suite = suite_of(name)
    expected = {key: directly(suite).get(f"{key}/mean") for key in suite.keys}
    assert any(value is not None for value in expected.values())
    found = door(suite)
    assert {key: found.get(f"{mlflow_name(key)}/mean") for key in suite.keys} == pytest.approx(expected)
    assert "" not in found
    assert not any(name.endswith("/") for name in found)
    assert mlflow.search_runs(output_format="list")[0].info.status == "FINISHED"


@pytest.mark.slow
def test_the_table_of_the_doors_counts_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    door_table.main(f"sqlite:///{tmp_path / 'doors.db'}", "ndcg_5")
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["of"] == 1
    assert set(found["passed"].values()) == {1}


def test_no_metric_is_forgotten() -> None:
    assert {name for name, each in all_metrics().items() if isinstance(each, Metric)} <= {*NAMES, *RANKED}
