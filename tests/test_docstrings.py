"""The docstrings are the API's reference: complete, with all inputs and outputs."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_origin

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.spark import score_spark, summarize_spark

PUBLIC = {name: getattr(rm, name) for name in rm.__all__ if name != "__version__"}
FUNCTIONS = {name: each for name, each in PUBLIC.items() if inspect.isfunction(each)}
CLASSES = {name: each for name, each in PUBLIC.items() if inspect.isclass(each) and get_origin(each) is None}
EXPLAINED_ONCE = (rm.Claims, rm.Suite, rm.Suite.evaluate, rm.Report.log, summarize_spark, score_spark)


def _own(each: Any) -> str:
    """The docstring of a class or function itself, not inherited and not a dataclass signature."""
    text = inspect.cleandoc(each.__doc__ or "")
    return "" if inspect.isclass(each) and text.startswith(f"{each.__name__}(") else text


def _members(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in vars(owner).items():
        function = getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", value)
        if not name.startswith("_") and inspect.isfunction(function):
            yield f"{owner.__name__}.{name}", function


MEMBERS = dict(member for each in CLASSES.values() for member in _members(each))
CALLABLE = {**FUNCTIONS, **MEMBERS}
OWNERS = {f"{owner.__name__}.{name}": owner for owner in CLASSES.values() for name in vars(owner)}


def _parameters(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in kinds and each.name not in ("self", "cls")]


def _unsaid(names: list[str], text: str) -> list[str]:
    return [name for name in names if not re.search(rf"\b{name}\b", text)]


def _faults(check: Callable[[str], object], names: Iterable[str]) -> dict[str, object]:
    """What ``check`` misses, by name."""
    return {name: missing for name in names if (missing := check(name))}


def test_each_parameter_is_explained() -> None:
    """In its own docstring, in that of the class, or in the place that all functions with such a parameter refer to."""

    def unsaid(name: str) -> list[str]:
        function = CALLABLE[name]
        said = "\n".join(map(_own, (function, *([OWNERS[name]] if name in OWNERS else []), *EXPLAINED_ONCE)))
        return _unsaid(_parameters(function), said)

    assert _faults(unsaid, CALLABLE) == {}


def test_each_argument_and_field_of_a_class_is_explained() -> None:
    """In the docstring of the class, property or field, or in the place that all with such a parameter refer to."""

    def unsaid(name: str) -> list[str]:
        owner = CLASSES[name]
        fields = [each.name for each in dataclasses.fields(owner)] if dataclasses.is_dataclass(owner) else []
        constructor = [] if getattr(owner, "_is_protocol", False) else _parameters(owner)
        said = "\n".join([sys.modules[owner.__module__].__doc__ or "", *map(_own, (owner, *EXPLAINED_ONCE))])
        return _unsaid([each for each in {*fields, *constructor} if not each.startswith("_")], said)

    assert _faults(unsaid, [name for name, each in CLASSES.items() if not issubclass(each, Exception)]) == {}
