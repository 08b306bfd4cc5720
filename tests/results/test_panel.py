"""Several judges: the figures of each, their agreement, and rows that some did not judge."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Finding, Outcome, Question
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import GateError, InvalidOptionError, JudgeError
from mlflow_ragmetrics.results.figures import panel_figures
from mlflow_ragmetrics.statistics.agreement import krippendorff_alpha

ROWS = [{"id": str(n), "answer": f"Fact {n}.", "contexts": ["Something."]} for n in range(4)]


class OneClaim:
    """One claim per answer, supported in the named answers; fails on those in ``silent``."""

    def __init__(self, name: str, supported: str, silent: str = "") -> None:
        self.name, self.supported, self.silent = name, supported, silent

    def answer(self, questions: list[Question]) -> list[Outcome]:  # type: ignore[type-arg]
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Outcome:  # type: ignore[type-arg]
        if isinstance(question, Claims):
            return (question.text,)
        (claim,) = question.claims
        number = claim.removeprefix("Fact ").rstrip(".")
        if number in self.silent:
            return JudgeError(f"{self.name}: no credit")
        return (Finding("SUPPORTED" if number in self.supported else "NEUTRAL", "", None, ()),)


def panel(*judges: OneClaim) -> rm.Report:
    return rm.Suite(["faithfulness"], judge=list(judges)).evaluate(ROWS)


def test_each_judge_has_figures_columns_and_items_of_its_own() -> None:
    report = panel(OneClaim("openai:/a", "012"), OneClaim("openai:/b", "0"))
    assert report.metrics["faithfulness/judge/openai_a/mean"] == 0.75
    assert report.metrics["faithfulness/judge/openai_b/mean"] == 0.25
    assert report.metrics["faithfulness/mean"] == 0.5
    assert report.metrics["faithfulness/n_fewer_judges"] == 0
    assert report.metrics["faithfulness/judges_within_tolerance"] == 0.5
    assert report.table["faithfulness_judge_openai_b"].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert report.items["judge"].tolist() == ["openai:/a", "openai:/b"] * 4
    assert report.warnings == ()
    (line,) = [line for line in report.banner if "Agreement" in line]
    assert "Krippendorff's alpha 0.12, 50% of rows within the tolerance" in line
    assert line.replace("'", "&#x27;") in report._repr_html_()


def test_rows_that_one_judge_left_out_are_counted_and_warned_of() -> None:
    report = panel(OneClaim("openai:/a", "012"), OneClaim("openai:/b", "0", silent="0123"))
    assert report.metrics["faithfulness/n_fewer_judges"] == 4
    assert report.metrics["faithfulness/judge/openai_b/n_scored"] == 0
    assert "faithfulness/judge/openai_b/mean" not in report.metrics
    (warning,) = report.warnings
    assert warning.startswith("openai:/b did not judge 4 of 4 rows (faithfulness)")
    assert "no credit" in warning
    assert ": unknown (no row has scores of two judges)" in report.banner[-1]
    assert (report.metrics["faithfulness/n_measured"], "faithfulness/mean" in report.metrics) == (0, False)


@pytest.mark.parametrize("aggregate", ["mean", "majority", "consensus"])
def test_rows_that_too_few_judges_answered_keep_their_value_and_are_not_measured(aggregate: str) -> None:
    judges = [OneClaim("a", "0123"), OneClaim("b", "0123", silent="23"), OneClaim("c", "0123", silent="3")]
    for options, enough in (({}, 2), ({"min_judges": 2}, 3), ({"min_judges": 1}, 4)):
        whole = rm.Suite(["faithfulness"], judge=judges, aggregate=aggregate, **options)
        own = rm.Suite([rm.faithfulness(aggregate=aggregate, **options)], judge=judges)
        panelled = rm.Suite(["faithfulness"], judge=rm.Panel(judges, aggregate=aggregate, **options))
        for suite in (whole, own, panelled, panelled.replace(language="ru")):
            report = suite.evaluate(ROWS, progress=False)
            assert [row.scores["faithfulness"].value for row in report.rows] == [1.0] * 4
            assert report.metrics["faithfulness/n_measured"] == enough
            assert report.metrics["faithfulness/n_fewer_judges"] == 2
            with pytest.raises(GateError, match=f"{enough} of 4 rows were measured") if enough < 4 else nullcontext():
                report.check(faithfulness=0.5)
    for wrong in (0, 4, True):
        with pytest.raises(InvalidOptionError, match="min_judges"):
            rm.Suite(["faithfulness"], judge=judges, min_judges=wrong)


def test_one_judge_is_no_panel() -> None:
    report = rm.Suite(["faithfulness"], judge=OneClaim("openai:/a", "0")).evaluate(ROWS)
    assert not [name for name in report.metrics if "judge" in name]
    assert "judge" not in report.items


def test_the_figures_of_a_panel_leave_out_what_a_rule_scored_and_count_rows_that_all_judges_failed() -> None:
    def score(value: float | None, within: bool | None = None, **judges: float) -> dict[str, Score]:
        details = {"judges_asked": 2} | ({} if within is None else {"within_tolerance": within})
        return {"m": Score(value, model_scores=judges, details=details)}

    ruled = {"m": Score(1.0, model_scores={"a": 1.0}, details={"judges_asked": 2, "unmeasured": "no claims"})}
    rows = [score(0.5, True, a=0.5, b=0.5), score(0.75, False, a=0.5, b=1.0), score(0.25, a=0.25), score(None), ruled]
    assert panel_figures([*rows, {"other": Score(0.5)}]) == {
        "m/judge/a/mean": pytest.approx(1.25 / 3),
        "m/judge/a/n_scored": 3.0,
        "m/judge/b/mean": 0.75,
        "m/judge/b/n_scored": 2.0,
        "m/n_fewer_judges": 2.0,
        "m/judges_alpha": krippendorff_alpha(np.array([[0.5, 0.5], [0.5, 1.0]])),
        "m/judges_within_tolerance": 0.5,
    }
