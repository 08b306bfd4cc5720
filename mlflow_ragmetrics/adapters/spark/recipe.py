"""Rebuilds a suite on Spark's workers and divides its limits between them."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from mlflow_ragmetrics.core.options import check_count
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError
from mlflow_ragmetrics.suite import Suite, SuiteLike, SuiteOverrides, is_suite_file
from mlflow_ragmetrics.suite_file import read_yaml

_SHARED = ("concurrency", "requests_per_minute", "tokens_per_minute", "max_calls", "max_cost")
_AT_LEAST_ONE = _SHARED[:-1]
_PATHS = ("prompts", "cache")
_CONCURRENCY = 8


@dataclass(frozen=True, eq=False)
class Recipe:
    """The arguments of ``Suite.of``, sent to the workers.

    A recipe equals only its copies, so that each recipe has its own budget.
    """

    suite: Any
    options: Mapping[str, Any]
    token: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def of(cls, suite: SuiteLike, options: SuiteOverrides) -> Recipe:
        """The recipe for ``suite``; ``InvalidOptionError`` for a ``Suite``, whose connections cannot be sent."""
        if isinstance(suite, Suite):
            message = "a Suite cannot be sent to Spark's workers; give its YAML file, a preset, or metrics and options"
            raise InvalidOptionError(message, param="suite")
        if isinstance(suite, (str, Path)) and is_suite_file(suite):
            Suite.of(suite, **options)  # raises if the file is invalid
            return cls(_read(Path(suite)), options).checked()
        what = list(suite) if isinstance(suite, Iterable) and not isinstance(suite, (str, Mapping)) else suite
        return cls(what, {"concurrency": _CONCURRENCY, **options}).checked()

    def checked(self) -> Recipe:
        """The recipe; ``InvalidOptionError`` if it cannot be sent, for example because of an open connection."""
        try:
            from pyspark import cloudpickle
        except ImportError as error:
            raise MissingExtraError("score_spark needs PySpark 4: pip install 'mlflow_ragmetrics[spark]'.") from error
        try:
            cloudpickle.dumps(self)
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            message = f"the suite cannot be sent to Spark's workers ({error}); name its judges and embeddings by URI"
            raise InvalidOptionError(message, param="judge") from error
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)

    def build(self) -> Suite:
        """Build the suite."""
        return Suite.of(self.suite, **self.options)

    def most_workers(self, workers: int) -> int:
        """``workers``, or fewer if a limit would leave a worker less than one call."""
        check_count("workers", workers)
        limits = [value for name, value in _limits([self.options, self.suite]) if name in _AT_LEAST_ONE]
        return max(1, int(min([workers, *limits])))

    def divided(self, workers: int) -> Recipe:
        """The recipe for one of ``workers``, with all limits divided by their number."""
        suite = _divided(self.suite, workers) if isinstance(self.suite, Mapping) else self.suite
        return replace(self, options=_divided(self.options, workers), suite=suite)


@lru_cache(maxsize=4)
def suite_of(recipe: Recipe) -> Suite:
    """The suite of a recipe, built once per Python process."""
    suite = recipe.build()
    gc.freeze()  # repeated garbage collection of loaded modules would take a seventh of the time
    return suite


def is_remote(suite: Suite) -> bool:
    """Whether the suite uses models over a network."""
    asked = {who for metric in suite.metrics for who in metric.definition.asks}
    judges = [judge.local for judge in suite.judges] if "judge" in asked else []
    embeddings = [embedding.local for embedding in suite.embeddings] if "embeddings" in asked else []
    return not all([*judges, *embeddings])


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = {"concurrency": _CONCURRENCY, **read_yaml(path)}
    for name in _PATHS:
        if content.get(name):
            content[name] = str(path.parent.absolute() / content[name])
    return content


def _limits(value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name in _SHARED and isinstance(each, (int, float)):
                yield name, each
            else:
                yield from _limits(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _limits(each)


def _divided(value: Any, workers: int, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: _divided(each, workers, key) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_divided(each, workers) for each in value]
    if name not in _SHARED or not isinstance(value, (int, float)):
        return value
    return value // workers if isinstance(value, int) and name in _AT_LEAST_ONE else value / workers
