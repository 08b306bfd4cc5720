from __future__ import annotations

import pytest

from mlflow_ragmetrics.core.score import passes, verdict_name


@pytest.mark.parametrize(
    ("value", "threshold", "reached"),
    [
        (0.7, 0.7, True),
        (1 - 0.1 - 0.2, 0.7, True),
        (1 - 0.9, 0.1, True),
        (0.7 - 1e-6, 0.7, False),
        (0.6999, 0.7, False),
    ],
)
def test_a_threshold_is_reached_but_for_the_last_bits(value: float, threshold: float, reached: bool) -> None:
    assert passes(value, threshold) is reached


def test_a_verdict_of_several_metrics_speaks_of_passages_where_one_of_them_does() -> None:
    assert verdict_name("NEUTRAL", "answer") == verdict_name("NEUTRAL", "reference") == "not supported"
    assert verdict_name("NEUTRAL") == "not in the passages"
    assert verdict_name("CONTRADICTED", "answer") == "contradicted"
