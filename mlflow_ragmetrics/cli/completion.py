"""What the shell offers when a value is begun: files, metrics, presets."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

__all__ = ["files", "metrics", "suites"]


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a path."""
    return [CompletionItem(incomplete, type="file")]


def metrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The metrics' names that begin so."""
    from mlflow_ragmetrics.registry import all_metrics

    return _begun(sorted(all_metrics()), incomplete)


def suites(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The presets that begin so, else files."""
    from mlflow_ragmetrics.presets import PRESETS

    return _begun(PRESETS, incomplete) or files(context, parameter, incomplete)


def _begun(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
