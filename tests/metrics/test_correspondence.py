"""Both directions of answer and reference, in two rounds of questions."""

from __future__ import annotations

from mlflow_ragmetrics.core.question import Claims, Finding, Verify
from mlflow_ragmetrics.metrics.claims import Correspondence, correspond


def test_two_rounds() -> None:
    program = correspond("A.", "B.")
    assert next(program) == (Claims("A."), Claims("B."))
    verify = program.send((("a",), ("b", "c")))
    assert verify == (Verify(("a",), ("B.",), "reference"), Verify(("b", "c"), ("A.",), "answer"))
    assert [question.role for question in verify] == ["answer", "reference"]  # type: ignore[union-attr]
    try:
        program.send(((Finding("SUPPORTED", "as said"),), (Finding("SUPPORTED"), Finding("CONTRADICTED"))))
    except StopIteration as end:
        found: Correspondence = end.value
    assert [found.details[name] for name in ("precision", "recall", "f1")] == [1.0, 0.5, 2 / 3]
    assert [item.reason for item in found.made()] == ["Claim of the answer. as said"] + ["Claim of the reference."] * 2


def test_a_side_without_claims_is_not_verified() -> None:
    program = correspond("A.", "B.")
    next(program)
    assert program.send(((), ("b",))) == (Verify(("b",), ("A.",), "answer"),)
