from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

import mlflow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.models import EvaluationResult, MetricThreshold
from mlflow.models.evaluation.validation import ModelValidationFailedException

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.display.text import to_junit
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import GateError, InvalidOptionError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.gates import (
    REPEATED,
    Check,
    Condition,
    check_figures,
    condition_of,
)
from tests.comparison.reports import noisy, report_of

SCORES = [
    Score(0.9, threshold=0.5, judge="model"),
    Score(0.7, threshold=0.5, judge="model"),
    Score(0.2, threshold=0.5, judge="model"),
    Score(error="JudgeError: off"),
]
REPORT = Report([Row(Sample(id=str(n)), {"faithfulness": score}) for n, score in enumerate(SCORES)])


def test_a_mean_that_reaches_its_limit_passes() -> None:
    REPORT.check(min_scored=0.75, faithfulness=0.6)
    (check,) = check_figures(REPORT.metrics, {"faithfulness": 0.6}, 0.75)
    said = "faithfulness/mean = 0.6000 ≥ 0.6; 3 of 4 rows were measured, too few to be sure: the interval reaches 0.20"
    assert check == Check("faithfulness/mean", True, said)


def test_a_test_that_fails_its_gate_shows_its_own_line() -> None:
    with pytest.raises(GateError) as caught:
        REPORT.check(faithfulness=0.99)
    assert caught.traceback.filter(caught)[-1].path.name == "test_gates.py"


@pytest.mark.parametrize(
    ("figures", "limits", "shown"),
    [
        ({"m/mean": 0.79996}, {"m": 0.8}, "m/mean = 0.79996 < 0.8"),
        ({"m/mean": 0.80004}, {"m": 0.80001}, "m/mean = 0.80004 ≥ 0.80001"),
        ({"m/mean": 0.8 - 1e-10}, {"m": 0.8}, "m/mean = 0.8000 ≥ 0.8;"),
        ({"m/mean": 0.7999999}, {"m": 0.79999995}, "m/mean = 0.7999999 < 0.79999995"),
        ({"m/mean": 0.5, "m/coverage": 0.6}, {"m": 0.4}, "10 of 10 rows were measured; coverage 60%"),
        ({"m/mean": 0.5, "m/coverage": 0.9999}, {"m": 0.4}, "coverage 99.99%"),
        (
            {"m/ci_low": 0.5, REPEATED: 1.0},
            {"m/ci_low": 0.4},
            "0.5000 (interval too narrow: rows share their questions)",
        ),
        ({"m/mean": 0.5, REPEATED: 1.0}, {"m": 0.4}, "m/mean = 0.5000 ≥ 0.4"),
    ],
)
def test_the_line_of_a_gate_shows_what_decides(figures: dict[str, float], limits: dict[str, float], shown: str) -> None:
    (check,) = check_figures({"m/n_scored": 10, "m/n_measured": 10, **figures}, limits)
    assert shown in check.reason
    assert check.passed is (" ≥ " in check.reason)


def test_copied_rows_are_marked_on_the_line_of_an_intervals_gate() -> None:
    rows = [{"question": f"q {n % 8}", "answer": f"{'It is red. ' * (n % 8)}It rains."} for n in range(80)]
    report = rm.Suite(["lexical_relevance", "coherence"]).evaluate(rows, progress=False)
    with pytest.raises(GateError, match="too narrow: rows share their questions"):
        report.check(**{"coherence/ci_low": 0.99})
    grouped = rm.Suite(["coherence"], groups="question").evaluate(rows, progress=False)
    with pytest.raises(GateError, match="few groups"):
        grouped.check(**{"coherence/ci_low": 0.99})


def test_a_comparison_fails_on_what_it_is_told_to() -> None:
    worse = rm.compare(report_of(noisy(60)), report_of(noisy(60, shift=-0.2, seed=1)))
    (regressed,) = worse.checks()
    assert not regressed.passed
    assert "regressed: faithfulness" in regressed.reason
    with pytest.raises(GateError, match="regressed"):
        worse.check()
    worse.check(["improved", "cannot be told"])
    with pytest.raises(InvalidOptionError, match="'worse' is not one of improved"):
        worse.checks(["worse"])


