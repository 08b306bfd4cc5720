"""Options that several commands share, the values they take, and what a shell completes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from mlflow_ragmetrics.errors import InvalidOptionError

if TYPE_CHECKING:
    from mlflow_ragmetrics.suite import Suite

F = TypeVar("F", bound=Callable[..., object])

CACHE = "ragmetrics-cache.db"
_NO_CACHE = "none"
_DEFAULT_SUITE = "white_paper"
_OTHERS = "all others"


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


def share_or_numbers(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, float] | None:
    """``numbers``, where a number without a name stands under ``""``: it is that of all other names."""
    parts = [part.strip() for each in given for part in each.split(",")]
    named = numbers(context, parameter, [part if "=" in part else f"{_OTHERS}={part}" for part in parts])
    return named and {"" if name == _OTHERS else name: share for name, share in named.items()}


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


columns_option = click.option(
    "--columns", metavar="FIELD=COLUMN,…", multiple=True, callback=assignments, help="Names of the file's columns."
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    callback=lambda _, __, given: given and min(given, sys.maxsize),
    metavar="N",
    help="Only the first N rows.",
)
suite_option = click.option(
    "--suite",
    metavar="NAME|FILE",
    shell_complete=suites,
    help=f"white_paper, lexical, response, retrieval, diagnose, full, or a suite.yaml [default: {_DEFAULT_SUITE}].",
)
metric_option = click.option(
    "--metric",
    "-m",
    multiple=True,
    metavar="METRIC",
    shell_complete=metrics,
    help="A metric by name, spelling or module:name.",
)
judge_option = click.option(
    "--judge",
    "-j",
    multiple=True,
    callback=one_or_all,
    metavar="JUDGE",
    help="lexical (offline) or a model URI; repeat it for a panel.",
)
embeddings_option = click.option(
    "--embeddings",
    multiple=True,
    callback=one_or_all,
    metavar="MODEL",
    help="char-ngram (built in), wordllama or a model URI.",
)
language_option = click.option("--language", metavar="en|ru", help="Language of the explanations.")
cache_option = click.option(
    "--cache",
    metavar="FILE|none",
    shell_complete=files,
    help=f"Where a language model's answers are kept and found again [default: {CACHE}].",
)
max_calls_option = click.option(
    "--max-calls", type=click.IntRange(min=1), metavar="N", help="Stop after N calls to a language model."
)
tracking_uri_option = click.option(
    "--tracking-uri", metavar="URI", help="[default: MLFLOW_TRACKING_URI, else sqlite:///mlflow.db]"
)
experiment_option = click.option(
    "--experiment", metavar="NAME", help="[default: MLFLOW_EXPERIMENT_NAME, else ragmetrics]"
)


def suite_options(function: F) -> F:
    """Give a command the options of ``suite_of``: what is scored, by whom, and where a model's answers are kept."""
    shared = (suite_option, metric_option, judge_option, embeddings_option, language_option, cache_option)
    for option in reversed((*shared, max_calls_option)):
        function = option(function)
    return function


def suite_of(
    suite: str | None = None,
    metric: Sequence[str] = (),
    *,
    cache: str | None = None,
    default: str | list[str] = _DEFAULT_SUITE,
    **options: Any,
) -> Suite:
    """The suite of a preset or a YAML file, with further metrics, or of metrics alone; ``default`` without any.

    A named metric replaces the preset's metric of the same key. ``options`` are those of ``Suite``, ``None`` where the
    file decides. A language model's answers are cached in the current folder unless another place, or none, was given.
    """
    from mlflow_ragmetrics.selection import PRESETS
    from mlflow_ragmetrics.suite import Suite

    given = {name: value for name, value in options.items() if value is not None}
    if cache is not None:
        given["cache"] = None if cache == _NO_CACHE else cache
    if metric and suite in PRESETS:
        found = Suite.preset(suite, also=metric, **given)
    else:
        given |= {"metrics": metric} if metric else {}
        found = Suite.of(suite or default, **given)
    if found.cache is None and cache is None and any(judge.usage is not None for judge in found.judges):
        return found.replace(cache=CACHE)
    return found
