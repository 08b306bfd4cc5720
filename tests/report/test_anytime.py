"""Figures that may be looked at as often as one likes, and the state that goes from look to look."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report.report import Report
from mlflow_ragmetrics.statistics.anytime import ConfidenceSequence


def look(start: int, rows: int = 100, mean: float = 0.7, **description: object) -> Report:
    draw = np.random.default_rng(start)
    return Report(
        [
            Row(Sample(id=str(n), metadata={"chat": n // 5}), {"m": Score(float(draw.random() < mean))})
            for n in range(start, start + rows)
        ],
        description=description,
    )


def _width(metrics: Mapping[str, float]) -> float:
    return metrics["m/anytime_high"] - metrics["m/anytime_low"]


def test_several_looks_are_one_sequence() -> None:
    first = look(0).with_anytime()
    second = look(100).with_anytime(first.anytime)
    values = [score.value for report in (first, second) for score in report.scores("m")]
    sequence = ConfidenceSequence()
    sequence.update([value for value in values if value is not None])
    low, high = sequence.interval()
    metrics = second.metrics
    assert (metrics["m/anytime_low"], metrics["m/anytime_high"], metrics["m/anytime_n"]) == (low, high, 200)
    assert _width(metrics) < _width(first.metrics)


def test_the_interval_is_wider_than_that_of_one_look() -> None:
    metrics = look(0).with_anytime().metrics
    assert _width(metrics) > metrics["m/ci_high"] - metrics["m/ci_low"]


def test_rows_that_were_counted_are_not_counted_again_and_a_warning_says_so() -> None:
    first = look(0).with_anytime()
    again = look(50).with_anytime(first.anytime)
    assert again.metrics["m/anytime_n"] == 150
    assert again.warnings == ("50 rows were counted by an earlier look: the anytime intervals leave them out",)


def test_the_state_goes_through_json() -> None:
    first = look(0).with_anytime()
    assert first.anytime is not None
    stored = json.loads(json.dumps(first.anytime.to_dict()))
    assert look(100).with_anytime(stored).metrics == look(100).with_anytime(first.anytime).metrics
    with pytest.raises(rm.InvalidDataError, match="not the state"):
        look(0).with_anytime({"sequences": 3})


def test_each_group_counts_once() -> None:
    assert look(0, groups="chat").with_anytime().metrics["m/anytime_n"] == 20


def test_scores_off_the_scale_have_no_such_interval() -> None:
    report = Report([Row(Sample(id=str(n)), {"m": Score(value)}) for n, value in enumerate([0.5, -0.5, 0.7])])
    assert "m/anytime_low" not in report.with_anytime().metrics


def test_unscored_rows_count_for_nothing() -> None:
    report = Report([Row(Sample(id=str(n)), {"m": Score(0.5 if n else None)}) for n in range(4)])
    assert report.with_anytime().metrics["m/anytime_n"] == 3
    assert "m/anytime_low" not in Report([Row(Sample(id="1"), {"m": Score()})]).with_anytime().metrics


def test_a_gate_may_look_at_it() -> None:
    with pytest.raises(rm.GateError, match="m/anytime_low"):
        look(0, 20).with_anytime().check(**{"m/anytime_low": 0.6})
