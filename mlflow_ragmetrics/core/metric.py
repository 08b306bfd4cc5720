"""What a metric is: a pure function of a sample's fields, with options, a key and a range.

Positional parameters of the function name the fields it needs (a default of ``None`` makes one optional);
keyword-only parameters are its options. A generator function asks a judge; a plain one computes.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import Any, overload

from pydantic import BaseModel

from mlflow_ragmetrics.core.definition import Asks, Definition, Key, described
from mlflow_ragmetrics.core.options import Settings, check_options, options_model
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.score import BY_RULE, FIELDS, Better, Sample, Score, passes
from mlflow_ragmetrics.errors import InvalidFieldError, InvalidOptionError, MissingFieldError, RagMetricsError
from mlflow_ragmetrics.text.messages import render, say
from mlflow_ragmetrics.text.non_answers import is_unknown_language

CALLBACK_ATTRIBUTES = ("ignore_chain", "raise_error", "run_inline")
"""What LangChain asks of a callback before a chain runs."""


def no_callback(what: str) -> InvalidOptionError:
    """The error that says what to do where ``what`` was given as a callback."""
    message = f"{what} is no callback by itself: callbacks=[rm.RagMetricsCallback({what})] scores the chain's answers"
    return InvalidOptionError(message, param="callbacks")


_PARAMETERS = (*FIELDS, "context_ids", "metadata", "id")


@dataclass(frozen=True, eq=False)
class Metric:
    """A ``definition`` with the options ``given``: a frozen value, equal to another with the same spelling.

    Calling it with options gives a variant: ``rouge(rouge_type="rougeL")``.
    """

    definition: Definition
    given: Mapping[str, Any]

    @classmethod
    def of(cls, definition: Definition, given: Mapping[str, Any]) -> Metric:
        """``definition`` with the options ``given``, checked; ``InvalidOptionError`` names the option that is wrong."""
        bound = cls(definition, dict(given))
        _ = bound.options, bound.settings
        if not bound.key.isidentifier():
            message = f"{bound.name}: key {bound.key!r} is not an identifier"
            raise InvalidOptionError(message, param="key", metric=bound.name)
        return bound

    def __call__(self, run: Any = None, example: Any = None, /, **options: Any) -> Metric:
        """The same metric with these options in place of those it has; ``run`` and ``example`` are what LangSmith gives
        an evaluator, which a metric is not by itself: ``InvalidOptionError``.
        """
        if run is not None or example is not None:
            message = f"rm.{self.name} is no evaluator by itself: evaluators=rm.langsmith_evaluators([rm.{self.name}])"
            raise InvalidOptionError(message, param="evaluators", metric=self.name)
        return Metric.of(self.definition, {**self.given, **options})

    def __getattr__(self, name: str) -> Any:
        if name in CALLBACK_ATTRIBUTES:
            raise no_callback(f"rm.{self.name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def name(self) -> str:
        """The metric's own name, without options."""
        return self.definition.name

    @cached_property
    def options(self) -> BaseModel:
        """The metric's own options, checked, with their defaults."""
        own = self.definition.options
        given = {k: v for k, v in self.given.items() if k in own.model_fields or k not in Settings.model_fields}
        return check_options(self.name, own, given)

    @cached_property
    def _given_options(self) -> dict[str, Any]:
        return dict(self.options)

    @cached_property
    def settings(self) -> Settings:
        """The options that all metrics share; ``InvalidOptionError`` names one that cannot be used."""
        own = self.definition.options.model_fields
        common = {k: v for k, v in self.given.items() if k not in own and k in Settings.model_fields}
        settings = check_options(self.name, Settings, common)
        if settings.preset and not self.definition.levels:
            message = f"{self.name}: option preset={settings.preset!r}: this metric has none; use threshold="
            raise InvalidOptionError(message, param="preset", metric=self.name)
        return settings

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The fields without which a sample is not scored.

        Contexts are among them for a metric with the option ``no_context``, unless it was given: the option says what
        a row gets for which nothing was retrieved, and no field at all does not say that nothing was.
        """
        own = self.definition.required
        told = "no_context" not in self.definition.options.model_fields or "no_context" in self.given
        return own if told or "contexts" in own else (*own, "contexts")

    @cached_property
    def key(self) -> str:
        """The name under which scores appear in tables and runs."""
        if self.settings.key:
            return self.settings.key
        key = self.definition.key
        if key is None:
            return self.name
        return key(self.options) if callable(key) else key.format(**dict(self.options))

    @cached_property
    def threshold(self) -> float | None:
        """The value from which a score passes: ``threshold``, else the preset's, else the metric's own, else none."""
        given: float | None = getattr(self.options, "threshold", self.settings.threshold)
        if given is not None:
            return given
        levels = self.definition.levels
        return levels[self.settings.preset or "balanced"] if levels else None

    @cached_property
    def spelling(self) -> str:
        """Python that gives this metric back: ``rouge(rouge_type='rougeL')``."""
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

        Raises ``MissingFieldError`` or ``InvalidFieldError`` where a field is missing or cannot be read.
        """
        result = self._result(sample)
        if isinstance(result, Generator):
            result = yield from result
        return self._read(result)

    def computed_together(self, samples: Sequence[Sample]) -> Mapping[int, Score]:
        """By place, the raw scores that the batch function gives of the samples; none where it fails."""
        assert self.definition.batch is not None
        together = {
            place: sample
            for place, sample in enumerate(samples)
            if not sample.invalid and not self.is_best_of(sample)
            if None not in [getattr(sample, name) for name in self.definition.required]
        }
        names = ["texts" if name == "contexts" else name for name in self._fields]
        try:
            columns = [[getattr(sample, name) for sample in together.values()] for name in names]
            found = zip(together, self.definition.batch(*columns, **self._given_options), strict=True)
            return {place: self._read(score) for place, score in found if score is not None}
        except Exception:  # said by the one whose fault it is, when each is scored alone
            return {}

    def is_best_of(self, sample: Sample) -> bool:
        """Whether the score is the best of those with each of several references."""
        return sample.references is not None and len(sample.references) > 1 and "reference" in self._fields

    @cached_property
    def _fields(self) -> tuple[str, ...]:
        return (*self.definition.required, *self.definition.optional)

    def _result(self, sample: Sample) -> Any:
        return self.definition.function(*[self._field(sample, name) for name in self._fields], **self._given_options)

    def finish(self, score: Score, sample: Sample, language: str, duration_ms: float) -> Score:
        """``score`` with threshold, 1–5 value, ``duration_ms``, chunk ids, and sentences in ``language``."""
        language = self.settings.language or language
        value, better, threshold = score.value, self.definition.higher_is_better, self.threshold
        warnings = self._warnings(score, sample)
        return score.finished(
            language,
            sample.contexts,
            threshold=threshold,
            passed=None if value is None or threshold is None else passes(value, threshold, better),
            higher_is_better=better,
            duration_ms=duration_ms,
            scaled=1.0 + 4.0 * value if self.definition.scaled and value is not None else None,
            warnings=tuple([(code, render(text, language)) for code, text in warnings]) if warnings else (),
            details=self._marked(score, language),
        )

    def _warnings(self, score: Score, sample: Sample) -> Sequence[tuple[str, str]]:
        """The score's own, one for contexts that nobody saw the model read, and one for a language without rules."""
        found = list(score.warnings)
        if score.value is not None and "contexts" in self._fields and sample.contexts_assumed:
            found.append(("contexts_assumed", say(f"assumed.{sample.contexts_assumed}")))
        if score.judge == "lexical" and score.value is not None and is_unknown_language(sample.answer or ""):
            found.append(("language_unknown", say("assumed.language")))
        return found

    def _marked(self, score: Score, language: str) -> Mapping[str, Any]:
        """The details, with the cause ``unmeasured`` if a rule gave the value that the user did not ask for."""
        details = score.details
        rule = "no_context" if details.get("no_context") else details.get("rule")
        if rule == "no_context" and "no_context" in self.given and score.value is not None:
            return details
        cause = say(f"unmeasured.{rule}") if rule in BY_RULE else details.get("unmeasured")
        return details if cause is None else {**details, "unmeasured": render(cause, language)}

    def _field(self, sample: Sample, name: str) -> Any:
        if name in sample.invalid:
            raise InvalidFieldError(f"{self.name}: {sample.invalid[name]}", field=name, metric=self.name)
        value = sample.texts if name == "contexts" else getattr(sample, name)
        if value is None and name in self.required:
            message = f"{self.name} needs the field {name!r} and sample {sample.id or '?'!r} has no value for it"
            if name not in self.definition.required:
                message += "; [] says that nothing was retrieved, no_context= scores such rows as well"
            raise MissingFieldError(message, field=name, metric=self.name)
        return value

    def _read(self, result: object) -> Score:
        if result is None:
            return Score(status="skipped", reason=f"{self.name} gave no score")
        score = result if isinstance(result, Score) else Score(value=self._number(result))
        low, high = self.definition.range
        if score.value is not None and not low - 1e-9 <= score.value <= high + 1e-9:
            message = f"{self.name}: score {score.value!r} lies outside its range {low} to {high}"
            raise RagMetricsError(message, metric=self.name)
        return score

    def _number(self, result: object) -> float:
        try:
            number = float(result)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            message = f"{self.name} returned {result!r}; a metric returns a finite number, a Score or None"
            raise RagMetricsError(message, metric=self.name)
        return number


