from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mlflow_ragmetrics.engine import threads
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.judge_options import RetryOptions
from mlflow_ragmetrics.judges.chat.retry import Retry, failure_of, retry_after, status_of


class ClientError(Exception):
    """An error like those of HTTP clients: with a response that has a status and headers."""

    def __init__(self, status: int, headers: dict[str, str] | None = None, text: str = "went wrong") -> None:
        super().__init__(text)
        self.response = SimpleNamespace(status_code=status, headers=headers or {})


class APIConnectionError(Exception):
    """Named like the clients' errors for failed connections."""


def attempts_of(retry: Retry, *errors: Exception) -> tuple[int, list[float], BaseException | None]:
    """For an action that fails with these errors: the number of attempts, the waits, and the final error."""
    waits: list[float] = []
    calls = 0
    waiting = list(errors)

    def action() -> str:
        nonlocal calls
        calls += 1
        if waiting:
            raise waiting.pop(0)
        return "done"

    timed = replace(retry, sleep=waits.append)
    try:
        timed.run(action, before_retry=lambda error, seconds: None)
    except Exception as error:
        return calls, waits, error
    return calls, waits, None


@pytest.mark.parametrize(
    "error",
    [
        ClientError(429),
        ClientError(500),
        ClientError(503),
        TimeoutError(),
        ConnectionResetError(),
        APIConnectionError(),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    calls, waits, raised = attempts_of(Retry(), error, error)
    assert (calls, raised) == (3, None)
    assert 1.0 <= waits[0] <= 2.0
    assert 2.0 <= waits[1] <= 4.0


@pytest.mark.parametrize(
    "error",
    [
        ClientError(400),
        ClientError(401),
        ClientError(403),
        ClientError(404),
        ValueError("x"),
        ClientError(429, text="insufficient_quota"),
    ],
)
def test_what_will_not_pass_is_tried_once(error: Exception) -> None:
    assert attempts_of(Retry(), error) == (1, [], error)


def test_client_errors_can_be_tried_again_but_a_refused_key_never() -> None:
    retry = Retry(RetryOptions(on_client_errors=True))
    assert attempts_of(retry, ClientError(404))[0] == 2
    assert attempts_of(retry, ClientError(401))[0] == 1


def test_six_attempts_with_waits_that_double_up_to_thirty_seconds() -> None:
    calls, waits, raised = attempts_of(Retry(), *[ClientError(500)] * 9)
    assert calls == 6
    assert status_of(raised or Exception()) == 500
    for wait, longest in zip(waits, [2.0, 4.0, 8.0, 16.0, 30.0], strict=True):
        assert longest / 2 <= wait <= longest


def test_retry_after_is_obeyed_up_to_five_minutes() -> None:
    assert attempts_of(Retry(), ClientError(429, {"retry-after": "17"}))[1] == [17.0]
    assert attempts_of(Retry(), ClientError(503, {"retry-after-ms": "250"}))[1] == [0.25]
    assert attempts_of(Retry(), ClientError(429, {"retry-after": "301"}))[0] == 1
    assert retry_after(ClientError(429, {"retry-after": "soon"})) is retry_after(ClientError(429)) is None


def test_the_status_is_found_behind_a_clients_own_error() -> None:
    outer = RuntimeError("model call failed")
    outer.__cause__ = ClientError(502)
    assert status_of(outer) == 502
    assert status_of(ValueError("no status")) is None


def test_an_ended_run_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    closing = threading.Event()
    closing.set()
    # As in a thread whose workers were closed while it waited: real ones would be closed at a moment left to chance.
    monkeypatch.setattr(threads._local, "closing", closing, raising=False)
    failing: Any = ClientError(500)

    def action() -> None:
        raise failing

    with pytest.raises(JudgeError) as raised:
        Retry().run(action, before_retry=lambda error, seconds: None)
    assert raised.value.code == "interrupted"


def test_a_refused_key_is_fatal_and_stands_in_no_message() -> None:
    failure = failure_of("gpt", ClientError(401, text="Incorrect API key provided: sk-abcdefghijklmnop1234."), 6)
    assert failure.fatal
    assert failure.code == "http_401"
    assert "abcdefghijklmnop" not in str(failure)
    assert not failure_of("gpt", ClientError(500), 6).fatal
    assert "after 6 attempts" in str(failure_of("gpt", ClientError(500), 6))
