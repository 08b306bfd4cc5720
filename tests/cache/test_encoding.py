from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.cache.encoding import decode, encode
from mlflow_ragmetrics.core.question import Claims, Embed, Finding, Grade, Rating, Verify

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_FINDING = st.builds(
    Finding,
    _TEXT,
    _TEXT,
    st.none() | st.floats(0, 1),
    st.lists(st.tuples(st.integers(1, 9), _TEXT), max_size=3).map(tuple),
)


@given(st.lists(_FINDING, max_size=4).map(tuple))
def test_findings_come_back(findings: tuple[Finding, ...]) -> None:
    question = Verify(tuple("c" * len(findings)), ("p",))
    text = encode(question, findings)
    assert text is not None
    assert decode(question, text) == findings


@given(st.one_of(st.none(), _TEXT, st.floats(1, 5)))
def test_a_grade_comes_back_as_it_was_given(value: float | str | None) -> None:
    question = Grade("correctness", "a")
    text = encode(question, Rating(value, "so"))
    assert text is not None
    assert decode(question, text) == Rating(value, "so")


def test_what_does_not_fit_is_nothing() -> None:
    one = encode(Verify(("c",), ("p",)), (Finding("SUPPORTED"),))
    assert one is not None
    assert decode(Verify(("c", "d"), ("p",)), one) is None
    assert decode(Claims("T"), "{broken") is None
    assert decode(Claims("T"), '{"a": 1}') is None
    assert encode(Embed(("t",)), {}) is None
    assert encode(Claims("T"), 3) is None
