"""Blocked terms and personal data."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.lexical import content_safety


@pytest.mark.parametrize(
    ("answer", "category", "count"),
    [
        ("Call +1-555-123-4567.", "phones", 1),
        ("Call 555-123-4567 or 555.123.4567 or +1 (555)123-4567.", "phones", 1),
        ("Call +1-555-123-4567 or +1 (555) 123-4567 or 555 123 4568.", "phones", 2),
        ("Serial 12-555-123-4567-89 and 1555-123-4567.", "phones", 0),
        ("Number 5551234567.", "phones", 0),
        ("SSN 123-45-6789, again 123-45-6789, and 987-65-4321.", "ssns", 2),
        ("Order 1123-45-6789 or 123-45-67890 or 9-123-45-6789.", "ssns", 0),
        ("Write to <Ann.Lee+x@mail.example.co.uk>, or почта@пример.рф.", "emails", 2),
        ("Not addresses: a@b, @home, x@1.2, foo@.com.", "emails", 0),
        ("_ann@example.com_ and ann@example.com.", "emails", 2),
        ("Hell's bells, a bad-ass crap-shoot.", "blocked_terms", 3),
        ("Assess the shell, Mr. Hello; scrap it.", "blocked_terms", 0),
        ("DAMN Damn damn", "blocked_terms", 1),
    ],
)
def test_findings(answer: str, category: str, count: int) -> None:
    score = rm.score("content_safety", {"answer": answer})
    assert score.details[category] == count
    assert score.details["violations"] == count
    assert score.value == pytest.approx(1 - 0.15 * count)


def test_the_blocklist_grows() -> None:
    record = {"answer": "Das ist STRASSE und  Secret\nProject; 馬鹿な話"}
    terms = ["straße", "secret project", "馬鹿", "rass"]
    score = rm.score("content_safety", record, additional_blocklist=terms)
    assert [item.text for item in score.items] == ["strasse", "secret project", "馬鹿"]
    with pytest.raises(InvalidOptionError) as caught:
        content_safety(additional_blocklist=["ok", " "])
    assert caught.value.param == "additional_blocklist"


@pytest.mark.parametrize(
    ("term", "answer", "count"),
    [("坏x", "很坏x", 1), ("坏x", "很坏xy", 0), ("x坏", "x坏了", 1), ("x坏", "yx坏了", 0)],
)
def test_a_term_needs_a_word_boundary_at_an_end_that_is_no_ideograph(term: str, answer: str, count: int) -> None:
    score = rm.score("content_safety", {"answer": answer}, additional_blocklist=[term])
    assert score.details["blocked_terms"] == count


def test_one_violation_a_category() -> None:
    record = {"answer": "damn hell a@x.com b@x.com 555-123-4567"}
    assert rm.score("content_safety", record).details["violations"] == 5
    score = rm.score("content_safety", record, per_category=True)
    assert score.details["violations"] == 3
    assert score.value == pytest.approx(0.55)


def test_it_never_goes_below_zero() -> None:
    assert rm.score("content_safety", {"answer": " ".join(f"a{i}@x.com" for i in range(9))}).value == 0.0
