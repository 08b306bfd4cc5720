from __future__ import annotations

import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.comparison.repeats import repeatability
from mlflow_ragmetrics.core.score import Item

from .reports import noisy, report_of


def test_equal_runs_neither_spread_nor_flip() -> None:
    run = report_of(noisy(20), threshold=0.6, items=[(Item("claim", "c", "SUPPORTED"),)] * 20)
    figures = repeatability([run, run, run])
    expected = {"faithfulness/repeat_sd": 0.0, "faithfulness/flip_rate": 0.0, "repeat/item_flip_rate": 0.0}
    assert figures == pytest.approx(expected)


def test_spread_and_flips_by_hand() -> None:
    claims = [[(Item("claim", "c", verdict),)] * 4 for verdict in ("SUPPORTED", "SUPPORTED", "NEUTRAL")]
    values = [[0.5, 0.7, 0.2, None], [0.5, 0.5, 0.2, 0.3], [0.5, 0.6, 0.2, 0.9]]
    runs = [report_of(v, threshold=0.6, items=c) for v, c in zip(values, claims, strict=True)]  # type: ignore[arg-type]
    figures = repeatability(runs)
    assert figures["faithfulness/repeat_sd"] == pytest.approx(np.sqrt(0.01 / 3))
    assert figures["faithfulness/flip_rate"] == pytest.approx(1 / 3)
    assert figures["repeat/item_flip_rate"] == 1.0


def test_without_a_threshold_nothing_flips() -> None:
    assert "faithfulness/flip_rate" not in repeatability([report_of([0.5, 0.6]), report_of([0.7, 0.6])])


def test_one_run_or_runs_of_different_judges_are_refused() -> None:
    with pytest.raises(rm.InvalidOptionError, match="at least two"):
        repeatability([report_of([0.5])])
    with pytest.raises(rm.InvalidOptionError, match="not measured alike"):
        repeatability([report_of([0.5]), report_of([0.5], judge=["other"])])
