"""A mapping that forgets, for streams without end."""

from __future__ import annotations

from typing import Generic, TypeVar, Union

__all__ = ["Recent"]

V = TypeVar("V")


class Recent(Generic[V]):
    """Keeps at least the last ``least`` keys that were set, and at most twice as many; all of them for ``None``.

    >>> recent = Recent(2)
    >>> for number, key in enumerate("abcde"):
    ...     recent[key] = number
    >>> [recent.get(key) for key in "abcde"]
    [None, None, 2, 3, 4]
    """

    def __init__(self, least: int | None = None) -> None:
        self._least = least
        self._newer: dict[str, V] = {}
        self._older: dict[str, V] = {}

    def __setitem__(self, key: str, value: V) -> None:
        if len(self._newer) == self._least:
            self._older, self._newer = self._newer, {}
        self._newer[key] = value

    def get(self, key: str) -> Union[V, None]:
        """The value last set, or ``None``."""
        return self._newer.get(key, self._older.get(key))
