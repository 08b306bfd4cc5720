"""``ragmetrics list``: the metrics and presets there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mlflow_ragmetrics.core.composite import Composite
    from mlflow_ragmetrics.core.metric import Metric

__all__ = ["command"]

_COMPOSITE = "0 to 1, shown 1–5 · composite of the metrics that it weighs"
_FAMILIES = {
    "000": "Words shared with the reference",
    "001": "Checks without any model",
    "002": "Response against reference",
    "003": "Retrieved documents against relevant ones",
    "004": "White paper: answer, passages and reference before a judge",
}


@click.command("list")
def command() -> None:
    """Show every metric, by family, with its range and what it needs; then the presets.

    \b
    Example:
      ragmetrics list
    """
    from rich.text import Text

    from mlflow_ragmetrics.cli.terminal import console, fitted
    from mlflow_ragmetrics.core.metric import Metric
    from mlflow_ragmetrics.presets import PRESETS
    from mlflow_ragmetrics.registry import all_metrics

    screen = console()
    shown = ""
    for measure in sorted(all_metrics().values(), key=_order):
        family = _FAMILIES.get(_order(measure)[0], "Others'")
        if family != shown:
            screen.print(("\n" if shown else "") + family, style="bold underline", soft_wrap=True)
            shown = family
        head, *rest = fitted(f"{measure.name}  {_line(measure)}", screen.width).splitlines()
        screen.print(Text.assemble((measure.name, "bold"), head[len(measure.name) :]), *rest, sep="\n", soft_wrap=True)
        facts = _facts(measure) if isinstance(measure, Metric) else _COMPOSITE
        screen.print(fitted(f"    {facts}", screen.width), style="dim", soft_wrap=True)
    screen.print("\nPresets for --suite", style="bold")
    for name, metrics in PRESETS.items():
        screen.print(fitted(f"    {name}: {', '.join(metrics)}", screen.width), soft_wrap=True)
    screen.print("\nragmetrics explain METRIC shows formula, options and an example.", soft_wrap=True)


def _order(measure: Metric | Composite) -> tuple[str, str]:
    definition = getattr(measure, "definition", None)
    return (definition.seed or "999" if definition else "004", measure.name)


def _facts(metric: Metric) -> str:
    definition = metric.definition
    low, high = definition.range
    key = f"key {metric.key} · " if metric.key != metric.name else ""
    needs = ", ".join((*definition.required, *definition.asks)) or "nothing"
    uses = f" · uses {', '.join(definition.optional)}" if definition.optional else ""
    shown = f"{low:g} to {high:g}" + (", shown 1–5" if definition.scaled else "")
    origin = "" if definition.seed else f" · {definition.function.__module__}"
    return f"{key}{shown} · needs {needs}{uses}{origin}"


def _line(measure: Metric | Composite) -> str:
    return measure.definition.summary if hasattr(measure, "definition") else measure.summary
