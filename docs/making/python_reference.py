"""The Python API from the docstrings and signatures of the public names."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, get_origin

import mlflow_ragmetrics as rm
import mlflow_ragmetrics.errors as errors
import mlflow_ragmetrics.spark as spark
from making.text import escaped, prose
from mlflow_ragmetrics.display.document import Document
from mlflow_ragmetrics.results.evaluation import Evaluation

__all__ = ["GROUPS", "group", "group_of"]

GROUPS = ("evaluate", "compare", "frameworks", "judges", "metrics", "errors")
_ROOMS = {
    "adapters": "frameworks",
    "calibration": "compare",
    "comparison": "compare",
    "core.composite": "metrics",
    "core.metric": "metrics",
    "core.question": "judges",
    "embeddings": "judges",
    "errors": "errors",
    "judges": "judges",
    "metrics": "metrics",
    "stress_suite": "compare",
}
_BESIDE = {"errors": errors, "frameworks": spark}
"""The other public modules, by the group that lists their names."""


_FIRST = (
    *("score", "Suite", "Report", "Row", "Sample", "Score", "Item"),
    *("compare", "Comparison", "power", "calibrate", "Calibration"),
    *("scorer", "scorers", "get_scorer", "extra_metrics", "RagMetricsCallback", "evaluate_chain", "assert_score"),
    *("Judge", "LexicalJudge", "ChatJudge", "metric", "Metric", "ask", "composite"),
)


def _place(entry: tuple[str, str]) -> tuple[int, str]:
    """The most used names come first, the rest in alphabetical order."""
    name = entry[0]
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def group_of(module: str) -> str:
    """The group that lists the names of a module; ``evaluate`` if no other does."""
    parts = module.split(".")
    return next((_ROOMS[".".join(parts[:n])] for n in (2, 1) if ".".join(parts[:n]) in _ROOMS), "evaluate")


def group(name: str) -> str:
    """The entries of one group."""
    names = [each for each, module in sorted(rm._HOME.items(), key=_place) if group_of(module) == name]
    names += [each for each in getattr(_BESIDE.get(name), "__all__", ()) if each not in rm._HOME]
    return "\n\n".join(part for each in names for part in _entry(each, _home(each)))


def _home(name: str) -> ModuleType:
    return rm if name in rm._HOME else next(each for each in _BESIDE.values() if name in each.__all__)


def _entry(name: str, home: ModuleType) -> Iterator[str]:
    found = getattr(home, name)
    yield f"### {'rm' if home is rm else home.__name__}.{name}"
    if inspect.isclass(found) and get_origin(found) is None:
        yield from _class(name, found)
    elif callable(found) and get_origin(found) is None:
        yield from _callable(name, found)
    else:
        yield "A type for annotations:"
        text = str(found).replace("typing.", "").replace("mlflow_ragmetrics.core.question.", "")
        yield f"```text\n{name} = {text}\n```"


def _class(name: str, found: type) -> Iterator[str]:
    text = inspect.cleandoc(found.__doc__ or "")
    text = "" if text.startswith(f"{name}(") else text
    if not issubclass(found, Exception) and not getattr(found, "_is_protocol", False):
        yield from _callable(name, found, text)
    else:
        yield prose(text)
    named = {*rm._HOME, *errors.__all__}
    base = next((each.__name__ for each in found.__mro__[1:] if each.__name__ in named), None)
    if base:
        yield f"Derives from `{base}`."
    shared = {found.__module__, Document.__module__, Evaluation.__module__}
    private = [each for each in found.__mro__[:0:-1] if each.__module__ in shared and each.__name__ not in named]
    members = {name: value for each in (*private, found) for name, value in vars(each).items()}
    for member, value in members.items():
        if member.startswith("_") or (dataclasses.is_dataclass(found) and not callable(value) and not _getter(value)):
            continue
        function = getattr(value, "__func__", None) or _getter(value) or value
        if not inspect.isfunction(function):
            continue
        yield f"#### {name}.{member}"
        if _getter(value):
            yield f"`{member}: {_type(inspect.signature(function).return_annotation)}`"
            yield prose(inspect.getdoc(function) or "")
        else:
            yield from _callable(member, function)


def _getter(value: Any) -> Callable[..., Any] | None:
    return getattr(value, "fget", None) or (getattr(value, "func", None) if not inspect.isfunction(value) else None)


def _callable(name: str, function: Callable[..., Any], docstring: str | None = None) -> Iterator[str]:
    """The call, what it does, and a list of its parameters with the types, defaults and descriptions."""
    said = inspect.getdoc(function) or "" if docstring is None else docstring
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        yield f"`{name}(...)`"
        yield prose(said)
        return
    given = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    bare = [each.replace(annotation=each.empty) for each in given]
    line = str(signature.replace(parameters=bare, return_annotation=signature.empty))
    back = "" if inspect.isclass(function) else _type(signature.return_annotation)
    call = f"{name}{_shortened(line)}{f' -> {back}' if back else ''}"
    wrapped = textwrap.fill(call, 88, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    yield f"```text\n{wrapped}\n```"
    said, described = _split(said, [each.name for each in given])
    yield prose(said)
    yield "\n".join(f"- {_parameter(each)}{described.get(each.name, '')}" for each in given)


def _shortened(line: str) -> str:
    return re.sub(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>", "...", line)


def _parameter(each: inspect.Parameter) -> str:
    sign = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    kind = "" if each.annotation is each.empty else f" (`{_type(each.annotation)}`)"
    return f"`{sign}{each.name}`{kind}"


def _split(docstring: str, names: list[str]) -> tuple[str, dict[str, str]]:
    """The docstring without the descriptions of parameters, and these by name.

    A description follows one or several names and a colon, up to the next such names or the end of the paragraph.
    """
    found: dict[str, str] = {}
    kept = []
    name = rf"``\*{{0,2}}(?:{'|'.join(names) or '$^'})``"
    start = re.compile(rf"({name}(?:(?:, | and ){name})*): ")
    for paragraph in docstring.split("\n\n"):
        before, *parts = start.split(paragraph)
        for described, text in zip(parts[::2], parts[1::2], strict=True):
            found |= {each: f": {escaped(' '.join(text.split()))}" for each in re.findall(r"``\**(\w+)``", described)}
        kept.append(before)
    return "\n\n".join(filter(str.strip, kept)), found


def _type(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.replace("mlflow_ragmetrics.", "").replace("typing.", "")
