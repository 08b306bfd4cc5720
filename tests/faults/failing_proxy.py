"""A proxy that drops requests, answers them with status 500, or loses the server's reply."""

from __future__ import annotations

import http.client
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KINDS = ("drop", "500", "lose")


class Proxy(ThreadingHTTPServer):
    """Fails a share of the requests, and counts its failures."""

    daemon_threads = True

    def __init__(self, port: int, share: float = 0.0, seed: int = 1) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port, self.share = port, share
        self.done: Counter[str] = Counter()
        self._chance, self._lock = random.Random(seed), threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def mishap(self) -> str | None:
        with self._lock:
            self.done["requests"] += 1
            kind = self._chance.choice(KINDS) if self._chance.random() < self.share else None
            self.done[kind or "fine"] += 1
            return kind


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        mishap = self.server.mishap()
        self.close_connection = True
        if mishap == "drop":
            self.connection.close()
            return
        if mishap == "500":
            self.send_error(500)
            return
        inner = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        inner.request(self.command, self.path, body, headers)
        reply = inner.getresponse()
        content = reply.read()
        inner.close()
        if mishap == "lose":
            self.connection.close()
            return
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def finish(self) -> None:
        with suppress(OSError, ValueError):  # the connection was closed above
            super().finish()


@contextmanager
def failing_proxy(port: int, share: float = 0.0) -> Iterator[Proxy]:
    proxy = Proxy(port, share)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
