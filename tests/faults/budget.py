"""The amount of fuzzing: seconds by default, more with ``RAGMETRICS_FAULTS=long``."""

from __future__ import annotations

import functools
import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings

LONG = os.environ.get("RAGMETRICS_FAULTS") == "long"
SECONDS = 1.0
TRIED: Counter[str] = Counter()


def inputs(short: int, long: int) -> Callable[[Any], Any]:
    """The number of inputs for hypothesis; the tried ones are counted under the test's name."""

    def applied(test: Any) -> Any:
        inner = test.hypothesis.inner_test

        @functools.wraps(inner)
        def counted(*arguments: Any, **named: Any) -> None:
            TRIED[test.__name__] += 1
            inner(*arguments, **named)

        test.hypothesis.inner_test = counted
        most = long if LONG else short
        return settings(max_examples=most, deadline=None, database=None, suppress_health_check=list(HealthCheck))(test)

    return applied


@contextmanager
def in_time(seconds: float = SECONDS) -> Iterator[None]:
    """The block takes at most this many seconds of CPU time.

    Garbage collection is off, because after thousands of inputs its time grows with the heap of the test.
    """
    gc.disable()
    began = time.thread_time()
    try:
        yield
    finally:
        took = time.thread_time() - began
        gc.enable()
    assert took < seconds, f"it took {took:.1f} s"
