"""Markdown that shows untrusted text literally, and what an evaluation's description says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Evidence, Item, Score
from mlflow_ragmetrics.report.text import escaped, rationale


def shown(text: str) -> str:
    """The text that a Markdown renderer shows, and nothing but text: any other element is a failure."""
    (_, inline, _) = MarkdownIt("commonmark").parse(f"a {text} b")
    assert {child.type for child in inline.children} <= {"text", "text_special"}, inline.children
    return "".join(child.content for child in inline.children)


HOSTILE = [
    "**bold** _em_ `code` ~~gone~~",
    "[link](http://evil) ![image](http://evil/x.png)",
    "<script>alert(1)</script> <b>",
    "&lt;b&gt; &#60;",
    "| a | b |",
    "\\*escaped\\*",
    "$x$ snake_case __init__",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_is_shown_literally(text: str) -> None:
    assert shown(escaped(text)).replace("\u2060", "") == f"a {text} b"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60))
def test_any_text_is_shown_literally(text: str) -> None:
    assert shown(escaped(text)).replace("\u2060", "").split() == ["a", *text.replace("\u2060", "").split(), "b"]


@pytest.mark.parametrize("text", ["# heading", "- item", "+ item", "> quote", "1. one", "1) one", "=== "])
def test_no_line_begins_a_block(text: str) -> None:
    (first, *_) = MarkdownIt("commonmark").parse(escaped(text))
    assert first.type == "paragraph_open"


def test_addresses_are_no_links() -> None:
    assert "http://" not in escaped("see http://evil.example or me@evil.example")
    assert "me@evil" not in escaped("me@evil.example")


def test_failed_claims_are_named_with_reason_passage_and_quote_the_contradicted_ones_first() -> None:
    fine = Item("claim", "It is tall.", "SUPPORTED")
    open_one = Item("claim", "It is red.", "NEUTRAL", "No passage says so.")
    wrong = Item(
        "claim", "It is *new*.", "CONTRADICTED", "Built long ago.", None, (Evidence(2, "d2", "Built in 1889."),)
    )
    text = rationale(Score(value=1 / 3, reason="The contexts support 1 of 3 claims.", items=(fine, open_one, wrong)))
    assert text.startswith("The contexts support 1 of 3 claims.")
    assert "tall" not in text
    assert text.index("**contradicted**: It is \\*new\\*.") < text.index("**not in the passages**: It is red.")
    assert "*No passage says so.*" in text
    assert "> \\[2\\] d2 “Built in 1889.”" in text


def test_many_failed_claims_are_counted() -> None:
    items = tuple(Item("claim", f"claim {number}", "NEUTRAL") for number in range(45))
    assert rationale(Score(value=0.0, items=items)).endswith("- … 15 more")


def test_the_description_has_figures_intervals_and_the_worst_rows() -> None:
    records = [{"id": f"r{n}", "question": "Q?", "answer": "same " * n, "reference": "same same"} for n in range(1, 6)]
    report = rm.Suite(["rouge", rm.composite("overall", {"rouge1_f1": 1})]).evaluate(records)
    lines = report.note.splitlines()
    assert lines[0] == "| metric | mean | 95 % interval | scored |"
    mean, low, high = (report.metrics[f"rouge1_f1/{name}"] for name in ("mean", "ci_low", "ci_high"))
    assert f"| rouge1_f1 | {mean:.3f} | {low:.3f} to {high:.3f} | 5 of 5 |" in lines
    assert lines[2].startswith("| overall |")
    worst = [line.split(":")[0].removeprefix("1. ") for line in lines if line.startswith("1. ")]
    assert worst == [row.sample.id for row in report.worst_rows()]
    assert len(worst) == 3


def test_what_the_reference_lacks_is_not_called_absent_from_the_passages() -> None:
    item = Item("claim", "It is green.", "NEUTRAL")
    assert "**not in the passages**" in rationale(Score(value=0.0, items=(item,)))
    assert "**not supported**" in rationale(Score(value=0.0, items=(item.changed(against="reference"),)))
