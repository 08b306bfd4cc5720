"""Falls are found, steady means are not taken for falls, and the right one of system and judge is named."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlflow_ragmetrics.statistics.falls import (
    FallDetector,
    Moments,
    Shift,
    cause_of,
    paired_shift,
    shift_between,
    since_when,
)


def test_a_steady_mean_raises_no_alarm_more_often_than_the_error_says() -> None:
    generator = np.random.default_rng(0)
    fallen = 0
    for _ in range(40):
        detector = FallDetector(error=0.05)
        for _ in range(200):
            detector.update(generator.beta(4, 1, 5))
        fallen += detector.fallen
    assert fallen <= 3


@pytest.mark.parametrize(("low", "high", "before", "after"), [(0, 1, 0.9, 0.7), (-1, 1, 0.0, -0.1), (0, 1, 0.4, 0.2)])
def test_a_fall_is_found_and_stays_found(low: float, high: float, before: float, after: float) -> None:
    generator = np.random.default_rng(1)
    detector = FallDetector(low=low, high=high)
    for mean, looks in ((before, 80), (after, 80)):
        for _ in range(looks):
            detector.update(np.clip(generator.normal(mean, 0.08, 10), low, high))
        assert detector.fallen == (mean == after)
    detector.update([high] * 50)
    assert detector.fallen


def test_a_rise_is_no_fall() -> None:
    detector = FallDetector()
    for value in (0.5, 0.9):
        for _ in range(100):
            detector.update([value] * 5)
    assert not detector.fallen


def test_a_limit_is_kept_from_the_first_look_on() -> None:
    above, below = FallDetector(floor=0.6), FallDetector(floor=0.6)
    for _ in range(60):
        above.update([0.65, 0.7])
        below.update([0.4, 0.5])
    assert below.fallen
    assert not above.fallen


def test_it_goes_on_from_its_state_as_if_it_had_never_ended() -> None:
    generator = np.random.default_rng(2)
    looks = [generator.random(4) for _ in range(30)]
    whole = FallDetector()
    parts = FallDetector()
    for look in looks:
        whole.update(look)
        parts = FallDetector.from_dict(parts.to_dict())
        parts.update(look)
    assert whole.to_dict() == parts.to_dict()


def test_what_is_missing_does_not_count_and_what_is_outside_is_refused() -> None:
    detector = FallDetector()
    detector.update([math.nan, math.nan])
    assert detector.looks == 0
    with pytest.raises(ValueError, match="0 to 1"):
        detector.update([1.5])
    with pytest.raises(ValueError, match="floor=2"):
        FallDetector(floor=2)


@pytest.mark.parametrize(
    ("fall", "judge", "cause"),
    [
        (Shift(0.2, 0.05), Shift(0.0, 0.02), "system"),
        (Shift(0.2, 0.05), Shift(0.19, 0.02), "judge"),
        (Shift(0.4, 0.05), Shift(0.2, 0.02), "system and judge"),
        (Shift(0.2, 0.05), Shift(0.0, 0.3), "not known"),
        (Shift(0.2, 0.05), Shift(0.004, 0.003), "system"),  # a judge that has moved by next to nothing
        (None, Shift(0.1, 0.02), "judge"),
        (None, Shift(-0.1, 0.02), "judge"),
        (Shift(0.2, 0.05), None, "not known"),
    ],
)
def test_the_cause_is_what_accounts_for_the_fall(fall: Shift | None, judge: Shift | None, cause: str) -> None:
    assert cause_of(fall, judge) == cause


def test_shifts_are_falls_with_their_intervals() -> None:
    assert shift_between(Moments.of([1.0]), Moments.of([0.0, 0.0])) is None
    found = shift_between(Moments.of([1.0, 0.8] * 20), Moments.of([0.5, 0.7] * 20))
    assert found is not None
    assert found.low < 0.3 < found.high
    assert found.low > 0.2
    paired = paired_shift([0.9, 0.8, math.nan, 0.7], [0.8, 0.7, 0.1, 0.6])
    assert paired is not None
    assert paired.size == pytest.approx(0.1)
    assert paired.margin < 1e-6


def test_the_change_is_dated_where_values_begin_to_lie_below() -> None:
    looks = [Moments.of(values) for values in ([0.9, 0.8], [0.7, 0.9], [0.4, 0.5], [0.6, 0.3])]
    assert since_when(looks, 0.7) == 2
