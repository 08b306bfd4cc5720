"""States of answer and reference, and rows without context."""

from __future__ import annotations

import pytest

from mlflow_ragmetrics.metrics.claims import has_context, without_context
from mlflow_ragmetrics.text.non_answers import Indistinct, states_of


@pytest.mark.parametrize(
    ("text", "indistinct", "state"),
    [
        (None, "rules", "missing"),
        (None, "off", "missing"),
        ("", "rules", "indistinct"),
        ("", "off", "clear"),
        ("I don't know.", "rules", "indistinct"),
        ("no", "rules", "clear"),
        ("Ask Bob.", ("ask bob",), "indistinct"),
        ("I don't know.", ("ask bob",), "indistinct"),
        ("Ask Bob.", str.isupper, "clear"),
        ("Ask Bob.", len, "indistinct"),
    ],
)
def test_states(text: str | None, indistinct: Indistinct, state: str) -> None:
    assert states_of(text, "clear text", indistinct).answer == state
    assert states_of("clear text", text, indistinct).reference == state


def test_details_keep_the_counts() -> None:
    details = states_of("x", None).details("judged", {"total": 2}, target="answer")
    assert details == {
        "total": 2,
        "target": "answer",
        "answer_state": "clear",
        "reference_state": "missing",
        "rule": "judged",
    }


def test_context_is_a_chunk_that_is_not_blank() -> None:
    assert not any(has_context(contexts) for contexts in (None, (), ("", " \n")))
    assert has_context(["", "x"])


def test_without_context_always_warns() -> None:
    for mode, value in {"vacuous": 1.0, "floor": 0.0, "skip": None}.items():
        score = without_context(mode, 1.0, {"total": 0})  # type: ignore[arg-type]
        assert score.value == value
        assert score.warnings == (("no_context", "No context to verify."),)
        assert score.details == {"total": 0, "no_context": True}
