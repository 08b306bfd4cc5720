"""Which failed requests are sent again, and when."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import tenacity

from mlflow_ragmetrics.engine.threads import pause
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.failures import (
    REFUSED_KEYS,
    is_connection_failure,
    is_spoiled,
    quota_is_spent,
    retry_after,
    status_of,
)
from mlflow_ragmetrics.judges.chat.options import RetryOptions

__all__ = ["Retry"]

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """Does an action again where another attempt may succeed. ``sleep`` returns True where the run was ended meanwhile.

    Tried again are HTTP 429, 5xx and the other ``options.codes``, timeouts, connection errors and broken replies.
    """

    options: RetryOptions = field(default_factory=RetryOptions)
    sleep: Callable[[float], bool] = pause

    def asks_to_wait(self, error: BaseException) -> bool:
        """Whether the provider said that it is asked too often, or how long to wait."""
        return status_of(error) == 429 or retry_after(error) is not None

    def worth_it(self, error: BaseException) -> bool:
        """Whether another attempt may succeed."""
        if isinstance(error, JudgeError):
            return error.code == "timeout"
        status = status_of(error)
        if quota_is_spent(error):
            return False
        if status is None:
            return is_spoiled(error) or (isinstance(error, Exception) and is_connection_failure(error))
        if status in REFUSED_KEYS:
            return False
        asked = retry_after(error)
        if asked is not None and asked > self.options.longest_ask:
            return False
        return (
            is_spoiled(error)
            or status >= 500
            or status in self.options.codes
            or (self.options.on_client_errors and 400 <= status < 500)
        )

    def wait_after(self, error: BaseException, attempt: int) -> float:
        """Seconds to wait after the failed attempt of this number, from 1: what was asked for, else exponential."""
        asked = retry_after(error)
        if asked is not None:
            return asked
        grown = min(self.options.longest, self.options.initial * self.options.multiplier ** (attempt - 1))
        return grown * random.uniform(0.5, 1.0)

    def run(self, action: Callable[[], T], *, before_retry: Callable[[BaseException, float], None]) -> T:
        """Do ``action`` until it succeeds or no attempt is left; raises its last error."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.options.attempts),
            retry=tenacity.retry_if_exception(self.worth_it),
            wait=lambda state: self.wait_after(_error_in(state), state.attempt_number),
            before_sleep=lambda state: before_retry(_error_in(state), state.upcoming_sleep),
            sleep=self._sleep,
            reraise=True,
        )
        return retrying(action)

    def _sleep(self, seconds: float) -> None:
        if self.sleep(seconds):
            raise JudgeError("the run was ended before the judge answered", code="interrupted")


def _error_in(state: tenacity.RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome is not None else None
    return error or JudgeError("no attempt was made")
