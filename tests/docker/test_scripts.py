"""The containers' scripts alone, with a stand-in for the commands that they call."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from . import services

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")

STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" >> "$CALLS"
case "$2" in *broken*) echo "cannot read it"; exit 2 ;; esac
echo scored
"""


def _secret(folder: Path, name: str, content: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content, encoding="utf-8")


def _with_secrets(folder: Path) -> dict[str, str]:
    environment = {"PATH": os.environ["PATH"], "SECRETS": str(folder)}
    words = ["sh", str(services.DOCKER / "with_secrets.sh"), "env"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_each_secret_becomes_a_variable(tmp_path: Path) -> None:
    _secret(tmp_path, "PGPASSWORD", "it's $HOME `x`\n")
    assert _with_secrets(tmp_path)["PGPASSWORD"] == "it's $HOME `x`"


def test_an_empty_secret_and_a_file_that_is_none_set_nothing(tmp_path: Path) -> None:
    _secret(tmp_path, "OPENAI_API_KEY", "")
    _secret(tmp_path, "notes.txt", "not a secret")
    variables = _with_secrets(tmp_path)
    assert "OPENAI_API_KEY" not in variables
    assert "not a secret" not in variables.values()


def test_without_secrets_the_command_runs_all_the_same(tmp_path: Path) -> None:
    assert "SECRETS" in _with_secrets(tmp_path / "none")


@pytest.fixture
def worker(tmp_path: Path) -> dict[str, str]:
    """The environment of a worker whose ``ragmetrics`` records its arguments."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ragmetrics").write_text(STAND_IN, encoding="utf-8")
    (programs / "ragmetrics").chmod(0o755)
    (tmp_path / "work/inbox").mkdir(parents=True)
    path = f"{programs}:{os.environ['PATH']}"
    return {"PATH": path, "WORK": str(tmp_path / "work"), "CALLS": str(tmp_path / "calls"), "ONCE": "true"}


def _work(environment: dict[str, str]) -> str:
    words = ["sh", str(services.DOCKER / "evaluate.sh")]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=30).stdout


def test_files_go_to_done_or_failed_with_what_was_said(worker: dict[str, str]) -> None:
    work = Path(worker["WORK"])
    for name in ("two words.csv", "broken.jsonl", "unfinished.part"):
        (work / "inbox" / name).touch()
    _work(worker)
    assert {path.relative_to(work).as_posix() for path in work.rglob("*") if path.is_file()} == {
        "alive",
        "done/two words.csv",
        "done/two words.csv.log",
        "failed/broken.jsonl",
        "failed/broken.jsonl.log",
        "inbox/unfinished.part",
    }
    assert (work / "failed/broken.jsonl.log").read_text(encoding="utf-8") == "cannot read it\n"


def test_suite_judge_and_cache_come_from_the_environment(worker: dict[str, str]) -> None:
    (Path(worker["WORK"]) / "inbox/rows.tsv").touch()
    _work({**worker, "SUITE": "full", "JUDGE": "openai:/gpt-4o-mini", "CACHE": "judge.sqlite"})
    called = Path(worker["CALLS"]).read_text(encoding="utf-8").splitlines()
    assert called[0] == "evaluate"
    assert called[2:] == [
        *("--suite", "full", "--judge", "openai:/gpt-4o-mini"),
        *("--run-name", "rows.tsv", "--cache", "judge.sqlite"),
    ]


def test_an_evaluation_that_hangs_is_ended(worker: dict[str, str]) -> None:
    Path(worker["PATH"].split(":")[0], "ragmetrics").write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    (Path(worker["WORK"]) / "inbox/slow.jsonl").touch()
    assert "failed: slow.jsonl" in _work({**worker, "TIMEOUT": "1"})


def test_an_idle_worker_stops_when_told(worker: dict[str, str]) -> None:
    environment = {**worker, "ONCE": "", "INTERVAL": "60"}
    process = subprocess.Popen(["sh", str(services.DOCKER / "evaluate.sh")], env=environment, start_new_session=True)
    try:
        services.wait_for((Path(worker["WORK"]) / "alive").exists, "the worker", 10)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
