"""Means corrected by a few labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import GateError, InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.report import Report


def lenient(
    rows: int = 400, labelled: int = 80, *, seed: int = 0, bias: float = 0.15
) -> tuple[Report, dict[str, float]]:
    """A judge whose scores are too high by ``bias``, and the labels of some rows."""
    draw = np.random.default_rng(seed)
    truth = draw.beta(4, 3, rows)
    scores = np.clip(truth + bias + draw.normal(0, 0.05, rows), 0, 1)
    made = []
    for n in range(rows):
        metadata = {"chat": f"c{n // 4}", "human": float(truth[n]) if n < labelled else None}
        made.append(Row(Sample(id=f"r{n}", metadata=metadata), {"m": Score(float(scores[n]))}))
    return Report(made), {f"r{n}": float(truth[n]) for n in range(labelled)}


def test_the_judges_bias_is_corrected_with_an_interval_narrower_than_that_of_the_labels() -> None:
    report, labels = lenient()
    found = report.true_score("m", labels)
    judge = report.metrics["m/mean"]
    alone = rm.summarize(list(labels.values()))
    assert found.judge == pytest.approx(judge)
    assert found.low < judge - 0.12 < found.high + 0.03
    assert found.high < judge
    assert found.high - found.low < 0.7 * (alone["ci_high"] - alone["ci_low"])
    assert (found.labels, found.rows) == (80, 400)
    method = "labels: 80 of 400 rows. Method: prediction-powered inference (PPI++)"
    assert str(found).endswith(f"judge's mean {judge:.3f}; {method}")


def test_labels_come_from_anywhere_that_calibrate_takes_them(tmp_path: Path) -> None:
    report, labels = lenient()
    file = tmp_path / "labels.csv"
    pd.DataFrame({"id": list(labels), "label": list(labels.values())}).to_csv(file, index=False)
    expected = report.true_score("m", labels)
    for given in ("human", str(file), file, pd.read_csv(file), [row.sample.metadata["human"] for row in report.rows]):
        assert report.true_score("m", given).value == pytest.approx(expected.value)  # type: ignore[arg-type]


def test_groups_widen_it_and_few_are_marked() -> None:
    report, labels = lenient(80, 20)
    found = report.true_score("m", labels, groups="chat")
    assert (found.groups, found.few_groups) == (5, True)
    assert "labels: 20 of 80 rows, groups: 5 (few)" in str(found)
    assert report.true_score("m", labels).groups is None


def test_what_cannot_be_used_is_refused() -> None:
    report, labels = lenient(40, 10)
    with pytest.raises(InvalidOptionError, match="use one of m"):
        report.true_score("k", labels)
    with pytest.raises(InvalidDataError, match="no label matches"):
        report.true_score("m", {"elsewhere": 1})
    for label in (4, 55, -1):
        with pytest.raises(InvalidDataError, match=rf"range of m, 0 to 1 \(1\): {label} \(row 2\); rescale them"):
            report.true_score("m", {**labels, "r1": label})


def test_labels_are_turned_where_lower_is_better_and_rows_that_a_rule_scored_left_out() -> None:
    """Of 30 measured rows, 27 are bad; ten rows of a rule have labels too."""
    scores = [Score(0.9 if n < 27 else 0.1, higher_is_better=False) for n in range(30)]
    scores += [Score(0.0, higher_is_better=False, details={"unmeasured": "x"})] * 10
    report = Report([Row(Sample(id=str(n)), {"m": score}) for n, score in enumerate(scores)])
    found = report.true_score("m", {str(n): "no" if n < 27 else "yes" for n in range(40)})
    assert found.value == pytest.approx(0.9)
    assert (found.labels, found.rows, found.judge) == (30, 30, pytest.approx(report.metrics["m/mean"]))
    with pytest.raises(GateError, match=r"true_mean = 0\.9"):
        replace(report, figures=found.metrics).check(fail_over={"m/true_mean": 0.3})
    with pytest.raises(InvalidDataError, match="no measured row has a label"):
        report.true_score("m", {"35": "yes"})


def test_one_label_has_no_interval() -> None:
    report, labels = lenient(40, 1)
    found = report.true_score("m", labels)
    assert (found.low, found.high, found.labels) == (None, None, 1)
    assert "no interval" in str(found)


def test_gates_look_at_it() -> None:
    report, labels = lenient()
    corrected = replace(report, figures=report.true_score("m", labels).metrics)
    assert corrected.metrics["m/n_labelled"] == 80
    assert corrected.metrics["m/mean"] == report.metrics["m/mean"]
    corrected.check(**{"m/true_low": 0.4})
    with pytest.raises(GateError, match="m/true_mean"):
        corrected.check(**{"m/true_mean": 0.68})
    report.check(m=0.68)  # rows that the judge would pass
