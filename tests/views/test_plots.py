"""Plots show what there is, and are left out when there is nothing."""

from __future__ import annotations

from io import BytesIO

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.views.plots import composite_plot, distribution_plot


def test_a_histogram_a_scored_metric() -> None:
    figure = distribution_plot({"a": [rm.Score(value=0.2), rm.Score(value=0.4)], "b": [rm.Score()]})
    assert figure is not None
    assert [axes.get_title() for axes in figure.axes] == ["a\nmean 0.300, n = 2"]
    picture = BytesIO()
    figure.savefig(picture, format="png")
    assert picture.getvalue().startswith(b"\x89PNG")


def test_a_bar_a_weighted_part() -> None:
    scores = [rm.combine({"a": 0.5, "b": 1.0, "c": 0.1}, {"a": 3, "b": 1, "c": 0})]
    figure = composite_plot("overall", scores)
    assert figure is not None
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a × 3", "b × 1"]


def test_nothing_scored_has_no_plot() -> None:
    assert distribution_plot({"a": [rm.Score()]}) is None
    assert composite_plot("overall", [rm.Score()]) is None
