"""The docstrings are the API's reference: complete, with all inputs and outputs."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_origin

import click
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.registry import all_metrics
from mlflow_ragmetrics.spark import score_spark, summarize_spark

from .house import CONTRIBUTING, PICTURE, picture

PUBLIC = {name: getattr(rm, name) for name in rm.__all__ if name != "__version__"}
FUNCTIONS = {name: each for name, each in PUBLIC.items() if inspect.isfunction(each)}
CLASSES = {name: each for name, each in PUBLIC.items() if inspect.isclass(each) and get_origin(each) is None}
METRICS = {
    name: each
    for name, each in all_metrics().items()
    if isinstance(each, Metric) and each.definition.function.__module__.startswith("mlflow_ragmetrics.")
}
COMMANDS = {name: main.get_command(click.Context(main), name) for name in main.list_commands(click.Context(main))}
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


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_says_what_a_reader_needs(name: str) -> None:
    definition = METRICS[name].definition
    text = inspect.getdoc(definition.function) or ""
    assert len(definition.summary) > 20
    assert [word for word in ("Formula:", "Source:", "Unscored:", "Example:", ">>> ") if word not in text] == []
    assert [option for option in definition.options.model_fields if f"``{option}" not in text] == []
    words = {"retrieved_doc_ids": "retrieved", "gold_doc_ids": "gold|relevant"}
    needed = [words.get(field, field) for field in definition.required]
    assert [each for each in needed if not re.search(rf"\b({each})", text)] == []
    assert [line for line in text.partition("\nExample")[2].splitlines() if len(line) > 80] == []
    low, high = definition.range
    assert re.search(rf"{low:g}(\.0)? (to|or) {high:g}", text.replace("−", "-")), f"{low:g} to {high:g} is not said"


def test_each_command_teaches_by_example() -> None:
    assert [
        name for name, each in COMMANDS.items() if each is None or f"ragmetrics {name}" not in (each.help or "")
    ] == []
    options = {(name, each.name): each for name, command in COMMANDS.items() if command for each in command.params}
    assert [name for name, each in options.items() if isinstance(each, click.Option) and not each.help] == []


def test_the_picture_of_the_package_shows_its_rooms() -> None:
    shown = PICTURE.search(CONTRIBUTING.read_text(encoding="utf-8"))
    assert shown[0] == picture(), "run: python tests/house.py"
