"""A real HTTP server with OpenAI's chat protocol that misbehaves according to a script."""

from __future__ import annotations

import json
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.judges.fake_models import dutiful_reply


@dataclass
class Fault:
    """The answer to one request: a status, headers, a reply, a delay, seconds per byte, a closed connection."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content: str | None = None
    finish_reason: str = "stop"
    refusal: str | None = None
    delay: float = 0.0
    reset: bool = False
    breaks_off: bool = False
    drip: float = 0.0
    body: bytes | None = None


@dataclass
class Script:
    """Faults for the next requests, in order; other requests get a dutiful answer. ``requests`` stores all."""

    faults: list[Fault] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    delay: float = 0.0
    usage: Any = field(
        default_factory=lambda: {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 64},
        }
    )
    in_flight: int = 0
    most_in_flight: int = 0
    open: int = 0
    most_open: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_fault(self, request: dict[str, Any]) -> Fault:
        """The fault for this request."""
        with self.lock:
            self.requests.append(request)
            self.times.append(time.monotonic())
            return self.faults.pop(0) if self.faults else Fault(delay=self.delay)


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.script.lock:
            self.script.open += 1
            self.script.most_open = max(self.script.most_open, self.script.open)
        try:
            with self._in_flight():  # until the reply begins: its receiver may ask again before this thread continues
                fault = self.script.next_fault(request)
                left = self._left_within(fault.delay)
            if left:
                self.close_connection = True
            else:
                self._answer(request, fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with self.script.lock:
                self.script.open -= 1

    @contextmanager
    def _in_flight(self) -> Iterator[None]:
        with self.script.lock:
            self.script.in_flight += 1
            self.script.most_in_flight = max(self.script.most_in_flight, self.script.in_flight)
        try:
            yield
        finally:
            with self.script.lock:
                self.script.in_flight -= 1

    def _answer(self, request: dict[str, Any], fault: Fault) -> None:
        if fault.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        body = fault.body or (
            _completion(request, fault, self.script.usage) if fault.status == 200 else _error(f"status {fault.status}")
        )
        self.send_response(fault.status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **fault.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        for each in body if fault.drip else ():
            self.wfile.write(bytes([each]))
            time.sleep(fault.drip)
        self.wfile.write(b"" if fault.drip else body[: len(body) // 2] if fault.breaks_off else body)
        self.close_connection |= fault.breaks_off

    def _left_within(self, seconds: float) -> bool:
        """Waits; returns True as soon as the client hangs up, so that abandoned requests are not in flight."""
        with selectors.DefaultSelector() as selector:  # unlike select, for any number of open files
            selector.register(self.connection, selectors.EVENT_READ)
            return bool(seconds and selector.select(seconds))

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


def _completion(request: dict[str, Any], fault: Fault, usage: Any) -> bytes:
    said = request["messages"]
    content = fault.content
    if content is None and fault.refusal is None:
        system, _, data = said[0]["content"].rpartition("\n\n[") if len(said) == 1 else (said[0]["content"], "", "")
        content = json.dumps(dutiful_reply(system, f"[{data}" if data else said[1]["content"]))
    message = {"role": "assistant", "content": content, "refusal": fault.refusal}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": fault.finish_reason, "logprobs": None}],
            "usage": usage,
        }
    ).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that hang up."""


@contextmanager
def misbehaving_server(*faults: Fault, **options: Any) -> Iterator[Script]:
    """A server on loopback; its address is ``script.url``."""
    with served(Script(list(faults), **options)) as script:
        yield script


@contextmanager
def served(script: Script) -> Iterator[Script]:
    """A server that follows ``script``."""
    handler = type("Handler", (_Handler,), {"script": script})
    server = _Server(("127.0.0.1", 0), handler)
    script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
