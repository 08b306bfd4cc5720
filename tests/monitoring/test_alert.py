"""Commands and webhooks are told, and whatever fails is said without their secrets."""

from __future__ import annotations

import json
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.monitoring import alert
from mlflow_ragmetrics.monitoring.alert import check_alert, send

PROGRAM = "import os, sys; open(sys.argv[1], 'w').write(os.environ['RAGMETRICS_ALERT_TEXT'] + '|' + sys.stdin.read())"


def test_a_command_gets_text_and_content(tmp_path: Path) -> None:
    file = tmp_path / "told.txt"
    command = shlex.join([sys.executable, "-c", PROGRAM, str(file)])
    assert send(command, "quality fell", {"cause": "system"}) is None
    text, _, content = file.read_text().partition("|")
    assert text == "quality fell"
    assert json.loads(content) == {"text": "quality fell", "cause": "system"}


def test_a_command_that_fails_is_said_without_the_command() -> None:
    assert send(shlex.join([sys.executable, "-c", "raise SystemExit(3)"]), "", {}) == "the alert's command ended with 3"
    reason = send("no-such-command --token hush-hush-0123", "", {})
    assert reason is not None
    assert "hush" not in reason
    assert "could not be started" in reason


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[bytes]]]:
    told: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/garbage":
                self.wfile.write(b"this is no HTTP\r\n\r\n")
                return
            if self.path == "/slow":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not self.connection.send(b"X: 1\r\n") or not time.sleep(0.1):
                    pass
            self.send_response({"/good": 200, "/moved": 302}.get(self.path, 500))
            if self.path == "/moved":
                self.send_header("Location", "/good")
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", told
    server.shutdown()
    server.server_close()


def test_a_webhook_is_posted_json(webhook: tuple[str, list[bytes]]) -> None:
    address, told = webhook
    assert send(f"{address}/good", "quality fell", {"before": 0.9}) is None
    assert json.loads(told[0]) == {"text": "quality fell", "before": 0.9}
    assert send(f"{address}/hush-hush", "", {}) == "the webhook answered 500"


def test_a_webhook_that_was_moved_has_told_nobody(webhook: tuple[str, list[bytes]]) -> None:
    assert send(f"{webhook[0]}/moved", "quality fell", {}) == "the webhook answered 302"


def test_a_webhook_that_answers_anything_or_never_ends_is_not_reached(
    webhook: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert send(f"{webhook[0]}/garbage", "", {}) == "the webhook was not reached (BadStatusLine)"
    monkeypatch.setattr(alert, "_SECONDS", 0.5)
    assert send(f"{webhook[0]}/slow", "", {}) == "the webhook was not reached (ThreadTimeoutError)"


def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert, "_SECONDS", 0.5)
    hangs = shlex.join([sys.executable, "-c", "import time; time.sleep(60)"])
    assert send(hangs, "", {}) == "the alert's command did not end within 0.5 seconds"


def test_a_webhook_that_is_not_reached_is_said_without_its_address() -> None:
    reason = send("http://127.0.0.1:9/services/hush-hush", "", {})
    assert reason is not None
    assert "hush" not in reason
    assert "was not reached" in reason


def test_the_target_is_a_secret_from_the_check_on() -> None:
    check_alert("https://example.org/hooks/abc-quite-secret-def")
    assert "quite-secret" not in redact("posted to https://example.org/hooks/abc-quite-secret-def")
    for wrong in (" ", "mail 'unclosed"):
        with pytest.raises(InvalidOptionError, match="alert"):
            check_alert(wrong)
