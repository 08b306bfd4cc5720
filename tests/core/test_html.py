from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.html import render

OURS = {"style", "div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style", "class"}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def _read(markup: str) -> _Reader:
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    return reader


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_whatever_the_data_says_becomes_text(text: str) -> None:
    evidence = rm.Evidence(1, None, text)
    score = rm.Score(0.5, reason=text, items=(rm.Item("claim", text, "NEUTRAL", text, None, (evidence,)),), judge=text)
    read = _read(score._repr_html_())
    assert read.tags <= OURS
    assert text in "".join(read.texts)


def test_a_script_in_an_answer_is_shown_and_not_run() -> None:
    attack = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    shown = rm.Score(0.0, items=(rm.Item("claim", attack, "CONTRADICTED"),))._repr_html_()
    assert "<script" not in shown
    assert "<img" not in shown
    assert "&lt;script&gt;" in shown


def test_a_score_shows_value_grade_threshold_and_judge() -> None:
    shown = "".join(_read(rm.Score(0.75, scaled=4.0, threshold=0.8, judge="lexical")._repr_html_()).texts)
    assert "0.750 · 4.0 of 5 · failed at 0.8 · lexical" in shown


def test_what_has_no_value_shows_its_status_and_why() -> None:
    shown = rm.Score(error="JudgeError: no reply")._repr_html_()
    assert "<strong>error</strong>" in shown
    assert "no reply" in shown


def test_warnings_are_shown() -> None:
    assert "No context to verify." in rm.Score(1.0, warnings=(("no_context", "No context to verify."),))._repr_html_()


def test_of_very_many_items_fifty_are_shown() -> None:
    items = tuple(rm.Item("token", f"word{number}", "FOUND") for number in range(70))
    shown = rm.Score(1.0, items=items)._repr_html_()
    assert shown.count("<tr>") == 51
    assert "… and 20 more" in shown


def test_what_a_template_lacks_is_an_error_and_not_an_empty_page() -> None:
    with pytest.raises(UndefinedError, match="title"):
        render("report/report.html")


def test_characters_that_cannot_be_stored_are_replaced() -> None:
    shown = rm.Score(0.5, reason="half a pair \ud800, a NUL \x00")._repr_html_()
    assert "half a pair \ufffd, a NUL \ufffd" in shown
    shown.encode("utf-8")
