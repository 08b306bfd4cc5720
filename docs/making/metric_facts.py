"""A metric's definition, facts, options and agreement with people, from its code and the committed figures."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

from making import benchmark_tables, costs
from making.text import escaped, prose, table
from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.metric import Metric, facts_of, options_of
from mlflow_ragmetrics.registry import builtin_metrics, metric_of
from mlflow_ragmetrics.selection import PRESETS

__all__ = ["agreement", "definition", "options"]

OPTIONS: dict[str, str] = json.loads((Path(__file__).parents[1] / "data" / "options.json").read_text(encoding="utf-8"))
"""What each option of a metric does."""

_LEFT_OUT = {"Source", "Defined in"}


def definition(name: str) -> str:
    """The docstring without its example and options, then a table of facts."""
    found = builtin_metrics()[name]
    text = inspect.getdoc(found.definition.function if isinstance(found, Metric) else found) or ""
    said = re.sub(r"\n\n\*\*Options:\*\*.*?(?=\n\n|\Z)", "", prose(text.partition("\nExample")[0]), flags=re.DOTALL)
    facts = {"Cost": _cost(found)}
    if isinstance(found, Metric):
        known = facts_of(found.definition, found.key, found.threshold).items()
        facts = {title: escaped(value) for title, value in known if title not in _LEFT_OUT} | facts
    bundles = [f"`{preset}`" for preset, keys in PRESETS.items() if name in {metric_of(key).name for key in keys}]
    if bundles:
        facts["In the suites"] = ", ".join(bundles)
    return f"{said}\n\n{table((name, ''), facts.items())}"


def options(names: str) -> str:
    """The options of one or several metrics as a table; of ``common``, those that all metrics share."""
    accepted: dict[str, str] = {}
    for name, found in builtin_metrics().items():
        own, common = _accepted(found)
        if names == "common":
            accepted |= common
        elif name in names.split(", "):
            accepted |= own
    rows = []
    for option, values in accepted.items():
        kind, _, default = values.partition("; default ")
        rows.append((f"`{option}`", f"`{kind}`", f"`{default}`" if 0 < len(default) < 40 else "", OPTIONS[option]))
    return table(("option", "values", "default", "what it does"), rows)


def _accepted(found: Metric | Composite) -> tuple[dict[str, str], dict[str, str]]:
    """The metric's own options and the common ones, each with its values and default."""
    if isinstance(found, Composite):
        return {"weights": "a mapping from metric to weight", "min_coverage": "float (from 0, to 1); default 0.5"}, {}
    *own, common = options_of(found.definition).values()
    return (own[0] if own else {}), common


def _cost(found: Metric | Composite) -> str:
    if isinstance(found, Composite):
        return "nothing of its own: it combines the scores of other metrics"
    asks = found.definition.asks
    if not asks:
        return "nothing: computed without a model"
    if asks == ("embeddings",):
        return "embeddings of the answer and the reference"
    full, _, single = (int(calls) for _, calls, *_ in costs.planned((found.name,)))
    said = f"{full} judge {'call' if full == 1 else 'calls'} for [this row](../benchmarks/index.md#what-a-row-costs)"
    if single < full:
        said += f', {single} with `calls="single"`'
    return f"{said}; embeddings" if "embeddings" in asks else said


def agreement(name: str) -> str:
    """The measured agreement with people's labels, or how to measure it."""
    return benchmark_tables.for_metric(name) or (
        "No figures yet: [calibrate it](../guides/calibrate.md) with your own labels."
    )
