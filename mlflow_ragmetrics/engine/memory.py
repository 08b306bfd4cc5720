"""Memory of an evaluation: few passes of the garbage collector, and a reserve for the end if memory runs out."""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
_ALLOCATIONS = 100_000  # between two passes; each would visit the loaded modules and all rows so far
_RESERVE = 32 * 2**20  # bytes
_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely within this context: results stay, and hardly ever form cycles.

    Contexts may overlap, also in several threads.
    """
    with _lock:
        usual = _usual[0] if _usual else gc.get_threshold()
        _usual.append(usual)
        if usual[0]:  # 0 turns the collector off
            gc.set_threshold(max(usual[0], _ALLOCATIONS), *usual[1:])
    try:
        yield
    finally:
        with _lock:
            _usual.pop()
            if not _usual:
                gc.set_threshold(*usual)


@contextmanager
def reserved_memory() -> Iterator[None]:
    """Reserve memory within this context, and release it on an exception, so that its handlers can save the results."""
    reserve = [bytes(_RESERVE)]  # address space only: unlike those of a bytearray, its zeros take no memory
    try:
        yield
    except BaseException:
        reserve.clear()
        raise


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether memory ran out, also if a library then failed in another way or lost the exception."""
    while error is not None:
        is_lost = isinstance(error, SystemError) and "without" in str(error)  # "… NULL without setting an exception"
        if is_lost or isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


class Recent(OrderedDict[K, V]):
    """Keeps the last ``most`` keys; keeps all keys if ``most`` is ``None``.

    >>> recent = Recent(2)
    >>> for number, key in enumerate("abcde"):
    ...     recent[key] = number
    >>> [recent.get(key) for key in "abcde"]
    [None, None, None, 3, 4]
    """

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if self._most is not None and len(self) > self._most:
            self.popitem(last=False)
