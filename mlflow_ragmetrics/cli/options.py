"""Values of the form ``name=value,name=value``, and what the shell offers when a value is begun."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from mlflow_ragmetrics.errors import InvalidOptionError

if TYPE_CHECKING:
    pass

__all__ = ["numbers_of", "pairs_of", "files", "metrics", "suites"]


def pairs_of(given: Sequence[str], option: str) -> dict[str, str]:
    """What ``--option a=x,b=y`` assigns, over all times it was given; ``InvalidOptionError`` for another form.

    >>> pairs_of(["question=prompt,answer=output"], "columns")
    {'question': 'prompt', 'answer': 'output'}
    """
    pairs: dict[str, str] = {}
    for part in (part.strip() for each in given for part in each.split(",")):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value):
            message = f"--{option} {part!r} is not of the form name=value; write --{option} name=value,name=value"
            raise InvalidOptionError(message, param=option)
        if name in pairs:
            raise InvalidOptionError(f"--{option} gives {name!r} twice", param=option)
        pairs[name] = value
    return pairs


def numbers_of(given: Sequence[str], option: str) -> dict[str, float]:
    """``pairs_of`` where every value is a number.

    >>> numbers_of(["faithfulness=0.8"], "fail-under")
    {'faithfulness': 0.8}
    """
    numbers: dict[str, float] = {}
    for name, value in pairs_of(given, option).items():
        try:
            numbers[name] = float(value)
        except ValueError:
            raise InvalidOptionError(f"--{option} {name}={value}: {value!r} is no number", param=option) from None
        if not math.isfinite(numbers[name]):
            raise InvalidOptionError(f"--{option} {name}={value}: the number must be finite", param=option)
    return numbers


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a path."""
    return [CompletionItem(incomplete, type="file")]


def metrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The metrics' names that begin so."""
    from mlflow_ragmetrics.registry import all_metrics

    return _begun(sorted(all_metrics()), incomplete)


def suites(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The presets that begin so, else files."""
    from mlflow_ragmetrics.selection import PRESETS

    return _begun(PRESETS, incomplete) or files(context, parameter, incomplete)


def _begun(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
