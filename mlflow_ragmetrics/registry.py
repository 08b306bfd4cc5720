"""Resolves metrics from names, aliases, keys, spellings, dotted paths and plugins."""

from __future__ import annotations

import ast
import difflib
import os
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Union

import mlflow_ragmetrics.metrics as metrics_package
from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.metric import metric as make_metric
from mlflow_ragmetrics.core.options import plain_name, shown
from mlflow_ragmetrics.errors import InvalidOptionError

_FOLDER: ContextVar[str | None] = ContextVar("ragmetrics_import_folder", default=None)


@contextmanager
def importing_from(folder: str | os.PathLike[str]) -> Iterator[None]:
    """In this block, ``import_named`` also searches ``folder``, after all other places.

    This does not apply if Python must not import from such folders (``-P``, ``-I``, ``PYTHONSAFEPATH``).
    """
    safe = getattr(sys.flags, "safe_path", False) or sys.flags.isolated  # safe_path exists from Python 3.11
    token = _FOLDER.set(None if safe or os.environ.get("PYTHONSAFEPATH") else os.fspath(folder))
    try:
        yield
    finally:
        _FOLDER.reset(token)


def import_named(module: str) -> ModuleType:
    """Import the module of that name; errors from the import are passed on."""
    folder = _FOLDER.get()
    if folder is None or folder in sys.path:
        return import_module(module)
    sys.path.append(folder)
    try:
        return import_module(module)
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


GROUP = "mlflow_ragmetrics.metrics"
Measure = Union[Metric, Composite]
MetricLike = Union[str, Measure, Mapping[str, Any], Callable[..., Any]]

_AMBIGUOUS = {
    "hallucination": "faithfulness, hallucination_rate, lexical_groundedness",
    "groundedness": "faithfulness, lexical_groundedness",
    "relevance": "answer_relevance, context_relevance, lexical_relevance",
    "precision": "chunk_precision, context_precision, precision_10, factual_correctness_precision, rouge1_precision",
    "recall": "fact_recall, context_recall, recall_10, factual_correctness_recall, rouge1_recall",
    "f1": "context_f1, factual_correctness, rouge1_f1",
}
_RECALLS_OF_FACTS = ("llmcontextrecall", "contextualrecall", "retrievalsufficiency")
"""Aliases of ``fact_recall(target="reference")`` in ragas, deepeval and MLflow; other aliases set no options."""
_WHITE_PAPER = ("correctness", "answer_relevance", "chunk_precision", "rag_score")
_LEXICAL = ("lexical_groundedness", "lexical_factuality", "lexical_relevance", "coherence", "content_safety")
_FAMILIES = dict.fromkeys(_WHITE_PAPER, "white_paper") | dict.fromkeys(_LEXICAL, "lexical")
_FAMILIES["fact_recall"] = "faithfulness"
"""The modules of the metrics that do not have the name of their module."""
_PATH = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<spelling>[A-Za-z_]\w*.*)", re.DOTALL)


def all_metrics() -> dict[str, Measure]:
    """Return every built-in and installed metric by name."""
    return {**builtin_metrics(), **_plugins()}


def metric_of(spelled: MetricLike) -> Measure:
    """Return the metric that ``spelled`` names.

    Accepts a metric, a function, a name or alias (``"faithfulness"``, ``"contextual_recall"``), a key (``"ndcg_5"``),
    a spelling with options (``"rouge(rouge_type='rougeL')"``), a path (``"package.module:metric"``), or a mapping from
    one of these to its options (``{"rouge": {"measure": "recall"}}``). ``InvalidOptionError`` for anything else.
    """
    if isinstance(spelled, (Metric, Composite)):
        return spelled
    if isinstance(spelled, str):
        return _parse(spelled.strip())
    if isinstance(spelled, Mapping) and len(spelled) == 1:
        ((name, options),) = spelled.items()
        return _with_options(metric_of(name), options)
    if callable(spelled):
        return _made(spelled)
    message = (
        f"{shown(spelled)} is not a metric; give a name, a spelling such as \"rouge(measure='recall')\", or a metric"
    )
    raise InvalidOptionError(message, param="metrics")


