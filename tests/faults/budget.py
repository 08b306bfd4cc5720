"""How much the fault tests try: seconds' worth by default, the long form where ``RAGMETRICS_FAULTS=long``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings

LONG = os.environ.get("RAGMETRICS_FAULTS") == "long"
SECONDS = 1.0


def inputs(short: int, long: int) -> Callable[[Any], Any]:
    """The number of inputs that hypothesis tries."""
    return settings(
        max_examples=long if LONG else short, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


@contextmanager
def in_time(seconds: float = SECONDS) -> Iterator[None]:
    """What runs inside takes at most so many seconds of computing, whatever else the machine does."""
    began = time.thread_time()
    yield
    took = time.thread_time() - began
    assert took < seconds, f"it took {took:.1f} s"
