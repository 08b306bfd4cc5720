from __future__ import annotations

import io
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.cli.output import for_terminal, report_gates, terminal_width
from mlflow_ragmetrics.display.document import clean
from mlflow_ragmetrics.results.gates import Check


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\rb\tc\n d", "a b c d"),
        ("\x9b31mred", "31mred"),
        ("left\u202eright", "leftright"),
        ("[bold]markup[/bold]", "[bold]markup[/bold]"),
    ],
)
def test_what_steers_a_terminal_is_gone(text, shown):
    assert clean(text) == shown


@given(st.text())
def test_clean_text_is_one_line_without_controls(text):
    shown = clean(text)
    assert not any(unicodedata.category(character) == "Cc" for character in shown)
    assert clean(shown) == shown


@pytest.mark.parametrize("terminal", [True, False])
def test_lines_are_broken_for_a_terminal_only(monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    text = "a short line\n" + "word " * 20
    shown = for_terminal(text, stream).splitlines()
    assert (max(map(len, shown)) <= 40) is terminal
    assert " ".join(" ".join(shown).split()) == " ".join(text.split())
    assert terminal_width(stream) == (40 if terminal else None)


@pytest.mark.parametrize("passed", [True, False])
def test_the_line_of_a_gate_is_broken_between_words(monkeypatch, passed):
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout" if passed else "stderr", stream)
    assert report_gates([Check("gate", passed, "faithfulness/mean = 0.7595 and the limit is 0.8")]) is passed
    outcome = "passed" if passed else "failed"
    assert stream.getvalue() == f"Gate {outcome}: faithfulness/mean = 0.7595\n  and the limit is 0.8\n"
