"""What one evaluation has cost, where several use the same judges at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar

__all__ = ["CALLER", "ChargesCaller", "Expenses", "charge"]


class Expenses:
    """Counts by name, added up by the threads that work for one caller."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def update(self, counts: Mapping[str, float]) -> None:
        """Add to the counts of these names."""
        with self._lock:
            self._counts.update(counts)

    def counts(self) -> Counter[str]:
        """All counts so far."""
        with self._lock:
            return Counter(self._counts)


CALLER: ContextVar[Expenses | None] = ContextVar("ragmetrics_expenses", default=None)
"""Whom judges' requests are charged to in this context."""


def charge(counts: Mapping[str, float]) -> None:
    """Add to what the caller of this context has to pay, if there is one."""
    caller = CALLER.get()
    if caller is not None:
        caller.update(counts)


class ChargesCaller:
    """A judge's meter that charges each request to ``CALLER`` as well, so that one caller's share of it is known."""