def test_what_cannot_be_told_can_fail_too() -> None:
    few = rm.compare(report_of([0.1] * 4), report_of([0.9] * 4))
    few.check()
    with pytest.raises(GateError, match="cannot be told"):
        few.check(["cannot be told"])


CHECKS = [Check("a/mean", True, "fine"), Check('b <"&', False, 'b\x00 is <0.1> & "low"')]


def test_junit_is_xml_with_a_case_a_check() -> None:
    (suite,) = ElementTree.fromstring(to_junit(CHECKS))
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("gates", "2", "1")
    passed, failed = suite
    assert (passed.get("name"), passed.findtext("system-out")) == ("a/mean", "fine")
    assert failed[0].get("message") == 'b\ufffd is <0.1> & "low"'


def test_mlflows_own_validation_takes_the_figures() -> None:
    result = EvaluationResult(metrics=REPORT.metrics, artifacts={})
    reached = {"faithfulness/mean": MetricThreshold(threshold=0.5, greater_is_better=True)}
    mlflow.validate_evaluation_results(reached, result)
    missed = {"faithfulness/mean": MetricThreshold(threshold=0.8, greater_is_better=True)}
    with pytest.raises(ModelValidationFailedException, match="faithfulness/mean"):
        mlflow.validate_evaluation_results(missed, result)


def test_a_grade_is_sent_to_the_figure_that_has_grades() -> None:
    report = rm.Suite(["faithfulness"]).evaluate([{"answer": "It is high.", "contexts": ["It is high."]}])
    with pytest.raises(InvalidOptionError, match=r"from 0 to 1; write faithfulness_1to5=4 for 4 of 5"):
        report.check(faithfulness=4)
    with pytest.raises(InvalidOptionError, match=r"write 0\.8 for 80 %"):
        report.check(faithfulness=80)


def test_a_mean_of_which_nothing_was_measured_reaches_no_gate() -> None:
    figures = {"m/mean": 1.0, "m/n_scored": 2.0, "m/n_measured": 0.0}
    (check,) = check_figures(figures, {"m": 0.5}, 0.0)
    assert (check.passed, "0 of 2 rows were measured, so there is no figure" in check.reason) == (False, True)
    (alone,) = check_figures(figures, None, {"m": 0.0})
    assert alone.passed


ROWS = st.integers(0, 3)


@given(ROWS, ROWS, ROWS, ROWS, st.sampled_from([0.0, 0.5, 0.75, 1.0]), st.sampled_from([0.4, 0.5, 0.6]), st.booleans())
def test_a_gate_is_reached_if_its_figure_and_its_rows_are(
    measured: int, ruled: int, skipped: int, failed: int, share: float, limit: float, is_most: bool
) -> None:
    counts = {"n_measured": measured, "n_scored": measured + ruled, "n_skipped": skipped, "n_error": failed}
    figures = {f"m/{name}": float(count) for name, count in counts.items()} | ({"m/mean": 0.5} if measured else {})
    limits = {"fail_over" if is_most else "fail_under": {"m": limit}}
    (check,) = check_figures(figures, min_scored=share, better={"m": not is_most}, **limits)  # type: ignore[arg-type]
    total = measured + ruled + skipped + failed
    is_reached = limit >= 0.5 if is_most else limit <= 0.5
    assert check.passed is (measured > 0 and is_reached and measured >= share * total)
    if measured:
        sign = ("≤" if is_reached else ">") if is_most else ("≥" if is_reached else "<")
        assert check.reason.startswith(f"m/mean = 0.5000 {sign} {limit:g}")
        assert ("less than the required" in check.reason) is (measured < share * total)
        assert (", but " in check.reason) is (is_reached and measured < share * total)
    (alone,) = check_figures(figures, min_scored=share, keys=["m"])
    assert alone.passed is (total > 0 and measured >= share * total)


