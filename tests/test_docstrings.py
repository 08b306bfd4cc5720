"""The docstrings are the API's reference: complete, with all inputs and outputs."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pydoc
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
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
OWNERS = {f"{owner.__name__}.{name}": owner for owner in CLASSES.values() for name in vars(owner)}


def _parameters(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in kinds and each.name not in ("self", "cls")]


def _unsaid(names: list[str], text: str) -> list[str]:
    return [name for name in names if not re.search(rf"\b{name}\b", text)]


def _raised(function: Callable[..., Any]) -> set[str]:
    """The public errors that the function's own body raises by name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise))
    calls = (each.func if isinstance(each, ast.Call) else each for each in raised)
    return {each.id for each in calls if isinstance(each, ast.Name) and each.id in CLASSES}


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_each_public_name_says_what_it_is(name: str) -> None:
    text = _own(PUBLIC[name])
    first = text.split("\n\n")[0]
    assert len(first) > 20, f"{name} has no docstring"
    assert first.rstrip()[-1] in ".:?", f"{name}: the first paragraph is no sentence: {first!r}"


@pytest.mark.parametrize("name", MEMBERS)
def test_each_public_method_says_what_it_gives(name: str) -> None:
    assert len(inspect.getdoc(MEMBERS[name]) or "") > 10, f"{name} has no docstring"


@pytest.mark.parametrize("name", [*FUNCTIONS, *MEMBERS])
def test_each_public_function_has_its_types(name: str) -> None:
    signature = inspect.signature({**FUNCTIONS, **MEMBERS}[name])
    assert signature.return_annotation is not signature.empty, f"{name}: what it returns is not annotated"
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    assert [each.name for each in parameters if each.annotation is each.empty] == []


@pytest.mark.parametrize("name", [*FUNCTIONS, *MEMBERS])
def test_each_parameter_is_explained(name: str) -> None:
    """In its own docstring, in that of the class, or in the place that all functions with such a parameter refer to."""
    function = {**FUNCTIONS, **MEMBERS}[name]
    said = "\n".join(map(_own, (function, *([OWNERS[name]] if name in OWNERS else []), *EXPLAINED_ONCE)))
    assert _unsaid(_parameters(function), said) == []


@pytest.mark.parametrize("name", [name for name, each in CLASSES.items() if not issubclass(each, Exception)])
def test_each_argument_and_field_of_a_class_is_explained(name: str) -> None:
    """In the docstring of the class, property or field, or in the place that all with such a parameter refer to."""
    owner = CLASSES[name]
    fields = [each.name for each in dataclasses.fields(owner)] if dataclasses.is_dataclass(owner) else []
    constructor = [] if getattr(owner, "_is_protocol", False) else _parameters(owner)
    said = "\n".join([sys.modules[owner.__module__].__doc__ or "", *map(_own, (owner, *EXPLAINED_ONCE))])
    assert _unsaid([each for each in {*fields, *constructor} if not each.startswith("_")], said) == []


@pytest.mark.parametrize("name", [*FUNCTIONS, *MEMBERS])
def test_each_error_that_is_raised_is_named(name: str) -> None:
    function = {**FUNCTIONS, **MEMBERS}[name]
    said = _own(function) + (_own(OWNERS[name]) if name in OWNERS else "")
    assert _unsaid(sorted(_raised(function)), said) == []


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_says_formula_source_example_and_what_is_unscored(name: str) -> None:
    text = inspect.getdoc(METRICS[name].definition.function) or ""
    assert [word for word in ("Formula:", "Source:", "Unscored:", "Example:", ">>> ") if word not in text] == []


@pytest.mark.parametrize("name", all_metrics())
def test_help_teaches_the_metric_and_not_its_class(name: str) -> None:
    shown = pydoc.plain(pydoc.render_doc(getattr(rm, name)))
    assert "Formula:" in shown
    assert (Metric.__doc__ or "?") not in shown


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_names_its_options_and_fields(name: str) -> None:
    definition = METRICS[name].definition
    text = inspect.getdoc(definition.function) or ""
    assert _unsaid(list(definition.options.model_fields), text) == []
    words = {"retrieved_doc_ids": "retrieved", "gold_doc_ids": "gold|relevant"}
    needed = [words.get(field, field) for field in definition.required]
    assert [each for each in needed if not re.search(rf"\b({each})", text)] == []


@pytest.mark.parametrize("name", METRICS)
def test_an_example_fits_a_terminal_of_80_columns(name: str) -> None:
    text = inspect.getdoc(METRICS[name].definition.function) or ""
    assert [line for line in text.partition("\nExample")[2].splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_says_its_range(name: str) -> None:
    low, high = METRICS[name].definition.range
    text = (inspect.getdoc(METRICS[name].definition.function) or "").replace("−", "-")
    assert re.search(rf"{low:g}(\.0)? (to|or) {high:g}", text), f"{name}: {low:g} to {high:g} is not said"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_teaches_by_example(name: str) -> None:
    command = COMMANDS[name]
    assert command is not None
    assert f"ragmetrics {name}" in (command.help or ""), f"{name} --help shows no example"
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.name for each in options if not each.help] == []


def test_each_error_stands_in_the_tree() -> None:
    import mlflow_ragmetrics.errors as errors

    for name, each in CLASSES.items():
        if issubclass(each, Exception):
            assert name in (errors.__doc__ or ""), f"{name} is not drawn in the tree of errors"


def test_the_picture_of_the_package_shows_its_rooms() -> None:
    shown = PICTURE.search(CONTRIBUTING.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0] == picture(), "run: python tests/house.py"