def _with_options(found: Measure, options: object) -> Measure:
    if options is not None and not (isinstance(options, Mapping) and all(isinstance(name, str) for name in options)):
        message = f"{found.name}: options must map names to values, but are a {type(options).__name__}"
        raise InvalidOptionError(message, param="metrics", metric=found.name)
    return found(**options) if options else found


def _made(function: Callable[..., Any]) -> Measure:
    try:
        return make_metric(function)
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidOptionError):
            raise
        message = f"{function!r} cannot be a metric ({error}); give a function of a sample's fields"
        raise InvalidOptionError(message, param="metrics") from None


def _parse(text: str) -> Measure:
    if text.isidentifier():
        return _named(text)
    path = _PATH.fullmatch(text)
    name, options = _split(path["spelling"] if path else text)
    measure = _imported(path["module"], name) if path else _named(name)
    return measure(**options) if options else measure


def _split(text: str) -> tuple[str, dict[str, Any]]:
    try:
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.args:
            return tree.func.id, {str(k.arg): ast.literal_eval(k.value) for k in tree.keywords if k.arg}
    except (SyntaxError, ValueError, TypeError):
        if "(" in text:
            message = f"cannot read the metric {text!r}; write it as name or name(option=value, …)"
            raise InvalidOptionError(message, param="metrics") from None
    return text, {}


def _imported(module: str, name: str) -> Measure:
    try:
        value = getattr(import_named(module), name)
    except (ImportError, AttributeError) as error:
        message = f"cannot import the metric {module}:{name} ({error}); is its module on the Python path?"
        raise InvalidOptionError(message, param="metrics") from None
    return metric_of(value)


def _named(name: str) -> Measure:
    plain = plain_name(name).removesuffix("metric")
    if plain in _RECALLS_OF_FACTS:
        return _named("fact_recall_reference")
    if plain in _AMBIGUOUS:
        message = f"the metric name {name!r} is ambiguous; use one of these: {_AMBIGUOUS[plain]}"
        raise InvalidOptionError(message, param="metrics")
    module = _FAMILIES.get(name, name)
    if module in _modules() and name in (measures := _measures_in(module)):  # avoids importing the other modules
        return measures[name]
    for known in (builtin_metrics, _plugins):
        metrics = known()
        for measure in metrics.values():
            aliases = measure.definition.aliases if isinstance(measure, Metric) else ()
            if plain in {plain_name(measure.name), *map(plain_name, aliases)}:
                return measure
        for measure in metrics.values():
            if isinstance(measure, Metric) and (options := _from_key(measure, name)) is not None:
                return measure(**options)
    close = difflib.get_close_matches(name, all_metrics(), 1)
    hint = f"did you mean {close[0]!r}?" if close else f"the metrics are {', '.join(sorted(all_metrics()))}"
    raise InvalidOptionError(f"unknown metric {name!r}; {hint} (`ragmetrics list` shows all)", param="metrics")


def _from_key(found: Metric, name: str) -> dict[str, Any] | None:
    pattern = found.definition.key_pattern
    match = re.fullmatch(pattern, name) if pattern else None
    if match is None:
        return None
    return {option: int(value) if value.isdecimal() else value for option, value in match.groupdict().items() if value}


@lru_cache(maxsize=1)
def builtin_metrics() -> dict[str, Measure]:
    """Return the metrics of this package by name."""
    return {name: measure for module in _modules() for name, measure in _measures_in(module).items()}


@lru_cache(maxsize=1)
def _modules() -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules(metrics_package.__path__))


@cache
def _measures_in(module: str) -> dict[str, Measure]:
    loaded = import_module(f"{metrics_package.__name__}.{module}")
    return {value.name: value for value in vars(loaded).values() if isinstance(value, (Metric, Composite))}


@lru_cache(maxsize=1)
def _plugins() -> dict[str, Measure]:
    plugins: dict[str, Measure] = {}
    for entry in entry_points(group=GROUP):
        try:
            loaded = metric_of(entry.load())
        except (ImportError, AttributeError, InvalidOptionError) as error:
            warnings.warn(f"the metric plugin {entry.name} ({entry.value}) cannot be loaded: {error}", stacklevel=2)
            continue
        plugins[loaded.name] = loaded
    return plugins
