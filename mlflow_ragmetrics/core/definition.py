"""The facts about a metric, and the text that ``help``, ``ragmetrics explain`` and its documentation page show."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, Union

from mlflow_ragmetrics.core.options import Settings
from mlflow_ragmetrics.core.score import Better

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


Asks = Literal["judge", "embeddings"]
Key = Union[str, Callable[[Settings], str]]


@dataclass(frozen=True)
class Definition:
    """A metric's function and the facts about it.

    ``required`` and ``optional`` name sample fields, ``own`` the options of this metric alone. ``asks`` lists the
    models that the metric needs: a judge, embeddings or both. ``range`` bounds the raw value. ``levels`` maps
    conservative, balanced and lenient to thresholds. ``scaled`` adds a value on the 1–5 scale. ``higher_is_better`` is
    ``False`` if lower is better and ``None`` if neither is. ``key`` is a template over the options, or a function of
    them; ``key_pattern`` parses such a key back into options. ``source`` cites the metric's origin. ``judged`` is the
    metric that replaces this one with ``gold="judge"``.
    """

    name: str
    function: Callable[..., Any]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    own: tuple[str, ...]
    options: type[Settings]
    asks: tuple[Asks, ...] = ()
    range: tuple[float, float] = (0.0, 1.0)
    levels: Mapping[str, float] | None = None
    scaled: bool = False
    higher_is_better: Better = True
    source: str = ""
    aliases: tuple[str, ...] = ()
    key: Key | None = None
    key_pattern: str | None = None
    judged: Callable[..., Any] | None = None

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickle by module and metric name: the decorator has replaced the function under that name."""
        place = (self.function.__module__, self.function.__qualname__)
        return (_definition_at, place) if _definition_at(*place) is self else super().__reduce_ex__(protocol)


def _definition_at(module: str, name: str) -> Definition | None:
    definition: Definition | None = getattr(getattr(import_module(module), name, None), "definition", None)
    return definition


SIDES = {True: "higher is better", False: "lower is better", None: "neither direction is better"}


def paragraphs_of(text: str) -> tuple[list[str], list[str]]:
    """The docstring's paragraphs, each joined into one line (except tables), and the lines of its example."""
    prose, _, example = text.partition("\nExample")
    parts = prose.strip().split("\n\n")
    paragraphs = [part if part.startswith("===") else " ".join(part.split()) for part in parts]
    return paragraphs, example.removeprefix("s").removeprefix(":").strip("\n").splitlines()


def facts_of(definition: Definition, key: str, threshold: float | None) -> dict[str, str]:
    """The facts that the docstring does not list, by label: range, needs, thresholds, other names, source."""
    low, high = definition.range
    scaled = "; also shown on a 1–5 scale" if definition.scaled else ""
    facts = {
        "Key": key,
        "Range": f"{low:g} to {high:g}, {SIDES[definition.higher_is_better]}{scaled}",
        "Needs": ", ".join((*definition.required, *definition.asks)),
        "Uses": ", ".join(definition.optional),
        "Passes at": ""
        if threshold is None
        else f"{threshold:g} or {'lower' if definition.higher_is_better is False else 'higher'}",
        "Presets": ", ".join(f"{name} {level:g}" for name, level in (definition.levels or {}).items()),
        "Also called": ", ".join(definition.aliases),
        "Source": definition.source,
        "Defined in": definition.function.__module__,
    }
    return {name: value for name, value in facts.items() if value}


def options_of(definition: Definition) -> dict[str, dict[str, str]]:
    """The types and defaults of the metric's own options and of the common options, each under a heading."""
    fields = definition.options.model_fields
    without_effect = set() if definition.levels else {"preset"}
    without_effect |= set() if "judge" in definition.asks else {"models", "aggregate", "tolerance", "min_judges"}
    common = [name for name in Settings.model_fields if name not in without_effect.union(definition.own)]
    groups = {"Options": definition.own, "Common options": common}
    return {title: {name: _said(fields[name]) for name in names} for title, names in groups.items() if names}


def _said(field: FieldInfo) -> str:
    limits = ", ".join(filter(None, map(_limit, field.metadata)))
    return f"{_type(field.annotation)}{f' ({limits})' if limits else ''}; default {field.default!r}"


def _limit(constraint: object) -> str:
    signs = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "at least"}
    for name, sign in signs.items():
        if hasattr(constraint, name):
            value = getattr(constraint, name)
            return f"{sign} {value:g}" if isinstance(value, (int, float)) else ""
    return ""


def _type(annotation: Any) -> str:
    """A readable type: the choices of a literal, and alternatives separated by ``|``."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        limits = ", ".join(filter(None, map(_limit, getattr(arguments[1], "metadata", arguments[1:]))))
        return _type(arguments[0]) + (f" ({limits})" if limits else "")
    if origin is typing.Literal:
        return " | ".join(repr(choice) for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_type(argument) for argument in arguments)
    if annotation is type(None):
        return "None"
    if origin in (tuple, list) or getattr(origin, "__name__", "") in ("Sequence", "Iterable"):
        return f"list of {_type(arguments[0])}" if arguments else "list"
    if origin is not None and origin.__name__ == "Callable":
        return "a function"
    return getattr(annotation, "__name__", str(annotation))
