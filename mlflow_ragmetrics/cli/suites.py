"""From the command line's options to a suite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.cli.options import numbers_of
from mlflow_ragmetrics.cli.request import CACHE, Request

if TYPE_CHECKING:
    from mlflow_ragmetrics.suite import Suite

__all__ = ["suite_of"]

_DEFAULT = "white_paper"


def suite_of(request: Request) -> Suite:
    """The suite of a preset or a YAML file, with further metrics, or of metrics alone.

    A metric that was named takes the place of the preset's metric of the same key. The answers of language models
    are cached in the current folder where nothing else is said.
    """
    from mlflow_ragmetrics.selection import PRESETS
    from mlflow_ragmetrics.suite import Suite

    options = _options(request)
    if request.metric and request.suite:
        options["also" if request.suite in PRESETS else "metrics"] = request.metric
    suite = Suite.of(request.suite or request.metric or _DEFAULT, **options)
    if suite.cache is None and not request.no_cache and any(hasattr(judge, "usage") for judge in suite.judges):
        return suite.replace(cache=CACHE)
    return suite


def _options(request: Request) -> dict[str, Any]:
    """Only what was given, so that a file's settings stand where the command line is silent."""
    options: dict[str, Any] = {
        name: getattr(request, name)
        for name in ("language", "calls", "prompts", "cache", "concurrency", "max_calls")
        if getattr(request, name) is not None
    }
    if request.no_cache:
        options["cache"] = None
    for name in ("judge", "embeddings"):
        given = getattr(request, name)
        if given:
            options[name] = given[0] if len(given) == 1 else list(given)
    if request.dry_run and any(":/" in given for given in request.judge):
        options["api_key"] = "none"  # nothing is sent, so that no key is needed to learn the price of one
    if request.weights:
        options["weights"] = numbers_of(request.weights, "weights")
    if request.thresholds:
        options["thresholds"] = _thresholds(request)
    return options


def _thresholds(request: Request) -> str | dict[str, float]:
    if len(request.thresholds) == 1 and "=" not in request.thresholds[0]:
        return request.thresholds[0]
    return numbers_of(request.thresholds, "thresholds")
