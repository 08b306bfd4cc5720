from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics import evaluation

ROWS = [{"answer": "one two three"}, {"answer": "four five six"}]


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The successive outputs of a notebook cell."""
    shown: list[str] = []

    def show(data: dict[str, str], **_: Any) -> Any:
        shown.append(data["text/plain"])
        return SimpleNamespace(update=show)

    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=show))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(evaluation, "_REDRAWN_EVERY", -1)
    return shown


def test_a_notebook_shows_a_line_and_clears_it(cell: list[str]) -> None:
    rm.Suite(["coherence"]).evaluate(ROWS)
    assert cell[1] == "rows scored: 0 of 2"
    assert cell[2].startswith("rows scored: 1 of 2, about ")
    assert cell[-1] == ""


def test_silence_can_be_asked_for(cell: list[str]) -> None:
    rm.Suite(["coherence"]).evaluate(ROWS, progress=False)
    assert cell == []


def test_where_nobody_looks_there_is_none(capfd: pytest.CaptureFixture[str]) -> None:
    rm.Suite(["coherence"]).evaluate(ROWS)
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_a_line(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    rm.Suite(["coherence"]).evaluate(ROWS)
    assert "rows scored: 0 of 2" in capfd.readouterr().err