def test_gates_of_repeats_are_on_all_of_them() -> None:
    counts = {"m/n_measured": 4.0, "m/n_scored": 4.0, "m/mean": 0.9, "m/few_groups": 1.0}
    repeated = {**counts, "m/repeat_n_measured": 3.0, "m/repeat_mean": 0.5, "m/repeat_ci_low": 0.4}
    mean, low = check_figures(repeated, {"m": 0.5, "m/ci_low": 0.41}, 0.75)
    assert (mean.name, mean.passed) == ("m/repeat_mean", True)
    said = "m/repeat_mean = 0.5000 (few groups) ≥ 0.5; 3 of 4 rows were measured, too few to be sure: the interval "
    assert mean.reason == f"{said}reaches 0.40"
    assert (low.name, low.passed) == ("m/repeat_ci_low", False)


@pytest.mark.parametrize(("better", "side"), [(True, "fail_under"), (False, "fail_over"), (None, None)])
def test_a_limit_is_on_the_side_that_is_worse(better: bool | None, side: str | None) -> None:
    figures = {"m/n_measured": 1.0, "m/n_scored": 1.0, "m/mean": 0.5, "m/pass_rate": 1.0}
    for option in ("fail_under", "fail_over"):
        limits = {option: {"m": 0.5}, "better": {"m": better}}
        if side in (None, option):
            assert check_figures(figures, **limits)[0].passed  # type: ignore[arg-type]
        else:
            with pytest.raises(InvalidOptionError, match="is better; use"):
                check_figures(figures, **limits)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="higher is better"):
        check_figures(figures, fail_over={"m/pass_rate": 0.5}, better={"m": better})


@given(st.sampled_from([">=", "<=", ">", "<"]), st.floats(-1, 1), st.sampled_from([-1e-6, -1e-12, 0.0, 1e-12, 1e-6]))
def test_a_condition_overlooks_rounding_errors_and_nothing_more(sign: str, limit: float, apart: float) -> None:
    equal, above = abs(apart) < 1e-9, apart > 1e-9
    expected = {">=": equal or above, "<=": not above, ">": above, "<": not (equal or above)}
    assert Condition("faithfulness", sign, limit).holds(limit + apart) is expected[sign]


LIMITS_OF = {"m": (0.0, 1.0), "m_1to5": (1.0, 5.0), "cosine": (-1.0, 1.0)}
HERE = {"m/n_scored": 2.0, "cosine/n_scored": 2.0}


