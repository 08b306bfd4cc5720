"""``ragmetrics list`` and ``ragmetrics explain METRIC``: the metrics and presets there are."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.cli.options import metrics

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from mlflow_ragmetrics.core.composite import Composite
    from mlflow_ragmetrics.core.metric import Metric
    from mlflow_ragmetrics.registry import Measure

__all__ = ["list_command", "explain_command"]

_COMPOSITE = "0 to 1, shown 1–5 · composite of the metrics that it weighs"
_SIDES = {True: "higher is better", False: "lower is better", None: "neither side is better"}
_FAMILIES = {
    "white_paper": "White paper: answer, passages and reference before a judge",
    "lexical": "Words and patterns, without any model",
    "response": "Response against reference",
    "retrieval": "Retrieved documents against relevant ones",
    "diagnose": "Which part failed: claims against passages",
}


@click.command("list")
def list_command() -> None:
    """Show every metric, by family, with its range, what it needs and where it comes from; then the presets.

    \b
    Example:
      ragmetrics list
    """
    from rich.text import Text

    from mlflow_ragmetrics.cli.terminal import console, fitted
    from mlflow_ragmetrics.core.metric import Metric
    from mlflow_ragmetrics.selection import PRESETS

    screen = console()
    for number, (family, measures) in enumerate(_families()):
        screen.print(("\n" if number else "") + family, style="bold underline", soft_wrap=True)
        sources = dict.fromkeys(each.definition.source for each in measures if isinstance(each, Metric))
        if any(sources):
            screen.print(fitted(f"    Sources: {'; '.join(filter(None, sources))}", screen.width), soft_wrap=True)
        for measure in measures:
            summary = measure.definition.summary if isinstance(measure, Metric) else measure.summary
            head, *rest = fitted(f"{measure.name}  {summary}", screen.width).splitlines()
            title = Text.assemble((measure.name, "bold"), head[len(measure.name) :])
            screen.print(title, *rest, sep="\n", soft_wrap=True)
            facts = _facts(measure) if isinstance(measure, Metric) else _COMPOSITE
            screen.print(fitted(f"    {facts}", screen.width), style="dim", soft_wrap=True)
    screen.print("\nPresets for --suite", style="bold")
    for name, keys in PRESETS.items():
        screen.print(fitted(f"    {name}: {', '.join(keys)}", screen.width), soft_wrap=True)
    screen.print("\nragmetrics explain METRIC shows formula, options and an example.", soft_wrap=True)


def _families() -> Iterator[tuple[str, list[Measure]]]:
    """The metrics under a heading for each preset that has them first, then those of nobody's preset."""
    from mlflow_ragmetrics.registry import all_metrics, metric_of
    from mlflow_ragmetrics.selection import PRESETS

    others = dict(all_metrics())
    for preset, family in _FAMILIES.items():
        names = dict.fromkeys(metric_of(spelling).name for spelling in PRESETS[preset])
        yield f"{family} (--suite {preset})", [others.pop(name) for name in names if name in others]
    if others:
        yield "In no preset", list(others.values())


def _facts(metric: Metric) -> str:
    definition = metric.definition
    low, high = definition.range
    key = f"key {metric.key} · " if metric.key != metric.name else ""
    needs = ", ".join((*definition.required, *definition.asks)) or "nothing"
    uses = f" · uses {', '.join(definition.optional)}" if definition.optional else ""
    shown = f"{low:g} to {high:g}" + (", shown 1–5" if definition.scaled else "")
    shown += "" if definition.higher_is_better else f", {_SIDES[definition.higher_is_better]}"
    origin = "" if definition.source else f" · {definition.function.__module__}"
    return f"{key}{shown} · needs {needs}{uses}{origin}"


@click.command("explain")
@click.argument("metric", shell_complete=metrics)
def explain_command(metric: str) -> None:
    """Show what METRIC means: formula, what it needs, options, thresholds, other names, source, an example.

    METRIC is a name (faithfulness), an alias (hallucination), a key (ndcg_5), a spelling with options, or
    module:name for your own.

    \b
    Examples:
      ragmetrics explain faithfulness
      ragmetrics explain "rouge(rouge_type='rougeL')"
    """
    from mlflow_ragmetrics.cli.terminal import console, fitted
    from mlflow_ragmetrics.core.metric import Metric
    from mlflow_ragmetrics.registry import metric_of

    screen = console()
    found = metric_of(metric)
    screen.print(found.spelling if isinstance(found, Metric) else found.name, style="bold", soft_wrap=True)
    for line in _metric_lines(found) if isinstance(found, Metric) else _composite_lines(found):
        screen.print(fitted(line, screen.width), soft_wrap=True)


