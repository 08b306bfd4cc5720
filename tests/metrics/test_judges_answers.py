"""Judges' replies are read in any case and never guessed at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Finding
from mlflow_ragmetrics.metrics.claims import read_findings, verified_claims

VERDICTS = st.sampled_from(["SUPPORTED", "supported ", "Contradicted.", "neutral", "yes", "RELATED", ""])


@given(st.lists(st.text(min_size=1), max_size=6), st.lists(VERDICTS, max_size=9))
def test_there_is_one_item_a_claim(claims: list[str], verdicts: list[str]) -> None:
    verified = read_findings(claims, [Finding(verdict) for verdict in verdicts], 3)
    assert [item.text for item in verified.items] == claims
    assert {item.verdict for item in verified.items} <= {"SUPPORTED", "CONTRADICTED", "NEUTRAL"}
    codes = dict(verified.warnings)
    assert ("verdict_missing" in codes) == (len(verdicts) < len(claims))
    read = [verdict.strip().rstrip(".").upper() for verdict in verdicts[: len(claims)]]
    assert ("verdict_unknown" in codes) == any(v not in ("SUPPORTED", "CONTRADICTED", "NEUTRAL") for v in read)


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
