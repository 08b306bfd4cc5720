"""A metric: a pure function of a sample's fields, with options, a key and a range.

The function's positional parameters name the fields it needs (a default of ``None`` makes a field optional). Its
keyword-only parameters are options. A generator function asks a judge; a plain function computes the score itself.
``facts_of`` and ``options_of`` describe a metric for ``ragmetrics explain`` and its documentation page.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, update_wrapper
from importlib import import_module
from types import UnionType
from typing import Annotated, Any, Literal, SupportsIndex, Union, get_args, get_origin, overload

from pydantic.fields import FieldInfo

from mlflow_ragmetrics.core.options import Settings, check_options, options_model, shown
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.score import BY_RULE, FIELDS, Better, Sample, Score, passes
from mlflow_ragmetrics.errors import InvalidFieldError, InvalidOptionError, MissingFieldError, RagMetricsError
from mlflow_ragmetrics.text.messages import render, say
from mlflow_ragmetrics.text.non_answers import is_unknown_language

_PARAMETERS = (*FIELDS, "context_ids", "metadata", "id")

Asks = Literal["judge", "embeddings"]
Key = str | Callable[[Settings], str]


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


@dataclass(frozen=True, eq=False)
class Metric:
    """A ``definition`` with the options ``given``. Metrics are immutable, and equal if their spelling is equal.

    Calling it with options gives a variant: ``rouge(rouge_type="rougeL")``.
    """

    definition: Definition
    given: Mapping[str, Any]

    @classmethod
    def of(cls, definition: Definition, given: Mapping[str, Any]) -> Metric:
        """``definition`` with the options ``given``; ``InvalidOptionError`` names an invalid option."""
        if definition.judged is not None and "gold" in given:
            if given["gold"] != "judge":
                message = f"{definition.name}: gold={shown(given['gold'])} must be 'judge', or left out"
                raise InvalidOptionError(message, param="gold", metric=definition.name)
            twin: Metric = definition.judged(**{name: value for name, value in given.items() if name != "gold"})
            return twin
        bound = cls(definition, dict(given))
        object.__setattr__(bound, "__doc__", definition.function.__doc__)  # help(metric) shows it
        if bound.options.preset and not definition.levels and "preset" not in definition.own:
            message = f"{bound.name}: preset={bound.options.preset!r}: this metric has no presets; use threshold="
            raise InvalidOptionError(message, param="preset", metric=bound.name)
        if not bound.key.isidentifier():
            message = f"{bound.name}: key {bound.key!r} must be a Python identifier, such as my_metric"
            raise InvalidOptionError(message, param="key", metric=bound.name)
        return bound

    def __call__(self, **options: Any) -> Metric:
        """The same metric with these options replaced."""
        return Metric.of(self.definition, {**self.given, **options})

    @property
    def name(self) -> str:
        """The metric's name, without options."""
        return self.definition.name

    @cached_property
    def options(self) -> Settings:
        """The metric's own options and the common ones, with defaults; ``InvalidOptionError`` names an invalid one."""
        return check_options(self.name, self.definition.options, self.given)

    @cached_property
    def _own_options(self) -> dict[str, Any]:
        return {name: getattr(self.options, name) for name in self.definition.own}

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The fields without which a sample is not scored.

        They include ``contexts`` if the metric has the option ``no_context`` and you did not set it: the option covers
        samples for which nothing was retrieved, and a missing field does not mean that nothing was.
        """
        fields = self.definition.required
        is_assumed = "no_context" not in self.definition.options.model_fields or "no_context" in self.given
        return fields if is_assumed or "contexts" in fields else (*fields, "contexts")

    @cached_property
    def key(self) -> str:
        """The name of the score in tables and runs."""
        if self.options.key:
            return self.options.key
        key = self.definition.key
        if key is None:
            return self.name
        return key(self.options) if callable(key) else key.format(**dict(self.options))

    @cached_property
    def threshold(self) -> float | None:
        """The threshold to pass: the option ``threshold``, or the preset's (default: balanced); ``None`` if neither."""
        levels = self.definition.levels
        if self.options.threshold is not None or levels is None:
            return self.options.threshold
        return levels[self.options.preset or "balanced"]

    @cached_property
    def spelling(self) -> str:
        """A Python expression for this metric, such as ``rouge(rouge_type='rougeL')``."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in sorted(self.given.items()))
        return f"{self.name}({arguments})" if arguments else self.name

    def __repr__(self) -> str:
        return self.spelling

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metric) and (self.spelling, self.definition) == (other.spelling, other.definition)

    def __hash__(self) -> int:
        return hash((Metric, self.spelling))

    def __reduce__(self) -> tuple[Callable[..., Metric], tuple[Definition, dict[str, Any]]]:
        return Metric.of, (self.definition, dict(self.given))

    def start(self, sample: Sample) -> Steps[Score]:
        """The program that scores ``sample``: yields questions, returns a raw score.

        Raises ``MissingFieldError`` or ``InvalidFieldError`` if a field is missing or invalid.
        """
        result = self.definition.function(*[self._field(sample, name) for name in self._fields], **self._own_options)
        if isinstance(result, Generator):
            result = yield from result
        if result is None:
            return Score(status="skipped", reason=f"{self.name} returned no score")
        score = result
        if not isinstance(score, Score):
            try:
                number = float(result)
            except (TypeError, ValueError):
                number = math.nan
            if not math.isfinite(number):
                message = f"{self.name} returned {result!r}; a metric must return a finite number, a Score or None"
                raise RagMetricsError(message, metric=self.name)
            score = Score(value=number)
        low, high = self.definition.range
        if score.value is not None and not low - 1e-9 <= score.value <= high + 1e-9:
            message = f"{self.name}: the score {score.value!r} is outside the metric's range, {low} to {high}"
            raise RagMetricsError(message, metric=self.name)
        return score

    def is_best_of(self, sample: Sample) -> bool:
        """Whether to score the sample against each of several references and keep the best score."""
        return sample.references is not None and len(sample.references) > 1 and "reference" in self._fields

    @cached_property
    def _fields(self) -> tuple[str, ...]:
        return (*self.definition.required, *self.definition.optional)

    def finish(self, score: Score, sample: Sample, language: str, duration_ms: float) -> Score:
        """``score`` with threshold, 1–5 value, ``duration_ms``, chunk ids and further warnings, texts in ``language``.

        It is changed in place if this package's metric created it. Any other metric may return one score for several
        samples.
        """
        language = self.options.language or language
        value, better, threshold = score.value, self.definition.higher_is_better, self.threshold
        if not self.definition.function.__module__.startswith("mlflow_ragmetrics.metrics."):
            score = score.changed()
        score.threshold, score.higher_is_better, score.duration_ms = threshold, better, duration_ms
        score.passed = None if value is None or threshold is None else passes(value, threshold, better)
        score.scaled = 1.0 + 4.0 * value if self.definition.scaled and value is not None else None
        score.reason = render(score.reason, language)
        warnings = list(score.warnings)
        if value is not None and "contexts" in self._fields and sample.contexts_assumed:
            warnings.append(("contexts_assumed", say(f"assumed.{sample.contexts_assumed}")))
        if value is not None and score.judge == "lexical" and is_unknown_language(sample.answer or ""):
            warnings.append(("language_unknown", say("assumed.language")))
        score.warnings = tuple([(code, render(text, language)) for code, text in warnings])
        score.details = self._marked(score, language)
        score.finish_items(language, sample.contexts)
        return score

    def _marked(self, score: Score, language: str) -> Mapping[str, Any]:
        """The details, with ``unmeasured`` set if the value comes from a rule that the user did not request."""
        details = score.details
        rule = "no_context" if details.get("no_context") else details.get("rule")
        if rule == "no_context" and "no_context" in self.given and score.value is not None:
            return details
        cause = say(f"unmeasured.{rule}") if rule in BY_RULE else details.get("unmeasured")
        return details if cause is None else {**details, "unmeasured": render(cause, language)}

    def _field(self, sample: Sample, name: str) -> Any:
        if name in sample.invalid and name in self.required:
            raise InvalidFieldError(f"{self.name}: {sample.invalid[name]}", field=name, metric=self.name)
        value = sample.texts if name == "contexts" else getattr(sample, name)
        if value is None and name in self.required:
            message = f"{self.name} needs the field {name!r}, which is missing in sample {sample.id or '?'!r}"
            if name not in self.definition.required:
                message += "; use [] if nothing was retrieved, or set no_context= to score such rows"
            raise MissingFieldError(message, field=name, metric=self.name)
        return value


@overload
def metric(function: Callable[..., Any], /) -> Metric: ...
@overload
def metric(
    *,
    name: str | None = None,
    key: Key | None = None,
    key_pattern: str | None = None,
    asks: tuple[Asks, ...] | None = None,
    range: tuple[float, float] = (0.0, 1.0),
    thresholds: Mapping[str, float] | None = None,
    scaled: bool = False,
    higher_is_better: Better = True,
    source: str = "",
    aliases: tuple[str, ...] = (),
    judged: Metric | None = None,
) -> Callable[[Callable[..., Any]], Metric]: ...
def metric(function: Callable[..., Any] | None = None, /, **facts: Any) -> Any:
    """Make a metric from a function of a sample's fields.

    The function returns a number within ``range``, a ``Score``, or ``None`` for no score. If it is a generator, it can
    ask a judge. ``thresholds`` maps conservative, balanced and lenient to the lowest passing value, or to the highest
    if ``higher_is_better=False``; ``higher_is_better=None`` means that neither direction is better. If ``key`` contains
    options, ``key_pattern`` parses a key back into them. ``source`` is the paper or project that `ragmetrics list`
    cites. ``judged`` is the metric for the option ``gold="judge"``.

    >>> @metric
    ... def brevity(answer: str, *, limit: int = 20) -> float:
    ...     '''1.0 for an answer of at most ``limit`` words, less for longer ones.'''
    ...     return min(1.0, limit / max(1, len(answer.split())))
    >>> brevity(limit=5)
    brevity(limit=5)
    """
    if function is None:
        return partial(metric, **facts)
    name, asks = facts.pop("name", None) or function.__name__, facts.pop("asks", None)
    if asks is None:
        asks = ("judge",) if inspect.isgeneratorfunction(function) else ()
    parameters = inspect.signature(function).parameters.values()
    fields = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    for field in fields:
        if field.name not in _PARAMETERS or field.kind in (field.VAR_POSITIONAL, field.VAR_KEYWORD):
            message = f"metric {name}: parameter {field.name!r} is not a sample field ({', '.join(_PARAMETERS)})"
            raise InvalidOptionError(f"{message}; put options after *", param=field.name, metric=name)
    definition = Definition(
        name=name,
        function=function,
        required=tuple(p.name for p in fields if p.default is p.empty),
        optional=tuple(p.name for p in fields if p.default is not p.empty),
        own=tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY),
        options=options_model(function),
        asks=asks,
        levels=facts.pop("thresholds", None),
        **facts,
    )
    return Metric.of(definition, {})


def named_as(function: Callable[..., Any], made: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``made`` the name and docstring of ``function``, but not its signature."""
    update_wrapper(made, function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    del made.__wrapped__  # type: ignore[attr-defined]
    return made


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
    better = "lower" if definition.higher_is_better is False else "higher"
    scaled = "; also shown on a 1–5 scale" if definition.scaled else ""
    facts = {
        "Key": key,
        "Range": f"{low:g} to {high:g}, {SIDES[definition.higher_is_better]}{scaled}",
        "Needs": ", ".join((*definition.required, *definition.asks)),
        "Uses": ", ".join(definition.optional),
        "Passes at": "" if threshold is None else f"{threshold:g} or {better}",
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
    limits = ((sign, getattr(constraint, name, None)) for name, sign in signs.items())
    return next((f"{sign} {value:g}" for sign, value in limits if isinstance(value, (int, float))), "")


def _type(annotation: Any) -> str:
    """A readable type: the choices of a literal, and alternatives separated by ``|``."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        limits = ", ".join(filter(None, map(_limit, getattr(arguments[1], "metadata", arguments[1:]))))
        return _type(arguments[0]) + (f" ({limits})" if limits else "")
    if origin is Literal:
        return " | ".join(repr(choice) for choice in arguments)
    if origin in (Union, UnionType):
        return " | ".join(_type(argument) for argument in arguments)
    if annotation is type(None):
        return "None"
    if origin in (tuple, list) or getattr(origin, "__name__", "") in ("Sequence", "Iterable"):
        return f"list of {_type(arguments[0])}" if arguments else "list"
    if origin is not None and origin.__name__ == "Callable":
        return "a function"
    return getattr(annotation, "__name__", str(annotation))
