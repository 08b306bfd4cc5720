"""A model call that nobody else sees and that cannot hang: own thread, own context, own deadline."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from mlflow_ragmetrics.errors import JudgeError

__all__ = ["run_apart"]

T = TypeVar("T")


def run_apart(action: Callable[[], T], timeout: float | None, *, trace: bool = False) -> T:
    """What ``action`` returns or raises, run in a daemon thread with an empty context.

    A chain's callbacks and an open trace live in context variables, so that the call inherits neither; unless
    ``trace``, MLflow's autologging and LangSmith record none of it. After ``timeout`` seconds a ``JudgeError`` with the
    code ``"timeout"`` is raised, whatever the client does with its own timeout; its thread is left to itself.
    """
    outcome: list[Callable[[], T]] = []
    done = threading.Event()

    def work() -> None:
        try:
            result = contextvars.Context().run(_untraced if not trace else _called, action)
            outcome.append(lambda: result)
        except BaseException as error:  # raised again below, in the thread that waits
            outcome.append(_raiser(error))
        finally:
            done.set()

    threading.Thread(target=work, daemon=True, name="ragmetrics-call").start()
    if not done.wait(timeout):
        raise JudgeError(f"no reply within {timeout:g} s", code="timeout")
    return outcome[0]()


def _raiser(error: BaseException) -> Callable[[], Any]:
    def raise_it() -> Any:
        raise error

    return raise_it


def _called(action: Callable[[], T]) -> T:
    return action()


def _untraced(action: Callable[[], T]) -> T:
    with ExitStack() as stack:
        if "langsmith" in sys.modules:
            from langsmith.run_helpers import tracing_context

            stack.enter_context(tracing_context(enabled=False))
        _set_mlflow_sampling()
        return action()


def _set_mlflow_sampling() -> None:
    """In this context MLflow samples no trace: callbacks that autologging adds to every call then record nothing."""
    if "mlflow.tracing" not in sys.modules:
        return
    try:
        from mlflow.tracing.sampling import _SAMPLING_RATIO_OVERRIDE
    except ImportError:  # an older MLflow samples all traces alike
        return
    ratio: contextvars.ContextVar[Any] = _SAMPLING_RATIO_OVERRIDE
    ratio.set(0.0)
