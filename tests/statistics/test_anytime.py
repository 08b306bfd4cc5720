from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_ragmetrics.statistics.anytime import ConfidenceSequence


def after(values: list[float] | np.ndarray, **options: float) -> ConfidenceSequence:
    sequence = ConfidenceSequence(**options)
    sequence.update(values)
    return sequence


def test_before_the_first_value_all_is_possible() -> None:
    sequence = ConfidenceSequence(low=-1, high=1)
    assert sequence.interval() == (-1, 1)
    assert (sequence.count, sequence.mean) == (0, None)
    sequence.update([np.nan])
    assert sequence.count == 0


def brute_force(values: list[float], level: float) -> tuple[float, float]:
    """Waudby-Smith and Ramdas's hedged capital with predictable plug-in stakes, mean by mean."""
    held = []
    for point in range(1001):
        m = point / 1000
        rising = falling = 1.0
        total, squares = 0.5, 0.25
        is_out = False
        for number, x in enumerate(values, start=1):
            stake = math.sqrt(2 * math.log(2 / (1 - level)) / (squares / number * number * math.log(1 + number)))
            rising *= 1 + min(stake, 0.5 / m if m else math.inf) * (x - m)
            falling *= 1 - min(stake, 0.5 / (1 - m) if m < 1 else math.inf) * (x - m)
            is_out |= max(rising, falling) / 2 >= 1 / (1 - level)
            total += x
            squares += (x - total / (number + 1)) ** 2
        if not is_out:
            held.append(point)
    return max(0, held[0] - 1) / 1000, min(1000, held[-1] + 1) / 1000


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 99), st.sampled_from([0.8, 0.95]))
def test_it_is_the_hedged_capital(seed: int, level: float) -> None:
    values = np.random.default_rng(seed).beta(3, 1, 40)
    assert after(values, level=level).interval() == pytest.approx(brute_force(values.tolist(), level))


def test_in_batches_or_one_by_one_is_the_same() -> None:
    values = np.random.default_rng(2).beta(4, 1, 700)
    whole, single = after(values), ConfidenceSequence()
    intervals = []
    for value in values:
        single.update(value)
        intervals.append(single.interval())
    assert single.interval() == pytest.approx(whole.interval())
    assert single.count == whole.count == 700
    assert single.mean == pytest.approx(values.mean())
    lows, highs = np.array(intervals).T
    assert (np.diff(lows) >= 0).all()
    assert (np.diff(highs) <= 0).all()


def test_another_range_is_the_same_stretched() -> None:
    values = np.random.default_rng(3).random(300)
    low, high = after(values).interval()
    assert after(4 * values - 2, low=-2, high=2).interval() == pytest.approx((4 * low - 2, 4 * high - 2))
    turned = after(1 - values).interval()
    assert turned == pytest.approx((1 - high, 1 - low))


def test_more_values_and_a_lower_level_narrow_it() -> None:
    values = np.random.default_rng(4).random(2000)
    width = [np.subtract(*after(values[:size]).interval()) for size in (50, 200, 2000)]
    assert width[0] < width[1] < width[2] < -0.02
    assert np.subtract(*after(values, level=0.8).interval()) > width[2]
    assert -width[2] < 4 * 1.96 * values.std() / 2000**0.5


def test_it_goes_on_from_its_state() -> None:
    values = np.random.default_rng(5).random(100)
    state = json.loads(json.dumps(after(values[:60], low=-1, level=0.9).to_dict()))
    again = ConfidenceSequence.from_dict(state)
    again.update(values[60:])
    whole = after(values, low=-1, level=0.9)
    assert again.interval() == pytest.approx(whole.interval())
    assert (again.count, again.level, again.low, again.high) == (100, 0.9, -1, 1)
    assert again.mean == pytest.approx(whole.mean)


def test_values_that_drift_are_told() -> None:
    sequence = after([0.0] * 500)
    assert not sequence.drifted
    before = sequence.interval()
    sequence.update([1.0] * 500)
    assert sequence.drifted
    low, high = sequence.interval()
    assert before[0] <= low <= high <= before[1]
    sequence.update([1.0])
    assert (sequence.interval(), sequence.count) == ((low, high), 1001)
    assert ConfidenceSequence.from_dict(sequence.to_dict()).drifted


def test_what_cannot_be_is_refused_and_nothing_is_taken_in() -> None:
    sequence = ConfidenceSequence()
    for value in (1.1, -0.1):
        with pytest.raises(ValueError, match="must lie in 0 to 1"):
            sequence.update([0.5, value])
    assert sequence.count == 0
    for options in ({"low": 1.0}, {"high": math.inf}, {"level": 1.0}, {"level": 0.0}):
        with pytest.raises(ValueError, match="must lie below"):
            ConfidenceSequence(**options)


@pytest.mark.parametrize(("low", "share"), [(0.0, 0.8), (-1.0, 0.5)])
def test_hardly_any_sequence_ever_leaves_out_the_truth(low: float, share: float) -> None:
    generator = np.random.default_rng(6)
    missed = 0
    for _ in range(100):
        values = np.where(generator.random(800) < share, 1.0, low)
        least, most = after(values, low=low).interval()
        missed += not least <= share + (1 - share) * low <= most
    assert missed / 100 <= 0.05 + 0.03
