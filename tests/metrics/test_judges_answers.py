"""Judges' replies are read in any case and never guessed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Finding, Rating
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.metrics.claims import read_findings, verified_claims

VERDICTS = st.sampled_from(["SUPPORTED", "supported ", "Contradicted.", "neutral", "yes", "RELATED", ""])


@given(st.lists(st.text(min_size=1), max_size=6), st.lists(VERDICTS, max_size=9))
def test_there_is_one_item_a_claim(claims: list[str], verdicts: list[str]) -> None:
    items, warnings = read_findings(claims, [Finding(verdict) for verdict in verdicts], 3)
    assert [item.text for item in items] == claims
    assert {item.verdict for item in items} <= {"SUPPORTED", "CONTRADICTED", "NEUTRAL"}
    codes = dict(warnings)
    assert ("verdict_missing" in codes) == (len(verdicts) < len(claims))
    read = [verdict.strip().rstrip(".").upper() for verdict in verdicts[: len(claims)]]
    assert ("verdict_unknown" in codes) == any(v not in ("SUPPORTED", "CONTRADICTED", "NEUTRAL") for v in read)


@given(st.floats(1, 5))
def test_grades_in_range_are_kept(grade: float) -> None:
    assert Rating(grade).checked_grade("m") == grade
    assert Rating(f"{grade:.3f}/5").checked_grade("m") == pytest.approx(grade, abs=1e-3)


@given(st.one_of(st.floats().filter(lambda x: not 1 <= x <= 5), st.text("abc /"), st.none(), st.booleans()))
def test_all_else_is_an_error_that_shows_the_reply(reply: object) -> None:
    with pytest.raises(JudgeReplyError) as caught:
        Rating(reply).checked_grade("my_metric")  # type: ignore[arg-type]
    assert repr(reply) in str(caught.value)
    assert caught.value.metric == "my_metric"


def test_tones() -> None:
    assert [Rating(value).checked_tone("m") for value in (0, "0.5", 1.0)] == [0.0, 0.5, 1.0]
    for wrong in (0.25, "calm", None, 2):
        with pytest.raises(JudgeReplyError):
            Rating(wrong).checked_tone("m")


def test_what_was_held_against_a_text_is_known_whatever_the_metric_is_called() -> None:
    @rm.metric
    def hallucination_rate_of_mine(answer: str, contexts: list[str]) -> rm.Steps[rm.Score]:
        verified = yield from verified_claims(answer, contexts)
        return rm.Score(1.0, items=verified.items)

    @rm.metric
    def agreement(answer: str, reference: str) -> rm.Steps[rm.Score]:
        verified = yield from verified_claims(answer, [reference], against="reference")
        return rm.Score(1.0, items=verified.items)

    row = {"answer": "The sea is red.", "reference": "It rains.", "contexts": ["It snows."]}
    for metric, against in ((hallucination_rate_of_mine, None), (agreement, "reference")):
        assert [item.against for item in rm.score(metric, row).items] == [against]