def _composite_lines(found: Composite) -> Iterator[str]:
    yield from _documentation(found)
    yield ""
    yield f"ragmetrics evaluate FILE --metric {found.name} --weights \\"
    yield f"  {_example_weights(found)}"


def _example_weights(found: Composite) -> str:
    return ",".join(f"{key}={weight:g}" for key, weight in found.weights.items() if weight)


def _metric_lines(found: Metric) -> Iterator[str]:
    definition = found.definition
    yield from _documentation(definition.function)
    yield ""
    low, high = definition.range
    scaled = "; shown on 1 to 5 too" if definition.scaled else ""
    facts = {
        "Key": found.key,
        "Range": f"{low:g} to {high:g}, {_SIDES[definition.higher_is_better]}{scaled}",
        "Needs": ", ".join((*definition.required, *definition.asks)),
        "Uses": ", ".join(definition.optional),
        "Passes from" if definition.higher_is_better is not False else "Passes up to": _thresholds(found),
        "Presets": ", ".join(f"{name} {level:g}" for name, level in (definition.levels or {}).items()),
        "Also called": ", ".join(definition.aliases),
        "Source": definition.source,
        "Defined in": definition.function.__module__,
    }
    yield from (f"{name:<12} {value}" for name, value in facts.items() if value)
    yield from _option_lines("Options", definition.options.model_fields)
    yield from _option_lines("Options that others have too", _common(found))
    yield ""
    quoted = f'"{found.spelling}"' if found.given else found.spelling
    yield f"ragmetrics evaluate FILE --metric {quoted}"


def _documentation(function: Any) -> Iterator[str]:
    """The docstring with each paragraph on one line, to be wrapped anew; its example stays line by line."""
    text, example, code = (inspect.getdoc(function) or "It has no docstring.").replace("``", "").partition("\nExample")
    for number, paragraph in enumerate(text.rstrip().split("\n\n")):
        yield from ([""] if number else [])
        yield " ".join(paragraph.split())
    yield from (["", *(example + code).strip().splitlines()] if code else [])


def _thresholds(found: Metric) -> str:
    return "" if found.threshold is None else f"{found.threshold:g}"


def _common(found: Metric) -> dict[str, FieldInfo]:
    """The shared options that do something for this metric."""
    idle = set(found.definition.options.model_fields)
    if not found.definition.levels:
        idle.add("preset")
    if "judge" not in found.definition.asks:
        idle |= {"models", "aggregate", "tolerance"}
    return {name: field for name, field in type(found.settings).model_fields.items() if name not in idle}


def _option_lines(title: str, fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    if not fields:
        return
    yield ""
    yield title
    width = max(map(len, fields))
    for name, field in fields.items():
        default = "required" if field.is_required() else f"default {field.default!r}"
        limits = ", ".join(filter(None, map(_limit, field.metadata)))
        accepted = _type(field.annotation) + (f" ({limits})" if limits else "")
        yield f"  {name:<{width}}  {accepted}; {default}"


def _limit(constraint: object) -> str:
    signs = {"ge": "from", "gt": "above", "le": "to", "lt": "below", "min_length": "at least"}
    for name, sign in signs.items():
        if hasattr(constraint, name):
            value = getattr(constraint, name)
            return f"{sign} {value:g}" if isinstance(value, (int, float)) else ""
    return ""


def _type(annotation: Any) -> str:
    """A type as a user reads it: choices for literals, alternatives with ``|``."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        limits = ", ".join(filter(None, map(_limit, getattr(arguments[1], "metadata", arguments[1:]))))
        return _type(arguments[0]) + (f" ({limits})" if limits else "")
    if origin is typing.Literal:
        return " | ".join(repr(choice) for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_type(each) for each in arguments)
    if annotation is type(None):
        return "None"
    if origin in (tuple, list) or getattr(origin, "__name__", "") in ("Sequence", "Iterable"):
        return f"list of {_type(arguments[0])}" if arguments else "list"
    if origin is not None and origin.__name__ == "Callable":
        return "a function"
    return getattr(annotation, "__name__", str(annotation))
