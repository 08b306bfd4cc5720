"""How much a parsed file stands for, once its aliases are followed."""

from __future__ import annotations

from typing import Final

__all__ = ["MOST_NODES", "is_small"]

MOST_NODES: Final = 100_000


def is_small(content: object) -> bool:
    """Whether ``content`` holds at most ``MOST_NODES`` values, counted as often as they are referred to.

    A few lines of aliases of aliases stand for billions of values, and one that holds itself for no end of them: what
    reads them all, such as an error that shows them, would not come back.
    """
    pending = [content]
    seen = 0
    while pending:
        value = pending.pop()
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        seen += 1
        if isinstance(inner, (list, tuple, set)):
            pending.extend(inner)
        if seen + len(pending) > MOST_NODES:
            return False
    return True