class _Documentation:
    """What ``help`` shows: of a metric what it means, made when it is asked for; of the class its own docstring."""

    def __init__(self, of_the_class: str | None) -> None:
        self._of_the_class = of_the_class

    def __get__(self, metric: Metric | None, owner: type[Metric]) -> str | None:
        return self._of_the_class if metric is None else described(metric.definition, metric.key, metric.threshold)


Metric.__doc__ = _Documentation(Metric.__doc__)  # type: ignore[assignment]


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
    batch: Callable[..., Sequence[Score | None]] | None = None,
) -> Callable[[Callable[..., Any]], Metric]: ...
def metric(function: Callable[..., Any] | None = None, /, **facts: Any) -> Any:
    """Make a metric out of a function of a sample's fields.

    The function returns a number in ``range``, a ``Score``, or ``None`` for no score; as a generator it may ask a
    judge. ``thresholds`` maps conservative, balanced and lenient to the value from which a score passes, or up to which
    where ``higher_is_better=False``; ``None`` says that neither side is better. Where ``key``
    is made of options, ``key_pattern`` reads a key back into them. ``source``: the paper or project that it comes from,
    as `ragmetrics list` shows it. ``batch``: what gives the same scores for many samples at once, from a list per field
    and the options, with ``None`` for those that it leaves to the function; it is given samples that have all fields
    without a default.

    >>> @metric
    ... def brevity(answer: str, *, limit: int = 20) -> float:
    ...     '''1.0 for an answer of at most ``limit`` words, less in proportion beyond.'''
    ...     return min(1.0, limit / max(1, len(answer.split())))
    >>> brevity(limit=5)
    brevity(limit=5)
    """
    if function is None:
        return lambda decorated: _define(decorated, **facts)
    return _define(function)


def named_as(function: Callable[..., Any], made: Callable[..., Any]) -> Callable[..., Any]:
    """``made`` under the name and with the docstring of ``function``, whose parameters are others."""
    update_wrapper(made, function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    del made.__wrapped__  # type: ignore[attr-defined]
    return made


def _define(function: Callable[..., Any], **facts: Any) -> Metric:
    name = facts.pop("name", None) or function.__name__
    asks = facts.pop("asks", None)
    if asks is None:
        asks = ("judge",) if inspect.isgeneratorfunction(function) else ()
    parameters = inspect.signature(function).parameters.values()
    fields = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    for parameter in fields:
        if parameter.name not in _PARAMETERS or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            known = ", ".join(_PARAMETERS)
            message = (
                f"metric {name}: parameter {parameter.name!r} is not a sample field ({known}); options come after *"
            )
            raise InvalidOptionError(message, param=parameter.name, metric=name)
    definition = Definition(
        name=name,
        function=function,
        required=tuple(p.name for p in fields if p.default is p.empty),
        optional=tuple(p.name for p in fields if p.default is not p.empty),
        options=options_model(function),
        asks=asks,
        levels=facts.pop("thresholds", None),
        **facts,
    )
    return Metric.of(definition, {})
