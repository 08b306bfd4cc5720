"""A real ``mlflow server`` on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path


class Server:
    """``mlflow server`` on one port, which can be killed with all its workers and restarted.

    ``store``: its backend, by default a SQLite file in ``folder``. ``environment``: additional variables.
    """

    def __init__(self, folder: Path, store: str = "sqlite:///mlflow.db", **environment: str) -> None:
        self.folder = folder
        self.store = store
        self.environment = environment
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        store = ["--backend-store-uri", self.store, "--artifacts-destination", "artifacts", "--workers", "1"]
        command = [sys.executable, "-m", "mlflow", "server", "--port", str(self.port), *store]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        kept["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"  # its runners are in a separate session and would survive
        with (self.folder / "said").open("ab") as said:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**kept, **self.environment},
                start_new_session=True,
                stdout=said,
                stderr=said,
            )
        until = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=1).close()
            except OSError:
                assert time.monotonic() < until, "the server does not start"
                time.sleep(0.1)
            else:
                return

    def kill(self) -> None:
        """Kill it and its workers, without a word."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
