"""Claims and their verdicts: two questions, one after another."""

from __future__ import annotations

import pytest

from mlflow_ragmetrics.core.question import Claims, Finding, Verify
from mlflow_ragmetrics.core.score import Item
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.shared.claims import Verified, verified_claims


def test_questions() -> None:
    program = verified_claims("A. B.", ["c1", "c2"], role="reference")
    (claims,) = next(program)
    assert claims == Claims("A. B.")
    assert claims.role == "reference"  # type: ignore[union-attr]
    assert program.send((("A.", "  ", "B."),)) == (Verify(("A.", "B."), ("c1", "c2")),)
    with pytest.raises(StopIteration) as end:
        program.send(((Finding("supported"),),))
    assert end.value.value.counts == {"supported": 1, "contradicted": 0, "neutral": 1, "total": 2}


def test_a_failed_question_ends_the_program() -> None:
    program = verified_claims("A.", ["c"])
    next(program)
    with pytest.raises(JudgeError, match="down"):
        program.send((JudgeError("down"),))


def test_a_blank_text_asks_nothing() -> None:
    with pytest.raises(StopIteration) as end:
        next(verified_claims(" ", ["c"]))
    assert end.value.value == Verified()


def test_support_is_there_where_it_is_graded() -> None:
    graded = Verified((Item("claim", "a", "SUPPORTED", support=0.9), Item("claim", "b", "NEUTRAL", support=0.3)))
    assert graded.details["support"] == pytest.approx(0.6)
    assert "support" not in Verified((Item("claim", "a", "SUPPORTED"),)).details
    assert (Verified().share(empty=1.0), graded.share(empty=1.0)) == (1.0, 0.5)
