"""Runs commands in a temporary folder and restores the process afterwards."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mlflow_ragmetrics.cli import main

Run = Callable[..., Result]
Write = Callable[..., str]

ROWS: list[dict[str, Any]] = [
    {
        "id": "tower",
        "question": "How high is the tower?",
        "answer": "The tower is 330 metres high. It was built in 1925.",
        "reference": "The tower is 330 metres high.",
        "contexts": [{"id": "t-1", "text": "The tower is 330 metres high."}, "It was built in 1889 by engineers."],
    },
    {
        "id": "river",
        "question": "How long is the river?",
        "answer": "The river is 777 kilometres long.",
        "reference": "The river is 777 kilometres long.",
        "contexts": ["The river is 777 kilometres long."],
    },
]


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return json.loads(json.dumps(ROWS))


@pytest.fixture
def ragmetrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    with warnings.catch_warnings():
        yield lambda *arguments: CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Write rows as JSON lines and return the file's name."""

    def write(rows: list[Any], name: str = "answers.jsonl") -> str:
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return name

    return write
