"""The services of ``docker/compose.yaml`` without Docker: the same scripts and environment at other addresses."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

DOCKER = Path(__file__).parents[2] / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
PASSWORD = "not-in-any-argument-7f3a"


def postgres_binaries() -> Path | None:
    """The folder of PostgreSQL's programs: on the path, or in Debian's location."""
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path(found).parent] if found else []
    wanted = ("initdb", "postgres", "pg_isready", "createdb")
    return next((folder for folder in folders if all((folder / name).exists() for name in wanted)), None)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def environment(service: str, addresses: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The service's environment from the compose file, with local ``addresses`` (host:port) and paths."""
    given = {"PATH": f"{Path(sys.executable).parent}:{DOCKER}:{os.environ['PATH']}", "HOME": str(folder)}
    for name, value in COMPOSE["services"][service]["environment"].items():
        given[name] = localised(str(value), addresses, folder)
    return given


def localised(text: str, addresses: Mapping[str, str], folder: Path) -> str:
    text = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", text).replace("$$", "$").replace("/evaluations", str(folder / "work"))
    for there, here in addresses.items():
        text = text.replace(there, here)
    return text


def health(service: str, addresses: Mapping[str, str], folder: Path) -> int:
    """The exit code of the service's own health check."""
    kind, *words = COMPOSE["services"][service]["healthcheck"]["test"]
    words = [localised(word, addresses, folder) for word in words]
    command = ["sh", "-c", words[0]] if kind == "CMD-SHELL" else words
    return subprocess.run(command, env=environment(service, addresses, folder), capture_output=True).returncode


def command(service: str) -> list[str]:
    """The command that the container runs: the image's entrypoint and the service's command."""
    script = COMPOSE["services"][service]["command"][0]
    return ["sh", str(DOCKER / "with_secrets.sh"), "sh", str(DOCKER / script)]


@contextmanager
def running(arguments: list[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process in its own group, ended with all its children."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            arguments, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, **options
        )
        try:
            yield process
        finally:
            for signal_number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, signal_number)
                    process.wait(timeout=15)
                except ProcessLookupError:
                    break
                except subprocess.TimeoutExpired:
                    continue


@contextmanager
def postgres(binaries: Path, port: int) -> Iterator[None]:
    """A real server with password authentication, and the compose file's user and database."""
    account = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="ragmetrics-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD, encoding="utf-8")
        if account:
            for path in (folder, folder / "password"):
                shutil.chown(path, "postgres", "postgres")
        wanted = ["--auth-host=scram-sha-256", "--auth-local=reject", f"--pwfile={folder / 'password'}"]
        made = [binaries / "initdb", "-D", folder / "data", "-U", "mlflow", *wanted]
        subprocess.run(made, check=True, capture_output=True, cwd="/", **account)
        settings = ["-c", f"unix_socket_directories={folder}", "-c", "fsync=off", "-h", "127.0.0.1", "-p", str(port)]
        serving = [str(binaries / "postgres"), "-D", str(folder / "data"), *settings]
        with running(serving, folder / "log", cwd="/", **account):
            ready = [binaries / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
            wait_for(lambda: subprocess.run(ready, capture_output=True).returncode == 0, "PostgreSQL")
            create = [binaries / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "mlflow", "mlflow"]
            subprocess.run(create, check=True, env={**os.environ, "PGPASSWORD": PASSWORD})
            yield


def wait_for(reached: Callable[[], bool], what: str, seconds: float = 90.0) -> None:
    until = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < until, f"{what} is not there after {seconds:.0f} s"
        time.sleep(0.3)
