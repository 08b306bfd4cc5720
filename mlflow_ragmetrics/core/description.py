"""A metric in words: what ``help(rm.faithfulness)``, ``ragmetrics explain faithfulness`` and its page say alike."""

from __future__ import annotations

import inspect
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from mlflow_ragmetrics.core.metric import Metric

_WIDTH = 100
_NAMES = 12
SIDES = {True: "higher is better", False: "lower is better", None: "neither side is better"}


def described(metric: Metric) -> str:
    """The docstring as it was written, then the facts and the options."""
    lines = [inspect.getdoc(metric.definition.function) or "It has no docstring.", ""]
    lines += [f"{name:<{_NAMES}} {value}" for name, value in facts_of(metric).items()]
    for title, options in options_of(metric).items():
        lines += ["", title, *(f"  {name}  {said}" for name, said in options.items())]
    return "\n".join(
        line if "\n" in line else textwrap.fill(line, _WIDTH, subsequent_indent=" " * (_NAMES + 1)) for line in lines
    )


def paragraphs_of(text: str) -> tuple[list[str], list[str]]:
    """A docstring's paragraphs, each on one line but for tables, and the lines of its example without a heading."""
    said, _, example = text.partition("\nExample")
    parts = said.strip().split("\n\n")
    paragraphs = [part if part.startswith("===") else " ".join(part.split()) for part in parts]
    return paragraphs, example.removeprefix("s").removeprefix(":").strip("\n").splitlines()


def facts_of(metric: Metric) -> dict[str, str]:
    """What is known of the metric beside its docstring, by name: range, needs, thresholds, other names, source."""
    definition = metric.definition
    low, high = definition.range
    scaled = "; shown on 1 to 5 too" if definition.scaled else ""
    facts = {
        "Key": metric.key,
        "Range": f"{low:g} to {high:g}, {SIDES[definition.higher_is_better]}{scaled}",
        "Needs": ", ".join((*definition.required, *definition.asks)),
        "Uses": ", ".join(definition.optional),
        "Passes from" if definition.higher_is_better is not False else "Passes up to": ""
        if metric.threshold is None
        else f"{metric.threshold:g}",
        "Presets": ", ".join(f"{name} {level:g}" for name, level in (definition.levels or {}).items()),
        "Also called": ", ".join(definition.aliases),
        "Source": definition.source,
        "Defined in": definition.function.__module__,
    }
    return {name: value for name, value in facts.items() if value}


def options_of(metric: Metric) -> dict[str, dict[str, str]]:
    """What its own options accept and default to, and those that other metrics have too, each under its heading."""
    own = metric.definition.options.model_fields
    found = {"Options": _accepted(own), "Options that others have too": _accepted(_common(metric))}
    return {title: options for title, options in found.items() if options}


def _common(metric: Metric) -> dict[str, FieldInfo]:
    """The shared options that do something for this metric."""
    idle = set(metric.definition.options.model_fields)
    if not metric.definition.levels:
        idle.add("preset")
    if "judge" not in metric.definition.asks:
        idle |= {"models", "aggregate", "tolerance"}
    return {name: field for name, field in type(metric.settings).model_fields.items() if name not in idle}


def _accepted(fields: Mapping[str, FieldInfo]) -> dict[str, str]:
    return {name: "; ".join(_said(field)) for name, field in fields.items()}


def _said(field: FieldInfo) -> Iterator[str]:
    limits = ", ".join(filter(None, map(_limit, field.metadata)))
    yield _type(field.annotation) + (f" ({limits})" if limits else "")
    yield "required" if field.is_required() else f"default {field.default!r}"


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
