"""From the command line's options to a suite."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.cli.options import numbers_of
from mlflow_ragmetrics.cli.request import CACHE, Request

if TYPE_CHECKING:
    from mlflow_ragmetrics.selection import Selection
    from mlflow_ragmetrics.suite import Suite

__all__ = ["named_selection", "suite_of"]

_DEFAULT = "white_paper"


def suite_of(request: Request) -> Suite:
    """The suite of a preset or a YAML file, with further metrics, or of metrics alone.

    A metric that was named takes the place of the preset's metric of the same key. The answers of language models
    are cached in the current folder where nothing else is said.
    """
    suite = _built(request)
    if suite.cache is None and not request.no_cache and any(judge.usage is not None for judge in suite.judges):
        suite.cache = CACHE
    return suite


def _built(request: Request) -> Suite:
    from mlflow_ragmetrics.suite import Suite

    options = _options(request)
    if request.suite and (Path(request.suite).suffix in (".yaml", ".yml") or os.path.isfile(request.suite)):
        if request.metric:
            options["metrics"] = request.metric
        return Suite.from_yaml(request.suite, **options)
    if request.metric:
        return _mixed(request, options) if request.suite else Suite(request.metric, **options)
    return Suite.preset(request.suite or _DEFAULT, **options)


def named_selection(request: Request) -> Selection | None:
    """The metrics named beside a preset: these must be scored, while the preset's own may be skipped."""
    from mlflow_ragmetrics.selection import select

    return select(request.metric) if request.metric and request.suite else None


def _mixed(request: Request, options: dict[str, Any]) -> Suite:
    from dataclasses import replace

    from mlflow_ragmetrics.registry import metric_of
    from mlflow_ragmetrics.selection import preset_metrics
    from mlflow_ragmetrics.suite import Suite

    named = [metric_of(each) for each in request.metric]
    keys = {each.key for each in named}
    preset = [each for each in map(metric_of, preset_metrics(str(request.suite))) if each.key not in keys]
    suite = Suite([*preset, *named], **options)
    suite.selection = replace(suite.selection, name=request.suite)
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