@pytest.mark.parametrize(
    ("given", "limit", "said"),
    [
        ("m", 1.1, "from 0 to 1; write m_1to5=1.1 for 1.1 of 5"),
        ("m", 5, "from 0 to 1; write m_1to5=5 for 5 of 5"),
        ("m", 5.5, "from 0 to 1; write 0.055 for 5.5 %"),
        ("m", 100, "from 0 to 1; write 1 for 100 %"),
        ("m", 101, "from 0 to 1"),
        ("m", -0.1, "from 0 to 1"),
        ("m", 1.0, None),
        ("m", 0, None),
        ("m_1to5", 0.9, "from 1 to 5"),
        ("m_1to5", 5.1, "from 1 to 5"),
        ("m_1to5", 5, None),
        ("cosine_1to5", 0.5, "from 1 to 5"),
        ("cosine", 50, "from -1 to 1"),
        ("cosine", -1, None),
        ("m/pass_rate", 50, "from 0 to 1; write 0.5 for 50 %"),
        ("m/ci_low", 1.5, "from 0 to 1; write 0.015 for 1.5 %"),
        ("m/n_scored", -1, "0 or more"),
        ("m/n_scored", 200, None),
        ("pct_records_with_all_refs", 100, None),
        ("pct_records_with_all_refs", 100.1, "from 0 to 100"),
    ],
)
def test_a_limit_outside_the_range_of_its_figure_is_refused_with_a_hint(
    given: str, limit: float, said: str | None
) -> None:
    if said is None:
        assert len(check_figures(HERE, {given: limit}, ranges=LIMITS_OF)) == 1
        return
    with pytest.raises(InvalidOptionError) as caught:
        check_figures(HERE, {given: limit}, ranges=LIMITS_OF)
    expected = f"fail_under {given}={limit:g}: the limit must be within the figure's range, {said}"
    assert (str(caught.value), caught.value.param) == (expected, "fail_under")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"fail_under": {"x": 0.5}}, "fail_under x: 'x' is not a metric here; use one of m, cosine"),
        ({"fail_over": {"x/mean": 0.5}}, "fail_over x/mean: 'x' is not a metric here; use one of m, cosine"),
        ({"fail_under": {"m_1to5/ci_low": 2}}, "fail_under m_1to5/ci_low: 'm_1to5' is not a metric here; use one of "
         "m, cosine"),
        ({"fail_under": {"m/median": 0.5}}, "fail_under m/median: 'median' is not a figure; use one of mean, ci_low, "
         "ci_high, true_mean, true_low, true_high, pass_rate, coverage, n_scored"),
        ({"fail_under": {"m": "high"}}, "fail_under m='high': it must be a number"),
        ({"fail_under": {"m": math.inf}}, "fail_under m=inf: it must be a number"),
        ({"fail_over": {"m": 0.5}}, "fail_over m: higher is better; use fail_under (--fail-under)"),
        ({"min_scored": {"x": 0.5}}, "min_scored x: 'x' is not a metric here; use one of m, cosine"),
        ({"min_scored": {"m": 1.01}}, "min_scored m=1.01 must be a number from 0 to 1"),
        ({"min_scored": True}, "min_scored=True must be a number from 0 to 1"),
        ({"min_scored": "all"}, "min_scored='all' must be a number from 0 to 1"),
    ],
)  # fmt: skip
def test_limits_that_do_not_fit_are_refused_with_the_way_out(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        check_figures(HERE, **limits)
    assert str(caught.value) == said
    assert caught.value.param == next(iter(limits))


def test_limits_and_shares_of_rows_are_checked_by_key() -> None:
    figures = {**HERE, "m/mean": 0.8, "m/n_measured": 2.0, "cosine/n_measured": 1.0}
    assert [(each.name, each.passed) for each in check_figures(figures, {"m": 0.5}, {"cosine": 0.5})] == [
        ("m/mean", True), ("cosine/n_measured", True),
    ]  # fmt: skip
    assert [(each.name, each.passed) for each in check_figures(figures, None, {"cosine": 0.6, "": 0.1})] == [
        ("cosine/n_measured", False),
    ]  # fmt: skip
    assert [each.name for each in check_figures(figures, None, 0.5)] == ["m/n_measured", "cosine/n_measured"]
    assert check_figures(figures) == []
    (stopped,) = check_figures(figures, incomplete="stopped")
    assert (stopped.name, stopped.passed) == ("evaluation", False)
    assert stopped.reason == "the evaluation is not complete: stopped"
    (never,) = check_figures({}, None, 0.5, keys=["other"], rows=4)
    assert (never.passed, never.reason) == (
        False, "other: 0 of 4 rows were measured, less than the required 0.5",
    )  # fmt: skip
    (one,) = check_figures({"m/n_scored": 1.0, "m/n_measured": 1.0}, None, 0.5)
    assert one.reason == "m: 1 of 1 row was measured"
    (usual,) = check_figures({"m/n_scored": 100.0, "m/n_measured": 94.0, "m/mean": 0.8}, {"m": 0.5})
    assert usual.reason == ("m/mean = 0.8000 ≥ 0.5, but 94 of 100 rows were measured, less than the required 0.95")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ndcg(k=5) >= 0.5", Condition("ndcg(k=5)", ">=", 0.5)),
        ("  m<1e-3 ", Condition("m", "<", 0.001)),
        ("m > -1", Condition("m", ">", -1.0)),
        ("m <= nan", None), ("m <= inf", None), ("m == 0.5", None), ("m >= ", None), ("m >= high", None), (0.5, None),
    ],
)  # fmt: skip
def test_a_condition_is_a_name_a_sign_and_a_number(text: str, expected: Condition | None) -> None:
    if expected is None:
        with pytest.raises(InvalidOptionError, match="is not a condition on a score") as caught:
            condition_of(text, "conditions")
        assert caught.value.param == "conditions"
    else:
        assert condition_of(text) == expected
