"""What a forked process does first: it drops what belongs to its parent, such as locks that nobody holds there."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Callable
from typing import TypeVar

Action = TypeVar("Action", bound=Callable[[], object])
_ACTIONS: list[Callable[[], Callable[[], object] | None]] = []


def after_fork(action: Action) -> Action:
    """Call ``action`` in each process forked from this one; a method, as long as its object lives."""
    _ACTIONS[:] = [find for find in _ACTIONS if find() is not None]
    _ACTIONS.append(weakref.WeakMethod(action) if inspect.ismethod(action) else lambda: action)
    return action


def _begin_child() -> None:
    for action in [find() for find in _ACTIONS]:
        if action is not None:
            action()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
