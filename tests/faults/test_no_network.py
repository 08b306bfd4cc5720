"""Without any network, even loopback, everything that uses no model works."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from tests.display.pages import carried

ROWS = [
    {
        "id": f"row{number}",
        "question": f"Who built tower {number}?",
        "answer": f"Tower {number} was built by engineers in {1800 + number}. I am sure.",
        "reference": f"Engineers built tower {number} in 1889.",
        "contexts": [f"Tower {number} was built in 1889 by engineers.", "It is in Paris."],
        "retrieved_doc_ids": ["a", "b"],
        "gold_doc_ids": ["a"],
        "label": number % 2,
    }
    for number in range(6)
]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Any use of a socket that could leave the process fails the test, even if the error is caught."""
    used: list[str] = []

    def refuse(*arguments: Any, **_: Any) -> None:
        used.append(repr(arguments[1:]))
        raise OSError(101, "Network is unreachable")

    for name in ("connect", "connect_ex", "sendto", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    yield used
    assert not used


def command(*words: str) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def test_the_library_works() -> None:
    report = rm.Suite.preset("full").evaluate(ROWS)
    assert all(score.status != "error" for row in report.rows for score in row.scores.values())
    run = mlflow.get_run(report.log())
    assert "faithfulness/mean" in run.data.metrics
    assert "faithfulness" in carried(report.to_html())["keys"]
    assert rm.compare(run.info.run_id, report, resamples=100).verdict["rouge1_f1"] == "cannot be told"
    assert rm.calibrate(report, "label", key="faithfulness").rows == len(ROWS)


def test_the_command_line_works(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    for name in ("a", "b"):
        command("evaluate", str(rows), "--suite", "full", "--run-name", name, "-o", f"{name}.json")
    command("evaluate", str(rows), "--suite", "lexical", "--no-log", "-o", "page.html")
    assert "No verdict: 6 rows are too few" in command("compare", "a", "b")
    assert "No verdict: 6 rows are too few" in command("compare", "a.json", "b.json")
    assert "faithfulness" in command("calibrate", "a", str(rows), "--key", "faithfulness")
    assert "faithfulness" in command("list")
