from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from mlflow_ragmetrics.engine import threads
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.client import ModelClient, TokenLimiter
from mlflow_ragmetrics.judges.chat.failures import failure_of, retry_after, status_of
from mlflow_ragmetrics.judges.chat.judge_options import JudgeOptions
from tests.judges.fake_models import FakeChatModel


class ClientError(Exception):
    """An error like those of HTTP clients: with a response that has a status and headers."""

    def __init__(self, status: int, headers: dict[str, str] | None = None, text: str = "went wrong") -> None:
        super().__init__(text)
        self.response = SimpleNamespace(status_code=status, headers=headers or {})


class APIConnectionError(Exception):
    """Named like the clients' errors for failed connections."""


class Client(ModelClient):
    """A client that waits in no time: its clock advances instead."""

    def __init__(self, model: Any, **options: Any) -> None:
        super().__init__("gpt", model, {}, JudgeOptions(structured=False, **options))
        self.waits: list[float] = []
        self._limiter = TokenLimiter(now=lambda: sum(self.waits))

    def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


MESSAGES, SCHEMA = [("human", "Well?")], {"properties": {}}


def attempts_of(*errors: Exception, **retry: Any) -> tuple[int, list[float], JudgeError | None]:
    """For a model that fails with these errors: the number of attempts, the waits between them, and the failure."""
    failures = list(errors)
    client = Client(FakeChatModel(reply=lambda _: failures.pop(0) if failures else "{}"), retry=retry or None)
    raised = None
    try:
        client.reply(MESSAGES, SCHEMA)
    except JudgeError as error:
        raised = error
    return int(client.usage.snapshot()["calls"]), client.waits, raised


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
    calls, waits, raised = attempts_of(error, error)
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
    calls, waits, raised = attempts_of(error)
    assert (calls, waits, raised is None) == (1, [], False)


def test_client_errors_can_be_tried_again_but_a_refused_key_never() -> None:
    assert attempts_of(ClientError(404), on_client_errors=True)[0] == 2
    assert attempts_of(ClientError(401), on_client_errors=True)[0] == 1


def test_six_attempts_with_waits_that_double_up_to_thirty_seconds() -> None:
    calls, waits, raised = attempts_of(*[ClientError(500)] * 9)
    assert calls == 6
    assert "HTTP 500 after 6 attempts" in str(raised)
    for wait, longest in zip(waits, [2.0, 4.0, 8.0, 16.0, 30.0], strict=True):
        assert longest / 2 <= wait <= longest


def test_retry_after_is_obeyed_up_to_five_minutes() -> None:
    assert attempts_of(ClientError(429, {"retry-after": "17"}))[1] == [17.0]
    assert attempts_of(ClientError(503, {"retry-after-ms": "250"}))[1] == [0.25]
    assert attempts_of(ClientError(429, {"retry-after": "301"}))[0] == 1
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
    client = ModelClient("gpt", FakeChatModel(reply=lambda _: ClientError(500)), {}, JudgeOptions())
    with pytest.raises(JudgeError) as raised:
        client.reply(MESSAGES, SCHEMA)
    assert raised.value.code == "interrupted"


def test_a_refused_key_is_fatal_and_stands_in_no_message() -> None:
    failure = failure_of("gpt", ClientError(401, text="Incorrect API key provided: sk-abcdefghijklmnop1234."), 6)
    assert failure.fatal
    assert failure.code == "http_401"
    assert "abcdefghijklmnop" not in str(failure)
    assert not failure_of("gpt", ClientError(500), 6).fatal
    assert "after 6 attempts" in str(failure_of("gpt", ClientError(500), 6))
