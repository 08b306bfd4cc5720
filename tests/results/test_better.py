"""Metrics where lower is better, and those without a better direction: treated alike everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import GateError, InvalidOptionError
from mlflow_ragmetrics.results.results import results_of


@rm.metric(higher_is_better=False)
def faults(metadata: Any) -> float:
    """The row's number."""
    return float(metadata["given"])


@rm.metric(higher_is_better=None)
def length(metadata: Any) -> float:
    """The row's number."""
    return float(metadata["given"])


@rm.metric
def merit(metadata: Any) -> float:
    """One for each row."""
    return 0.5


def report(*values: float, metrics: Any = (faults, length, merit), **options: Any) -> rm.Report:
    rows = [{"id": str(number), "answer": "x", "given": value} for number, value in enumerate(values)]
    return rm.Suite(list(metrics), **options).evaluate(rows, progress=False)


def test_thresholds_pass_up_to() -> None:
    found = report(0.1, 0.4, metrics=[faults(threshold=0.2)])
    assert [score.passed for score in (row.scores["faults"] for row in found.rows)] == [True, False]
    assert found.metrics["faults/pass_rate"] == 0.5


def test_worst_rows_are_those_with_most_faults_and_what_is_neither_ranks_none() -> None:
    found = report(0.1, 0.9, 0.6)
    assert [row.sample.id for row in found.worst_rows()] == ["1", "2", "0"]
    assert [found.totals.ranking.place(row)[1] for row in found.rows[:2]] == ["merit", "faults"]
    assert (found.totals.ranking.better, found.totals.ranking.word) == ({"faults": False, "length": None}, "worst")
    alone = report(0.1, 0.9, metrics=[length])
    assert alone.worst_rows() == []
    assert [row.sample.id for row in alone.worst_rows(key="length")] == ["0", "1"]


def test_composites_count_what_is_left_to_one() -> None:
    found = report(0.2, metrics=[merit, faults, rm.composite("both", {"merit": 1, "faults": 3})])
    assert found.rows[0].scores["both"].value == pytest.approx((0.5 + 3 * 0.8) / 4)
    with pytest.raises(InvalidOptionError, match="neither a high nor a low value of length"):
        rm.Suite([length, merit, rm.composite("both", {"merit": 1, "length": 3})])
    with pytest.raises(InvalidOptionError, match="cannot be weighted"):
        rm.combine({"length": found.rows[0].scores["merit"].changed(higher_is_better=None)})


def test_gates_on_the_right_side() -> None:
    found = report(0.1, 0.3)
    found.check(fail_over={"faults": 0.2, "length": 0.2}, length=0.2, merit=0.5)
    with pytest.raises(GateError, match=r"faults/mean = 0\.2000 > 0\.1"):
        found.check(fail_over={"faults": 0.1})
    with pytest.raises(InvalidOptionError, match=r"lower is better; use fail_over \(--fail-over\)"):
        found.check(faults=0.1)


@pytest.mark.parametrize("kind", ["report", "jsonl", "csv", "parquet"])
def test_comparisons_know_the_side_wherever_rows_come_from(kind: str, tmp_path: Path) -> None:
    values = [0.5 + 0.01 * number for number in range(12)]
    more, fewer = report(*values), report(*(value - 0.4 for value in values))
    sides: list[Any] = [more, fewer]
    if kind != "report":
        for place, each in enumerate(sides):
            sides[place] = str(tmp_path / f"{place}.{kind}")
            if kind == "jsonl":
                each.table.to_json(sides[place], orient="records", lines=True)
            elif kind == "csv":
                each.table.to_csv(sides[place], index=False)
            else:
                each.table.to_parquet(sides[place], index=False)
    assert {key: results_of(sides[0]).better(key) for key in ("faults", "length", "merit")} == {
        "faults": False,
        "length": None,
        "merit": True,
    }
    comparison = rm.compare(*sides)
    assert comparison.verdict == {"faults": "improved", "length": "changed", "merit": "cannot be told"}
    assert (comparison["faults"].wins, comparison["faults"].losses) == (12, 0)
    assert comparison["faults"].difference == pytest.approx(-0.4)
    assert "is better on faults (-0.40" in comparison.plain
    assert "differs from" in comparison.plain
    assert comparison.rows[0].change == pytest.approx(0.4 / 3)
    assert rm.compare(*reversed(sides)).verdict["faults"] == "regressed"
    page = comparison.to_html()
    assert "faults 0." in page
    assert "length 0." in page
    assert "lower is better" in page
    failed = comparison.checks(["changed"])
    assert [check.name.rpartition(" ")[2] for check in failed if not check.passed] == ["length"]


def test_calibration_takes_rows_above_the_threshold_as_bad() -> None:
    values = [0.05 * number for number in range(20)]
    found = report(*values)
    labels = [value < 0.3 for value in values]
    calibration = rm.calibrate(found, labels, key="faults")
    assert calibration.auroc.value == 1.0
    assert calibration.at_default.found == 9
    assert calibration.pearson.value < 0
    assert calibration.gain is None or 0.25 <= calibration.gain.chosen <= 0.3
    with pytest.raises(InvalidOptionError, match="labels cannot agree"):
        rm.calibrate(found, labels, key="length")
