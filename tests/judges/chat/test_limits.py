from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.judges.chat.client import TokenLimiter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_without_limits_nothing_waits() -> None:
    limiter = TokenLimiter()
    assert [limiter.enter(10_000) for _ in range(100)] == [0.0] * 100


@given(st.integers(50, 300), st.lists(st.integers(1, 100), min_size=1, max_size=30))
def test_no_minute_holds_more_than_the_limit(tokens: int, sizes: list[int]) -> None:
    clock = Clock()
    limiter = TokenLimiter(tokens, now=clock)
    passed: list[tuple[float, int]] = []
    for size in sizes:
        while (wait := limiter.enter(size)) > 0:
            clock.now += wait
        passed.append((clock.now, size))
        clock.now += 0.5
    for moment, _ in passed:
        minute = [size for at, size in passed if moment - 60 < at <= moment]
        assert sum(minute) <= tokens or len(minute) == 1


def test_a_pause_that_a_provider_asks_for_holds_everybody() -> None:
    clock = Clock()
    limiter = TokenLimiter(now=clock)
    limiter.hold(7.0)
    assert limiter.enter(1) == 7.0
    clock.now += 7.0
    assert limiter.enter(1) == 0.0
