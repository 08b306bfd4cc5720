"""Plots show what there is, and are left out when there is nothing."""

from __future__ import annotations

from mlflow_ragmetrics.report.plots import causes_plot, shares_plot


def test_two_bars_a_diagnosis_that_rows_have() -> None:
    figure = causes_plot({"first (A)": {"retrieval": 2, "noise": 0}, "second (B)": {"retrieval": 0, "noise": 0}})
    assert figure is not None
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["retrieval"]
    assert [[bar.get_width() for bar in bars] for bars in axes.containers] == [[2], [0]]


def test_a_bar_a_share() -> None:
    figure = shares_plot({"name": (0.5, 0.25, 0.75), "control": (0.1, None, None)}, "caught", marked="control")
    assert figure is not None
    assert [bar.get_width() for bar in figure.axes[0].patches] == [0.5, 0.1]


def test_nothing_counted_has_no_plot() -> None:
    assert causes_plot({"A": {"retrieval": 0}, "B": {"retrieval": 0}}) is None
    assert shares_plot({}, "caught") is None
