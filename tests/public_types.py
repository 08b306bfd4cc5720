"""Writes ``mlflow_ragmetrics/__init__.pyi``, the types of the public names for type checkers and editors.

Run ``python tests/public_types.py`` after changing a public name or a metric's options; a test fails if it is outdated.
"""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.options import Settings
from mlflow_ragmetrics.registry import builtin_metrics
from mlflow_ragmetrics.text.messages import LANGUAGES

STUB = Path(rm.__file__).with_suffix(".pyi")
_HEAD = '''\
"""The public names with their types; written by tests/public_types.py."""

from collections.abc import Callable
from typing import Literal, TypeVar

'''


def type_text(hint: Any) -> str:
    """A type as written in a program; both, if pydantic converts a list to a tuple."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        return "None"
    if origin is Literal:
        return f"Literal[{', '.join(json.dumps(each) for each in arguments)}]"
    if origin in (Union, types.UnionType):
        return " | ".join(type_text(each) for each in arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"_Several[{type_text(arguments[0])}]"
    if origin is tuple:
        return f"tuple[{', '.join(map(type_text, arguments))}]"
    if origin is re.Pattern:
        return "str"
    if inspect.isclass(origin) and issubclass(origin, Callable):  # type: ignore[arg-type]
        return f"Callable[[{', '.join(map(type_text, arguments[0]))}], {type_text(arguments[1])}]"
    assert hint.__module__ == "builtins", f"write down how {hint!r} is written"
    return str(hint.__name__)


def options_of(metric: Metric) -> dict[str, str]:
    """The options of a metric, its own first, with the types of accepted values."""
    function = metric.definition.function
    hints = typing.get_type_hints(function)
    own = [each.name for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
    common = {**typing.get_type_hints(Settings), "language": Union[Literal[LANGUAGES], None]}
    if not metric.definition.levels:
        common.pop("preset")
    shared = {name: common[name] for name in Settings.model_fields if name in common and name not in own}
    return {name: type_text(hint) for name, hint in {**{name: hints[name] for name in own}, **shared}.items()}


def _metric_class(name: str, metric: Metric) -> Iterator[str]:
    kind = f"_{name.title().replace('_', '')}"
    yield f"class {kind}(Metric):"
    yield f'    """{metric.definition.summary}"""'
    yield ""
    yield "    def __call__(  # type: ignore[override]"
    yield "        self,"
    yield "        *,"
    yield from (f"        {option}: {kind} = ...," for option, kind in options_of(metric).items())
    yield f"    ) -> {kind}:"
    yield '        """The same metric with these options replaced."""'
    yield ""
    yield f"{name}: {kind}"
    yield ""


def stub() -> str:
    """The text of the stub: the imports of all public names, and a class per metric whose call takes its options."""
    homes = sorted((module, name) for name, module in rm._HOME.items())
    lines = [f"from mlflow_ragmetrics.{module} import {name} as {name}" for module, name in homes]
    lines += ["", '_T = TypeVar("_T")', "_Several = list[_T] | tuple[_T, ...]", "", "__version__: str", ""]
    for name, found in sorted(builtin_metrics().items()):
        lines += _metric_class(name, found) if isinstance(found, Metric) else [f"{name}: Composite", ""]
    return _HEAD + "\n".join(lines)


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
