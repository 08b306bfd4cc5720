"""The figures of a run."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.results.figures import (
    Totals,
    panel_warnings,
    repeated_questions,
    slices_frame,
)
from mlflow_ragmetrics.statistics.intervals import clusters_of
from mlflow_ragmetrics.statistics.significance import holm, welch_tests


def test_nothing_scored_has_counts_and_no_mean() -> None:
    assert rm.summarize([math.nan, None]) == {"n_scored": 0, "n_skipped": 2, "n_error": 0, "n_measured": 0}


def test_failed_rows_are_counted_apart() -> None:
    scores = [rm.Score(value=1.0), rm.Score(value=0.0), rm.Score(error="JudgeError: down")]
    figures = rm.summarize(scores)
    assert (figures["mean"], figures["n_scored"], figures["n_skipped"], figures["n_error"]) == (0.5, 2, 0, 1)


def test_pass_rate_is_over_scored_rows() -> None:
    scores = [rm.Score(value=v, threshold=0.5) for v in (0.2, 0.5, 0.9)] + [rm.Score()]
    assert rm.summarize(scores)["pass_rate"] == pytest.approx(2 / 3)


def test_rows_without_context_and_coverage_are_counted_where_scores_tell_them() -> None:
    scores = [rm.Score(1.0, details={"no_context": told}) for told in (True, False, False)] + [rm.Score(0.5)]
    assert rm.summarize(scores)["n_no_context"] == 1
    assert rm.summarize([rm.Score(0.5, details={"coverage": c}) for c in (1.0, 0.5)])["coverage"] == 0.75
    assert rm.summarize([rm.Score(0.5)]).keys().isdisjoint({"n_no_context", "coverage", "pass_rate"})


def test_white_paper_scores_have_both_scales() -> None:
    totals = Totals()
    totals.add(Row(Sample(), {"faithfulness": rm.Score(value=0.5, scaled=3.0)}))
    figures = totals.figures()
    assert figures["faithfulness/mean"] == 0.5
    assert figures["faithfulness_1to5/mean"] == 3.0


def totals_of(*rows: dict[str, rm.Score]) -> Totals:
    return Totals([Row(rm.Sample(id=str(n), answer="An answer."), scores) for n, scores in enumerate(rows)])


@pytest.mark.parametrize(("failed", "partial"), [(0, None), (1, None), (2, "2 of 20 rows failed")])
def test_more_than_a_twentieth_of_failed_rows_make_a_part(failed: int, partial: str | None) -> None:
    scores = [rm.Score(error="down")] * failed + [rm.Score(1.0)] * (20 - failed)
    assert totals_of(*[{"m": score} for score in scores]).partial == partial


def test_a_metric_that_begins_or_ends_within_the_rows_keeps_its_places() -> None:
    totals = totals_of({"a": rm.Score(0.1)}, {"a": rm.Score(0.2), "b": rm.Score(0.3)}, {"b": rm.Score()}, {})
    expected = [[0.1, math.nan], [0.2, 0.3], [math.nan, math.nan], [math.nan, math.nan]]
    assert np.array_equal(totals.matrix, expected, equal_nan=True)
    figures = totals.figures()
    assert {name: figures[name] for name in ("a/n_scored", "b/n_scored", "b/n_skipped", "b/n_error")} == {
        "a/n_scored": 2, "b/n_scored": 1, "b/n_skipped": 1, "b/n_error": 0,
    }  # fmt: skip


def test_keys_are_equal_if_two_rows_measured_them_alike() -> None:
    a, b = rm.Score(0.1), rm.Score(0.2)
    assert totals_of({"x": a, "y": a, "z": b}, {"x": b, "y": b, "z": a}).equal == [["x", "y"]]
    assert totals_of({"x": a, "y": a}, {"x": rm.Score(), "y": rm.Score()}).equal == []
    assert totals_of({"x": a}, {"x": b}).equal == []


def test_rows_with_less_coverage_than_others_and_doubts_are_counted() -> None:
    odd = rm.Score(0.5, warnings=(("reply_at_odds", "Odd."), ("other", "Else.")))
    scores = [rm.Score(0.5, details={"coverage": each}) for each in (1.0, 1.0, 0.6, 0.6, 0.6)]
    figures = rm.summarize([*scores, odd])
    assert (figures["n_partial"], figures["n_at_odds"], figures["coverage"]) == (3, 1, pytest.approx(0.76))
    assert "n_partial" not in rm.summarize(scores[:2])
    unmeasured = rm.Score(1.0, details={"unmeasured": "no claims"}, threshold=0.5)
    figures = rm.summarize([unmeasured, rm.Score(0.0, threshold=0.5)])
    assert (figures["n_scored"], figures["n_measured"], figures["mean"], figures["pass_rate"]) == (2, 1, 0.0, 0.0)


def test_the_better_direction_is_told_where_it_is_not_up() -> None:
    scores = {
        key: rm.Score(0.5, higher_is_better=better) for key, better in zip("abc", (True, False, None), strict=True)
    }
    assert totals_of(scores).better == {"b": False, "c": None}


@pytest.mark.parametrize("rows", [1000, 1001])
def test_the_figures_of_a_metric_do_not_depend_on_the_others(rows: int) -> None:
    draw = np.random.default_rng(2).random((rows, 3))
    totals = totals_of(*[{key: rm.Score(v) for key, v in zip("abc", each, strict=True)} for each in draw.tolist()])
    together = totals.figures()
    for place, key in enumerate("abc"):
        alone = rm.summarize(draw[:, place].tolist())
        assert {name: together[f"{key}/{name}"] for name in alone} == pytest.approx(alone)


def test_repeated_questions_that_resemble_each_other_are_a_warning() -> None:
    values = np.array([[0.1, 0.5], [0.1, 0.4], [0.9, 0.6], [0.9, 0.5], [0.5, 0.5]])
    questions = ["p", "p", "q", "q", None]
    said = repeated_questions(questions, ["m", "n"], values)
    effect = clusters_of(values[:, 0], ["p", "p", "q", "q", "r"])
    assert said.startswith("4 of 5 rows share their question")
    assert f"the variance of m is {effect.design_effect:.1f} times" in said
    assert repeated_questions(["p", "q", "r", None, None], ["m", "n"], values) is None
    opposite = np.array([[0.1], [0.9], [0.1], [0.9], [0.5]])
    assert repeated_questions(questions, ["m"], opposite) is None


def test_a_judge_that_failed_where_another_scored_is_named_once() -> None:
    scores = {
        key: rm.Score(0.5, warnings=((f"judge_failed:{name}", f"{name}: down"),))
        for key, name in (("m", "a"), ("n", "a"))
    }
    rows = [Row(rm.Sample(id="1"), scores), Row(rm.Sample(id="2"), {"m": scores["m"]}), Row(rm.Sample(id="3"), {})]
    (said,) = panel_warnings(rows)
    assert said.startswith("a did not judge 2 of 3 rows (m, n); ")
    assert said.endswith("a: down")


def test_a_slice_has_the_figures_of_its_rows_and_welchs_test_after_holm() -> None:
    draw = np.random.default_rng(3)
    values, names = draw.random((40, 2)).round(3), [*["x"] * 11, *["y"] * 9, *[None] * 20]
    values[:11, 0] += 1
    rows = [
        Row(rm.Sample(id=str(n)), {key: rm.Score(float(v)) for key, v in zip("ab", each, strict=True)})
        for n, each in enumerate(values)
    ]
    rows[0].scores["b"] = rm.Score(1.0, details={"unmeasured": "no claims"})
    values[0, 1] = np.nan
    table = slices_frame(rows, Totals(rows), names, None, {})
    assert list(zip(table["slice"], table["metric"], table["rows"], strict=True)) == [
        ("x", "a", 11), ("x", "b", 11), ("y", "a", 9), ("y", "b", 9),
    ]  # fmt: skip
    assert list(table["mark"]) == ["", "10 measured", "few rows", "few rows"]
    sides = [np.array([name == each for name in names]) for each in ("x", "y")]
    p_values = [p for side in sides for p in welch_tests(values, side)]
    assert list(table["p_holm"]) == pytest.approx(holm(p_values))  # type: ignore[arg-type]
    for record, side in zip(table.to_dict("records"), np.repeat(sides, 2, axis=0), strict=True):
        own = rm.summarize(values[side, "ab".index(record["metric"])].tolist())
        assert [record[each] for each in ("mean", "ci_low")] == pytest.approx([own["mean"], own["ci_low"]])
