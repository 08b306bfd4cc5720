"""The amount of data needed for a comparison."""

from __future__ import annotations

import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.comparison.power import PowerReport
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.statistics.significance import Power, smallest_difference

from .reports import noisy, report_of


def test_of_a_comparison_the_differences_are_what_varies() -> None:
    a, b = noisy(60, noise=0.2), noisy(60, noise=0.2, seed=1)
    comparison = rm.compare(report_of(a), report_of(b))
    found = rm.power(comparison, detect=0.03)["faithfulness"]
    deviation = float(np.std(np.array(b) - np.array(a), ddof=1))
    assert found.deviation == pytest.approx(deviation)
    assert found.smallest == pytest.approx(smallest_difference(deviation, 60))
    assert found.rows_needed > 60
    assert found.rows_needed == pytest.approx(60 * ((found.smallest or 0) / 0.03) ** 2, rel=0.05)


def test_of_one_report_a_correlation_is_assumed_and_said() -> None:
    report = report_of(noisy(100))
    found = rm.power(report, detect=0.05)
    alone = float(np.std(noisy(100), ddof=1))
    assert found["faithfulness"].deviation == pytest.approx(alone)  # at a correlation of 0.5
    assert found.assumed == 0.5
    assert "a correlation of 0.5" in str(found)


def test_groups_count_for_fewer_rows() -> None:
    draw = np.random.default_rng(0)
    values = np.clip(np.repeat(draw.normal(0.5, 0.2, 20), 5) + draw.normal(0, 0.02, 100), 0, 1)
    report = report_of(values.tolist())
    chats = [str(n // 5) for n in range(100)]
    alone, grouped = rm.power(report)["faithfulness"], rm.power(report, groups=chats)["faithfulness"]
    assert (alone.groups, grouped.groups) == (None, 20)
    assert grouped.design_effect > 4
    assert (grouped.smallest or 0) > 1.8 * (alone.smallest or 0)


def test_enough_is_said_and_what_cannot_be_said() -> None:
    enough = rm.power(report_of(noisy(400)), detect=0.2)
    assert (enough["faithfulness"].smallest or 1) < 0.2
    same = rm.power(report_of([0.5] * 20))
    assert same["faithfulness"].rows_needed is None
    assert same["faithfulness"].smallest is None
    assert rm.power(report_of([0.5, 0.6, 0.7]))["faithfulness"].smallest is None
    with pytest.raises(InvalidDataError, match="two rows"):
        rm.power(report_of([0.5]))


@pytest.mark.parametrize("options", [{"detect": 0}, {"detect": float("nan")}])
def test_options_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(InvalidOptionError, match=next(iter(options))):
        rm.power(report_of(noisy(20)), **options)


def test_the_table_has_a_row_for_each_metric() -> None:
    (row,) = rm.power(report_of(noisy(30))).table.to_dict("records")
    assert row["metric"] == "faithfulness"
    assert row["rows"] == 30


def test_the_shown_table_has_groups_and_rows_or_a_dash() -> None:
    alone, grouped = (
        rm.power(report_of(noisy(40))),
        rm.power(report_of(noisy(40)), groups=[str(n // 4) for n in range(40)]),
    )
    for found, groups in ((alone, "–"), (grouped, "10")):
        line = next(line for line in found.to_text().splitlines() if line.startswith("faithfulness "))
        assert line.split()[1:3] == ["40", groups]
        assert line.split()[-1] == str(found["faithfulness"].rows_needed)
    same = next(line for line in rm.power(report_of([0.5] * 20)).to_text().splitlines() if "20" in line)
    assert same.split()[-1] == "–"


def test_a_report_of_power_names_its_metrics_tests_and_assumption() -> None:
    two = Power(50, 10, 0.2, 1.5, 0.1, 200, 0.0), Power(50, None, 0.0, 1.0, None, None, 0.0)
    found = PowerReport(0.05, dict(zip("mn", two, strict=True)), 2, 0.5)
    lines = str(found).splitlines()
    assert [line.split() for line in lines[2:6]] == [
        ["metric", "rows", "groups", "design", "effect", "smallest", "rows", "for", "0.05"],
        ["─" * len(lines[3])],
        ["m", "50", "10", "1.5", "0.100", "200"],
        ["n", "50", "–", "1.0", "–", "–"],
    ]
    assert str(found).endswith(
        "For two versions over the same rows, in four of five comparisons, at 5 % after Holm over 2 different "
        "metrics.\n"
        "Only one version was given: a correlation of 0.5 with the other version's scores is assumed. "
        "Give a comparison (two runs) if you have one."
    )
    assert (found["m"].rows, list(found.table["metric"]), PowerReport(0.05).tests) == (50, ["m", "n"], 1)


def test_of_one_report_the_spread_of_differences_is_that_of_the_scores() -> None:
    values = noisy(60)
    found = rm.power(report_of(values))["faithfulness"]
    assert found.deviation == pytest.approx(float(np.std(values, ddof=1)))
    assert rm.power(report_of(values)).detect == 0.05
