from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.text.sentences import asserts, statements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A. B? C", ["A.", "B?", "C"]),
        ("# Title\nIt is so.\n1. First. Again.\n2) Second\n\n* Third\n  goes on", None),
        ("Wrapped\nline ends here.", ["Wrapped line ends here."]),
        ("", []),
        ("***", []),
    ],
)
def test_statements(text: str, expected: list[str] | None) -> None:
    listed = ["# Title", "It is so.", "1. First.", "Again.", "2) Second", "* Third goes on"]
    assert statements(text) == (listed if expected is None else expected)


@given(st.text(max_size=300))
def test_each_statement_is_one_line_and_no_letter_is_lost(text: str) -> None:
    found = statements(text)
    assert all(len(each.splitlines()) == 1 for each in found)
    assert [c for c in text if c.isalnum()] == [c for each in found for c in each if c.isalnum()]


@pytest.mark.parametrize(
    "sentence",
    [
        "It is red.",
        "Yes.",
        "Paris",
        "Boil the water.",
        "Да.",
        "Sure, it is 5 km away and takes an hour on foot if the weather is good enough for it.",
        "The passages do not say when it opens, but it closes at 5.",
    ],
)
def test_what_asserts_something(sentence: str) -> None:
    assert asserts(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Is it?",
        "Hello there!",
        "## Steps",
        "**Steps**",
        "Follow these steps:",
        "I don't know.",
        "I hope this helps!",
        "Let me know if you need more.",
        "Надеюсь, это поможет.",
        "Не знаю.",
        "—",
        "Как это?",
    ],
)
def test_what_does_not(sentence: str) -> None:
    assert not asserts(sentence)
