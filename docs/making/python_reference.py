"""The Python API from the docstrings and signatures of the public names."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import mlflow_ragmetrics as rm
import mlflow_ragmetrics.errors as errors
import mlflow_ragmetrics.spark as spark
from making.text import prose

__all__ = ["GROUPS", "group_of", "pages"]

GROUPS = {
    "evaluate": ("Evaluate", "One sample, many samples, the report of an evaluation and what it holds."),
    "compare": ("Compare and calibrate", "Whether a version is better, how sure that is, and whom to believe."),
    "frameworks": ("MLflow, LangChain, Spark and others", "The doors in from other frameworks."),
    "judges": ("Judges and questions", "Who judges, what is asked, and what an answer is."),
    "metrics": ("Metrics of your own", "What a metric is, and how metrics are weighed and combined."),
    "errors": ("Errors", "Every error that the package raises on purpose."),
}
_ROOMS = {
    "adapters": "frameworks",
    "calibration": "compare",
    "comparison": "compare",
    "core.composite": "metrics",
    "core.judge": "judges",
    "core.metric": "metrics",
    "core.question": "judges",
    "embeddings": "judges",
    "errors": "errors",
    "judges": "judges",
    "metrics": "metrics",
    "stress_suite": "compare",
}
_BESIDE = {"errors": errors, "frameworks": spark}
"""The public modules beside ``rm``, by the page that their names are on."""


_FIRST = (
    *("score", "Suite", "Report", "Row", "Sample", "Score", "Item"),
    *("compare", "Comparison", "power", "calibrate", "Calibration"),
    *("scorer", "scorers", "get_scorer", "extra_metrics", "RagMetricsCallback", "evaluate_chain", "assert_score"),
    *("Judge", "LexicalJudge", "ChatJudge", "metric", "Metric", "ask", "composite"),
)


def _place(entry: tuple[str, str]) -> tuple[int, str]:
    """What a reader looks for first stands first, the rest by name."""
    name = entry[0]
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def group_of(module: str) -> str:
    """The page that the names of a module of the package are on; those of no named room are about evaluating."""
    parts = module.split(".")
    return next((_ROOMS[".".join(parts[:n])] for n in (2, 1) if ".".join(parts[:n]) in _ROOMS), "evaluate")


def pages() -> dict[str, str]:
    """The text of each page by its place, and of the page that lists them."""
    names: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name, module in sorted(rm._HOME.items(), key=_place):
        names[group_of(module)].append(name)
    for group, beside in _BESIDE.items():
        names[group] += [name for name in beside.__all__ if name not in rm._HOME]
    listed = "\n".join(f"- [{title}](python_{group}.md): {said}" for group, (title, said) in GROUPS.items())
    order = "\n".join(f"python_{group}" for group in GROUPS)
    first = (
        "# Python API\n\nAll public names, from their docstrings; `import mlflow_ragmetrics as rm` has them, and "
        "imports what each needs when it is first used. Metrics are public by their own names too: "
        f"[the metrics](../metrics/index.md).\n\n{listed}\n\n```{{toctree}}\n:hidden:\n\n{order}\n```\n"
    )
    return {"reference/python": first} | {f"reference/python_{group}": _page(group, names[group]) for group in GROUPS}


def _page(group: str, names: list[str]) -> str:
    title, said = GROUPS[group]
    return "\n\n".join([f"# {title}", said, *(part for name in names for part in _entry(name, _home(name)))]) + "\n"


def _home(name: str) -> ModuleType:
    return rm if name in rm._HOME else next(each for each in _BESIDE.values() if name in each.__all__)


def _entry(name: str, home: ModuleType) -> Iterator[str]:
    found = getattr(home, name)
    yield f"## {'rm' if home is rm else home.__name__}.{name}"
    if inspect.isclass(found):
        yield from _class(name, found)
    elif callable(found):
        yield _signature(name, found)
        yield prose(inspect.getdoc(found) or "")
    else:
        yield "A type for annotations:"
        text = str(found).replace("typing.", "").replace("mlflow_ragmetrics.core.question.", "")
        yield f"```python\n{name} = {text}\n```"


def _class(name: str, found: type) -> Iterator[str]:
    if not issubclass(found, Exception) and not getattr(found, "_is_protocol", False):
        yield _signature(name, found)
    bases = [
        each.__name__
        for each in found.__bases__
        if each is not object and each.__name__ in {*rm._HOME, *errors.__all__}
    ]
    if bases:
        yield f"Derives from {', '.join(f'`{each}`' for each in bases)}."
    text = inspect.cleandoc(found.__doc__ or "")
    yield prose("" if text.startswith(f"{name}(") else text)
    for member, value in vars(found).items():
        if member.startswith("_") or (dataclasses.is_dataclass(found) and not callable(value) and not _getter(value)):
            continue
        function = getattr(value, "__func__", None) or _getter(value) or value
        if not inspect.isfunction(function):
            continue
        yield f"### {name}.{member}"
        if _getter(value):
            yield f"```python\n{member}: {_type(inspect.signature(function).return_annotation)}\n```"
        else:
            yield _signature(member, function)
        yield prose(inspect.getdoc(function) or "")


def _getter(value: Any) -> Callable[..., Any] | None:
    return getattr(value, "fget", None) or (getattr(value, "func", None) if not inspect.isfunction(value) else None)


def _signature(name: str, function: Callable[..., Any]) -> str:
    """The call with its types, a line a parameter where it is long."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return f"```python\n{name}(...)\n```"
    parts, starred = [], False
    for each in signature.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not starred and each.kind is not each.VAR_POSITIONAL:
            parts.append("*")
            starred = True
        starred = starred or each.kind is each.VAR_POSITIONAL
        sign = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        kind = "" if each.annotation is each.empty else f": {_type(each.annotation)}"
        default = "" if each.default is each.empty else f" = {_default(each.default)}"
        parts.append(f"{sign}{each.name}{kind}{default}")
        if each.kind is each.POSITIONAL_ONLY and not _more_positional(signature, each.name):
            parts.append("/")
    given = signature.return_annotation
    back = "" if given is signature.empty or inspect.isclass(function) else f" -> {_type(given)}"
    line = f"{name}({', '.join(parts)}){back}"
    if len(line) > 88:
        line = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){back}"
    return f"```python\n{line}\n```"


def _more_positional(signature: inspect.Signature, name: str) -> bool:
    kinds = [each.name for each in signature.parameters.values() if each.kind is each.POSITIONAL_ONLY]
    return bool(kinds) and kinds[-1] != name


def _default(value: Any) -> str:
    return "..." if " at 0x" in repr(value) or type(value).__name__ == "_HAS_DEFAULT_FACTORY_CLASS" else repr(value)


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.replace("mlflow_ragmetrics.", "").replace("typing.", "")
