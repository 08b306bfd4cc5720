"""Metric options: derived from a function's signature and validated."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import FunctionType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from typing_extensions import get_type_hints  # before Python 3.11, that of ``typing`` adds None for a default of None

from mlflow_ragmetrics.errors import InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.text.messages import check_language

Aggregate = Literal["mean", "median", "min", "max", "majority", "consensus"]
OnMissing = Literal["raise", "skip"]

M = TypeVar("M")

_LONGEST_SHOWN = 300


def spelled(*choices: str, **others: str) -> BeforeValidator:
    """Accept a choice or one of its other names, ignoring case, ``-``, ``_`` and spaces."""
    accepted = {plain_name(choice): choice for choice in choices} | others
    return BeforeValidator(lambda value: accepted.get(plain_name(value), value) if isinstance(value, str) else value)


def plain_name(word: str) -> str:
    """The letters and digits of a name, in lower case."""
    return "".join(filter(str.isalnum, word.lower()))


Share = Annotated[float, Field(ge=0, le=1, strict=True)]


class Settings(BaseModel):
    """The options that every metric accepts in addition to its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    threshold: Share | None = None
    preset: Literal["conservative", "balanced", "lenient"] | None = None
    key: str | None = None
    language: Annotated[str, AfterValidator(check_language)] | None = None
    on_missing: OnMissing | None = None
    models: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    aggregate: Aggregate = "mean"
    tolerance: Annotated[float, Field(ge=0)] = 0.1
    min_judges: Annotated[int, Field(ge=1)] | None = None


def options_model(function: Callable[..., Any]) -> type[Settings]:
    """A pydantic model of the common options and the keyword-only parameters of ``function``."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError:  # a type defined locally, in the same function as the metric
        hints = {}
    fields: dict[str, Any] = {
        name: (hints.get(name, Any), parameter.default if parameter.default is not parameter.empty else ...)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    return create_model(f"{function.__name__}_options", __base__=Settings, **fields)


def check_options(metric: str, model: Callable[..., M], given: Mapping[str, Any]) -> M:
    """Validate ``given`` with the pydantic ``model``; ``InvalidOptionError`` reports the first problem."""
    try:
        return model(**given)
    except ValidationError as error:
        first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, InvalidOptionError):  # raised by a check that covers several options
            raise InvalidOptionError(f"{metric}: {cause}", param=cause.param, metric=metric) from None
        param = str(first["loc"][0]) if first["loc"] else "options"
        problem = first["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list")
        message = f"{metric}: option {param}={shown(given.get(param))}: {problem}"
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            names = inspect.signature(model).parameters
            accepted = ", ".join(sorted(set(names).difference(Settings.model_fields))) or "no options"
            near = meant(param, [*names, *Settings.model_fields, "judge", "embeddings"])
            # without the value, which may be a key under a misspelt name
            message = f"{metric}: option {param}: no such option{near or f'; {metric} accepts {accepted}'}"
        if first["type"] == "missing":
            message = f"{metric}: {param} is missing"
        raise InvalidOptionError(message, param=param, metric=metric) from None


def check_aggregate(how: Aggregate, tolerance: float) -> tuple[Aggregate, float]:
    """Validate both; ``InvalidOptionError`` for an unknown aggregation or a negative tolerance."""
    checked = check_options("aggregate", Settings, {"aggregate": how, "tolerance": tolerance})
    return checked.aggregate, checked.tolerance


def check_count(name: str, value: object) -> None:
    """Raise ``InvalidOptionError`` unless ``value`` is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidOptionError(f"{name}={shown(value)} must be a whole number, at least 1", param=name)


def meant(name: str, known: Iterable[str]) -> str:
    """A question that suggests the nearest known name, to end a message; empty if none is near."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def kind_of(value: object) -> str:
    """The type of ``value`` with an article, for messages: ``a list``, ``an int``."""
    kind = type(value).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def shown(value: object) -> str:
    """The ``repr`` of ``value`` for messages, truncated if it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def public(function: FunctionType, module: str) -> Callable[..., Any]:
    """Wrap a public function of ``module``: short tracebacks for our errors, and suggestions for unknown arguments."""
    parameters = inspect.signature(function).parameters
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())

    @wraps(function)
    def call(*arguments: object, **options: object) -> object:
        __tracebackhide__ = True  # pytest and IPython then show the caller's line
        unknown = [name for name in options if name not in parameters and not takes_all]
        if unknown:
            message = f"{function.__name__}() got an unexpected keyword argument {unknown[0]!r}"
            raise TypeError(message + meant(unknown[0], parameters))
        try:
            return function(*arguments, **options)
        except RagMetricsError as error:
            raise error.with_traceback(None) from None

    call.__module__ = module  # so that pickle finds it
    return function if inspect.iscoroutinefunction(function) else call
