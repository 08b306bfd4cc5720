"""Conversations in A and B, from reports and from tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Chunk, Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report import Report

CLAIMS_NOTHING = Score(1.0, details={"rule": "no_claims", "unmeasured": "no_claims"})
NO_CONTEXT = Score(1.0, details={"no_context": True, "unmeasured": "no_context"})


LOW = Score(0.2, details={"unmeasured": "a component failed"})


def report(*sessions: list[Score]) -> Report:
    rows = []
    for number, own in enumerate(sessions):
        for turn, score in enumerate(own):
            held = () if score is NO_CONTEXT else (Chunk("It is red."),)
            sample = Sample(id=f"{number}-{turn}", contexts=held, metadata={"session_id": f"s{number}"})
            rows.append(Row(sample, {"faithfulness": score}))
    return Report(rows, ranges={"faithfulness": (0.0, 1.0)})


GOOD, BAD = Score(1.0), Score(0.5)
BEFORE = report([GOOD, GOOD], [BAD, GOOD], [GOOD, BAD], [GOOD, NO_CONTEXT], [GOOD, CLAIMS_NOTHING])
AFTER = report([GOOD, BAD], [GOOD, GOOD], [GOOD, GOOD], [GOOD, GOOD], [GOOD, GOOD])


def test_sessions_are_counted_on_both_sides() -> None:
    (found,) = rm.compare(BEFORE, AFTER).sessions
    assert (found.rows, found.passed_a, found.passed_b, found.unknown) == (4, 2, 3, 1)
    assert (found.newly_passed, found.newly_failed) == (2, 1)
    assert str(found) == (
        "Sessions (session_id) without a turn that fails faithfulness: 2 → 3 of 4 pass (2 newly pass, 1 newly fail, "
        "McNemar p = 1.0000); 1 unknown (unmeasured turns)"
    )


def test_a_metric_without_threshold_and_rows_without_sessions_say_nothing() -> None:
    assert rm.compare(report([GOOD], [BAD]), report([GOOD], [GOOD])).sessions == ()
    other = Report([Row(row.sample, {"rouge1_f1": Score(0.5)}) for row in BEFORE.rows])
    assert rm.compare(other, other).sessions == ()


def test_runs_tell_the_same_as_reports(mlflow_store: str) -> None:
    run = BEFORE.log(traces=False, dataset=False)
    assert rm.compare(run, AFTER).sessions == rm.compare(BEFORE, AFTER).sessions


@pytest.mark.parametrize("unknown", [NO_CONTEXT, Score(error="JudgeError: away"), Score(), LOW])
def test_what_was_not_measured_is_never_a_pass(unknown: Score) -> None:
    (found,) = rm.compare(report([GOOD, unknown], [GOOD]), report([GOOD, GOOD], [GOOD])).sessions
    assert (found.rows, found.unknown) == (1, 1)


def test_each_side_is_held_to_its_own_threshold() -> None:
    def limited(threshold: float) -> Report:
        rows = [
            replace(row, scores={"correctness": Score(0.6, threshold=threshold)}) for row in report([GOOD, GOOD]).rows
        ]
        return Report(rows, description={"thresholds": {"correctness": threshold}})

    (found,) = rm.compare(limited(0.5), limited(0.7), allow_different=True).sessions
    assert (found.passed_a, found.passed_b) == (1, 0)
    (found,) = rm.compare(limited(0.7), limited(0.5), allow_different=True).sessions
    assert (found.passed_a, found.passed_b) == (0, 1)
