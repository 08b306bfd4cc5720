"""The outcomes of several judges for one metric: who votes, who is left out, and the error if nobody scored."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row, Voting, is_judged, judge_failure, merge_judges
from mlflow_ragmetrics.errors import AllJudgesFailedError, JudgeError, JudgeReplyError, MissingFieldError
from mlflow_ragmetrics.text.messages import render


def test_merged_judges() -> None:
    outcomes = {"a": Score(value=1.0, reason="first"), "b": JudgeError("down"), "c": Score(value=0.5)}
    merged = merge_judges(outcomes, Voting(True))
    assert (merged.value, merged.judge, merged.excluded_models) == (0.75, "a, c", ("b",))
    assert merged.model_scores == {"a": 1.0, "c": 0.5}
    assert merged.details["agreement"] == 0.5
    assert render(merged.reason, "en") == "mean of 2 judges (a: 1.000; c: 0.500). a: first"
    assert (merged.measured, merged.passed) == (False, None)
    assert render(merged.details["unmeasured"], "en") == "2 of 3 judges answered"
    assert merge_judges(outcomes, Voting(True, min_judges=2)).measured
    assert merged.warnings == (("judge_failed:b", "b: down"),)


def test_a_judge_without_score_has_no_vote() -> None:
    merged = merge_judges({"a": Score(status="skipped"), "b": Score(value=0.5)}, Voting(True))
    assert (merged.value, merged.model_scores) == (0.5, {"b": 0.5})
    assert merge_judges({"a": Score(status="skipped")}, Voting(True)).status == "skipped"


def test_failures() -> None:
    reply, down = JudgeReplyError("not json"), JudgeError("down")
    with pytest.raises(JudgeReplyError, match="not json"):
        merge_judges({"a": reply}, Voting(False))
    with pytest.raises(AllJudgesFailedError, match="a: not json; b: down"):
        merge_judges({"a": reply, "b": down}, Voting(True))


def test_the_way_to_merge_is_named_in_the_language_of_the_reason() -> None:
    scores = {name: Score(value=value) for name, value in (("first", 0.2), ("second", 0.4))}
    merged = merge_judges(scores, Voting(True, "median"))
    assert "median of 2 judges" in render(merged.reason, "en")
    assert "Агрегат «медиана» по 2 судьям" in render(merged.reason, "ru")


def test_a_panel_of_one_judge_fails_as_a_panel() -> None:
    with pytest.raises(AllJudgesFailedError, match="a: not json"):
        merge_judges({"a": JudgeReplyError("not json")}, Voting(True))


def test_a_metric_that_is_to_be_skipped_is_skipped_also_where_others_raise() -> None:
    record = {"answer": "A."}
    assert rm.score("rouge", record, on_missing="skip").status == "skipped"
    with pytest.raises(MissingFieldError):
        rm.score("rouge", record)
    failing = rm.ScriptedJudge(error="down")
    with pytest.raises(JudgeError, match="down"):
        rm.score("correctness", {**record, "reference": "B."}, judge=failing)
    assert rm.score("correctness", {**record, "reference": "B."}, judge=failing, on_missing="skip").status == "error"
    own = rm.correctness(on_missing="skip")
    assert rm.score(own, {**record, "reference": "B."}, judge=failing).status == "error"


def test_what_a_rule_gave_has_a_vote_only_if_no_judge_measured():
    ruled, measured = Score(value=1.0, details={"rule": "no_claims"}), Score(value=0.5)
    merged = merge_judges({"a": ruled, "b": measured, "c": measured}, Voting(True))
    assert (merged.value, merged.model_scores) == (0.5, {"b": 0.5, "c": 0.5})
    merged = merge_judges({"a": ruled, "b": ruled}, Voting(True))
    assert (merged.value, merged.model_scores) == (1.0, {"a": 1.0, "b": 1.0})


@pytest.mark.parametrize(("other", "within"), [(0.6, True), (0.4, True), (0.61, False), (0.39, False)])
def test_a_panel_says_whether_its_judges_are_within_the_tolerance(other, within):
    merged = merge_judges({"a": Score(value=0.5), "b": Score(value=other)}, Voting(True))
    assert merged.details["within_tolerance"] is within
    assert (merged.details["n_judges"], merged.details["judges_asked"]) == (2, 2)


@pytest.mark.parametrize(
    ("own", "of_suite", "value"),
    [({}, ("median", 0.1), 0.25), ({"aggregate": "min"}, ("median", 0.1), 0.0), ({}, ("consensus", 1.0), 0.5)]
    + [({"tolerance": tolerance}, ("consensus", 0.1), value) for tolerance, value in ((1.0, 0.5), (0.2, None))],
)
def test_what_a_metric_says_about_its_judges_counts_before_what_the_suite_says(own, of_suite, value) -> None:
    judges = [rm.ScriptedJudge(rating=rating, name=f"rated {rating}") for rating in (1, 2, 5)]
    judges = judges if of_suite[0] == "median" else judges[::2]
    suite = rm.Suite([rm.correctness(**own)], judge=judges, aggregate=of_suite[0], tolerance=of_suite[1])
    (row,) = suite.stream([{"answer": "A red tower.", "reference": "A green tower."}])
    assert row.scores["correctness"].value == value


def test_a_bug_that_one_of_two_judges_answers_brings_out_is_an_error_and_not_a_judge_s_failure() -> None:
    @rm.metric
    def fragile(answer: str) -> rm.Steps[float]:
        claims = yield from rm.ask(rm.Claims(answer))
        return 1 / len(claims)

    judges = [rm.ScriptedJudge(response_claims=given, name=name) for name, given in (("a", ["x"]), ("b", []))]
    row = rm.Suite([fragile], judge=judges).evaluate([{"answer": "It is red."}], progress=False).rows[0]
    score = row.scores["fragile"]
    assert (score.status, score.value) == ("error", None)
    assert (str(score.error).partition(":")[0], score.details["exception"]) == ("ZeroDivisionError",) * 2
    assert (is_judged(row), judge_failure(row)) == (False, None)


@pytest.mark.parametrize(
    ("error", "found"),
    [("JudgeError: no credit", True), ("AllJudgesFailedError: none", True), ("ValueError: JudgeError", False)],
)
def test_the_failure_of_a_judge_is_told_from_other_errors(error: str, found: bool) -> None:
    fine, ruled = Score(0.5, judge="a"), Score(0.5)
    row = Row(Sample(id="1"), {"other": Score(error="ValueError: x"), "m": Score(error=error), "n": ruled})
    assert judge_failure(row) == (error if found else None)
    assert (is_judged(row), is_judged(Row(Sample(id="1"), {"m": fine}))) == (False, True)
