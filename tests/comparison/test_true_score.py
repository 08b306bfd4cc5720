"""Differences that people would have seen."""

from __future__ import annotations

import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.report.report import Report

from .reports import ALIKE


def side(shift: float, kindness: float, *, labelled: int = 60, rows: int = 300, seed: int = 0) -> Report:
    """The truth moved by ``shift``; the judge's scores are higher by ``kindness``."""
    hard = np.random.default_rng(7).normal(0.5, 0.1, rows)
    draw = np.random.default_rng(seed)
    truth = hard + shift + draw.normal(0, 0.02, rows)
    scores = truth + kindness + draw.normal(0, 0.02, rows)
    return Report(
        [
            Row(
                Sample(id=str(n), question=f"q{n}", metadata={"human": float(truth[n]) if n < labelled else None}),
                {"m": Score(float(scores[n]))},
            )
            for n in range(rows)
        ],
        description=dict(ALIKE),
    )


def test_a_judge_that_prefers_b_is_corrected() -> None:
    a, b = side(0.0, 0.0), side(0.0, 0.1, seed=1)
    comparison = rm.compare(a, b)
    assert comparison["m"].verdict == "improved"
    found = comparison.true_score("m", "human")
    assert found.judge == pytest.approx(comparison["m"].difference)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.005
    assert found.high > -0.005
    assert found.high < 0.02
    assert (found.labels, found.rows) == (60, 300)


def test_labels_of_the_two_sides_may_be_apart() -> None:
    a, b = side(0.0, 0.0), side(0.1, 0.0, seed=1)
    own = {row.sample.id: row.sample.metadata["human"] for row in a.rows[:40]}
    other = {row.sample.id: row.sample.metadata["human"] for row in b.rows[20:60]}
    found = rm.compare(a, b).true_score("m", own, other)
    assert found.value == pytest.approx(0.1, abs=0.03)
    with pytest.raises(InvalidOptionError, match="labels_b"):
        rm.compare(a, b).true_score("m", own)
