"""The example in each metric's docstring runs."""

from __future__ import annotations

import doctest
import sys

import pytest

from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.registry import all_metrics

METRICS = {
    name: measure
    for name, measure in all_metrics().items()
    if isinstance(measure, Metric) and measure.definition.function.__module__.startswith("mlflow_ragmetrics.")
}


@pytest.mark.parametrize("name", METRICS)
def test_example_in_docstring(name: str) -> None:
    function = METRICS[name].definition.function
    module = sys.modules[function.__module__]
    (example,) = doctest.DocTestFinder(recurse=False).find(function, name, module=module, globs={})
    assert example.examples, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    runner.run(example, out=report.append)
    assert not runner.failures, "".join(report)
