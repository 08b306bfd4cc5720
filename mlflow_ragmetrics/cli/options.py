"""Options that several commands have, and what options take: ``name=value,name=value``, and what a shell completes."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence

import click
from click.shell_completion import CompletionItem

from mlflow_ragmetrics.errors import InvalidOptionError

__all__ = [
    "assignments",
    "experiment_option",
    "files",
    "levels_or_numbers",
    "limit_option",
    "metrics",
    "numbers",
    "numbers_of",
    "one_or_all",
    "pairs_of",
    "share_or_numbers",
    "suites",
    "tracking_uri_option",
]

limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    callback=lambda _, __, given: given and min(given, sys.maxsize),
    metavar="N",
    help="Only the first N rows.",
)
experiment_option = click.option(
    "--experiment", metavar="NAME", help="[default: MLFLOW_EXPERIMENT_NAME, else ragmetrics]"
)
tracking_uri_option = click.option(
    "--tracking-uri", metavar="URI", help="[default: MLFLOW_TRACKING_URI, else sqlite:///mlflow.db]"
)


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
            raise InvalidOptionError(f"--{option} {name}={value}: {value!r} is not a number", param=option) from None
        if not math.isfinite(numbers[name]):
            raise InvalidOptionError(f"--{option} {name}={value}: the number must be finite", param=option)
    return numbers


def assignments(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str] | None:
    """The callback of an option that takes ``name=value``; ``None`` where it was not given."""
    return pairs_of(given, _name(parameter)) if given else None


def numbers(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, float] | None:
    """The callback of an option that takes ``name=number``; ``None`` where it was not given."""
    return numbers_of(given, _name(parameter)) if given else None


def levels_or_numbers(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> str | dict[str, float] | None:
    """``numbers``, or the one word that was given in their place."""
    return given[0] if len(given) == 1 and "=" not in given[0] else numbers(context, parameter, given)


def share_or_numbers(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, float] | None:
    """``numbers``, where a number without a name stands under ``""``: it is that of all other names."""
    parts = [part.strip() for each in given for part in each.split(",")]
    named = numbers(context, parameter, [part if "=" in part else f"{_OTHERS}={part}" for part in parts])
    return named and {"" if name == _OTHERS else name: share for name, share in named.items()}


_OTHERS = "all others"


def one_or_all(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> str | list[str] | None:
    """The callback of an option that may be repeated: the value, a list of several, ``None`` where not given."""
    return given[0] if len(given) == 1 else list(given) or None


def _name(parameter: click.Parameter) -> str:
    return parameter.opts[0].removeprefix("--")


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
