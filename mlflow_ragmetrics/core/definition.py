"""What is known of a metric, and the same in words, as ``help``, ``ragmetrics explain`` and its page say it."""

from __future__ import annotations

import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, Union

from pydantic import BaseModel

from mlflow_ragmetrics.core.options import Settings
from mlflow_ragmetrics.core.score import Better, Score

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


Asks = Literal["judge", "embeddings"]
Key = Union[str, Callable[[BaseModel], str]]


@dataclass(frozen=True)
class Definition:
    """A metric's function with the facts about it.

    ``required`` and ``optional`` name sample fields; ``asks`` whom the program asks; ``range`` bounds the raw value;
    ``levels`` maps conservative, balanced and lenient to thresholds; ``scaled`` adds the 1–5 value;
    ``higher_is_better`` is ``False`` where lower is better and ``None`` where neither is; ``key`` is a
    template over the options (or a function of them), and ``key_pattern`` reads such a key back. ``source`` cites where
    the metric comes from. ``batch`` is the function for many samples at once: it takes a list per field, and gives
    ``None`` for those that are to be scored one by one.
    """

    name: str
    function: Callable[..., Any]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    options: type[BaseModel]
    asks: tuple[Asks, ...] = ()
    range: tuple[float, float] = (0.0, 1.0)
    levels: Mapping[str, float] | None = None
    scaled: bool = False
    higher_is_better: Better = True
    source: str = ""
    aliases: tuple[str, ...] = ()
    key: Key | None = None
    key_pattern: str | None = None
    batch: Callable[..., Sequence[Score | None]] | None = None

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """By the name of its metric, under which the function itself cannot be found any more."""
        place = (self.function.__module__, self.function.__qualname__)
        return (_definition_at, place) if _definition_at(*place) is self else super().__reduce_ex__(protocol)


def _definition_at(module: str, name: str) -> Definition | None:
    found: Definition | None = getattr(getattr(import_module(module), name, None), "definition", None)
    return found


_WIDTH = 100
_NAMES = 12
SIDES = {True: "higher is better", False: "lower is better", None: "neither side is better"}


def described(definition: Definition, key: str, threshold: float | None) -> str:
    """The docstring as it was written, then the facts and the options."""
    lines = [inspect.getdoc(definition.function) or "It has no docstring.", ""]
    lines += [f"{name:<{_NAMES}} {value}" for name, value in facts_of(definition, key, threshold).items()]
    for title, options in options_of(definition).items():
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


def facts_of(definition: Definition, key: str, threshold: float | None) -> dict[str, str]:
    """What is known of a metric beside its docstring, by name: range, needs, thresholds, other names, source."""
    low, high = definition.range
    scaled = "; shown on 1 to 5 too" if definition.scaled else ""
    facts = {
        "Key": key,
        "Range": f"{low:g} to {high:g}, {SIDES[definition.higher_is_better]}{scaled}",
        "Needs": ", ".join((*definition.required, *definition.asks)),
        "Uses": ", ".join(definition.optional),
        "Passes from" if definition.higher_is_better is not False else "Passes up to": ""
        if threshold is None
        else f"{threshold:g}",
        "Presets": ", ".join(f"{name} {level:g}" for name, level in (definition.levels or {}).items()),
        "Also called": ", ".join(definition.aliases),
        "Source": definition.source,
        "Defined in": definition.function.__module__,
    }
    return {name: value for name, value in facts.items() if value}


def options_of(definition: Definition) -> dict[str, dict[str, str]]:
    """What its own options accept and default to, and those that other metrics have too, each under its heading."""
    own = definition.options.model_fields
    found = {"Options": _accepted(own), "Options that others have too": _accepted(_common(definition))}
    return {title: options for title, options in found.items() if options}


def _common(definition: Definition) -> dict[str, FieldInfo]:
    """The shared options that do something for this metric."""
    idle = set(definition.options.model_fields)
    if not definition.levels:
        idle.add("preset")
    if "judge" not in definition.asks:
        idle |= {"models", "aggregate", "tolerance"}
    return {name: field for name, field in Settings.model_fields.items() if name not in idle}


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
