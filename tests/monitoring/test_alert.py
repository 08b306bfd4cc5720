"""Commands and webhooks are told, and whatever fails is said without their secrets."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import InvalidOptionError
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
            self.send_response(200 if self.path == "/good" else 500)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", told
    server.shutdown()
    server.server_close()


def test_a_webhook_is_posted_json(webhook: tuple[str, list[bytes]]) -> None:
    address, told = webhook
    assert send(f"{address}/good", "quality fell", {"before": 0.9}) is None
    assert json.loads(told[0]) == {"text": "quality fell", "before": 0.9}
    assert send(f"{address}/hush-hush", "", {}) == "the webhook answered 500"


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
