"""Options shared by several commands, how their values are parsed, and the MLflow store."""

from __future__ import annotations

import logging
import math
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import click
from click.shell_completion import CompletionItem

from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.registry import all_metrics
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.results import is_file, results_of
from mlflow_ragmetrics.selection import preset_named
from mlflow_ragmetrics.suite import Suite

F = TypeVar("F", bound=Callable[..., object])

CACHE = "ragmetrics-cache.db"
_NO_CACHE = "none"
_DEFAULT_SUITE = "white_paper"


def columns_of(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str | None] | None:
    """The callback of a repeatable ``--columns a=x,b=y``, or ``None`` if not given; ``a=`` drops the field ``a``."""
    pairs = _pairs(parameter, given)
    if "" in pairs:
        raise _malformed(parameter, pairs[""])
    return {field: column or None for field, column in pairs.items()} or None


def numbers(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, float] | None:
    """The callback of a repeatable ``--option a=1,b=2`` with finite numbers; ``None`` if not given.

    If the option also accepts a number for all names, its key is ``""``.
    """
    option, is_named = parameter.opts[0], "|" not in str(parameter.metavar)
    values: dict[str, float] = {}
    for name, value in _pairs(parameter, given).items():
        if is_named and not name:
            raise _malformed(parameter, value)
        with suppress(ValueError):
            values[name] = float(value)
        if not math.isfinite(values.get(name, math.nan)):
            assigned = f"{name}={value}" if name else value
            message = f"{option} {assigned}: {value!r} is not a finite number"
            raise InvalidOptionError(message, param=option.removeprefix("--"))
    return values or None


def _pairs(parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """The values by name; a value without a name has the name ``""``."""
    pairs: dict[str, str] = {}
    for part in (part for text in given for part in text.split(",")):
        before, sign, after = (piece.strip() for piece in part.partition("="))
        name, value = (before, after) if sign else ("", before)
        if name in pairs or (sign and not name):
            raise _malformed(parameter, part)
        pairs[name] = value
    return pairs


def _malformed(parameter: click.Parameter, text: str) -> InvalidOptionError:
    option = parameter.opts[0]
    message = f"{option} {text!r} is not of the form name=value; write {option} {parameter.metavar}, each name once"
    return InvalidOptionError(message, param=option.removeprefix("--"))


def one_or_all(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> str | list[str] | None:
    """The callback of a repeatable option: the value, a list of several values, or ``None`` if not given."""
    return given[0] if len(given) == 1 else list(given) or None


def metrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of metrics' names."""
    return [CompletionItem(name) for name in sorted(all_metrics()) if name.startswith(incomplete)]


several_option = partial(click.option, multiple=True, callback=one_or_all)
file_option = partial(click.option, metavar="FILE", type=click.Path())
default_option = partial(click.option, show_default=True)

columns_option = click.option(
    "--columns", metavar="FIELD=COLUMN,…", multiple=True, callback=columns_of, help="Names of the file's columns."
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1, max=sys.maxsize),
    metavar="N",
    help="Only the first N rows.",
)


def suite_option(default: str = f"{_DEFAULT_SUITE}; without references rag") -> Callable[[F], F]:
    """The option ``--suite`` of a command with this default."""
    presets = "white_paper, rag, lexical, response, retrieval, diagnose, full, or a suite.yaml"
    return click.option("--suite", metavar="NAME|FILE", type=click.Path(), help=f"{presets} [default: {default}].")


metric_option = click.option(
    "--metric",
    "-m",
    multiple=True,
    metavar="METRIC",
    shell_complete=metrics,
    help="A metric by name, spelling or module:name.",
)
judge_option = several_option(
    "--judge", "-j", metavar="JUDGE", help="lexical (offline) or a model URI; repeat it for a panel."
)
embeddings_option = several_option(
    "--embeddings", metavar="MODEL", help="char-ngram (built in), wordllama or a model URI."
)
language_option = click.option("--language", metavar="en|ru", help="Language of the explanations.")
cache_option = click.option(
    "--cache",
    metavar="FILE|none",
    type=click.Path(),
    help=f"File that caches the answers of language models [default: {CACHE}].",
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
    """Add the options of ``suite_of`` to a command: metrics, judges, language and cache."""
    shared = (suite_option(), metric_option, judge_option, embeddings_option, language_option, cache_option)
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
    """The suite of a preset or YAML file, with further metrics, or of metrics alone; ``default`` if none is given.

    A named metric replaces the preset's metric with the same key. ``options``: those of ``Suite``; ``None`` uses the
    file's value. Answers of language models are cached in the current folder, unless ``cache`` is given.
    """
    arguments = {name: value for name, value in options.items() if value is not None}
    if cache is not None:
        arguments["cache"] = None if cache == _NO_CACHE else cache
    if metric and suite is not None and preset_named(suite):
        chosen = Suite.preset(suite, also=metric, **arguments)
    else:
        arguments |= {"metrics": metric} if metric else {}
        chosen = Suite.of(suite or default, **arguments)
    if chosen.cache is None and cache is None and any(judge.usage is not None for judge in chosen.judges):
        return chosen.replace(cache=CACHE)
    return chosen


def open_store(tracking_uri: str | None) -> None:
    """Set MLflow's tracking URI (default: the environment's, else a local SQLite file) and check that it answers.

    Raises ``InvalidOptionError`` if it does not.
    """
    silence_mlflow()
    import mlflow

    destination = destination_of(tracking_uri, None)
    with reaching(destination):
        mlflow.set_tracking_uri(destination.uri)
        mlflow.MlflowClient().search_experiments(max_results=1)


def results_at(run: str, tracking_uri: str | None) -> Evaluation:
    """The evaluation ``run``; opens the store unless it is a file and ``tracking_uri`` is not given."""
    if tracking_uri is not None or not is_file(run):
        open_store(tracking_uri)
    return results_of(run)


_STORE = "sqlite:///mlflow.db"
_EXPERIMENT = "ragmetrics"
_SQLITE = re.compile(r"sqlite:///(?P<path>[^?]+)(?:\?.*)?")


@dataclass(frozen=True)
class Destination:
    """A tracking URI and the name of an experiment."""

    uri: str
    experiment: str

    @property
    def shown(self) -> str:
        """The URI without passwords."""
        return redact(self.uri)

    @property
    def sqlite_path(self) -> Path | None:
        """The file of a SQLite store."""
        match = _SQLITE.fullmatch(self.uri)
        return Path(match["path"]).resolve() if match else None

    @property
    def is_server(self) -> bool:
        """Whether the URI is that of a tracking server."""
        return self.uri.startswith(("http://", "https://"))

    def open(self) -> str:
        """Activate the store and the experiment, creating them if necessary; returns the experiment's id.

        The artifacts of a SQLite file in another folder lie next to it.

        Raises ``InvalidOptionError`` if the store cannot be used.
        """
        silence_mlflow()
        import mlflow

        folder = None if self.sqlite_path is None else self.sqlite_path.parent
        with reaching(self):
            mlflow.set_tracking_uri(self.uri)
            if folder and folder != Path.cwd() and mlflow.get_experiment_by_name(self.experiment) is None:
                artifacts = folder / "mlruns" / quote(self.experiment, safe="")
                mlflow.create_experiment(self.experiment, artifact_location=artifacts.as_uri())
            return str(mlflow.set_experiment(self.experiment).experiment_id)

    def command(self) -> str:
        """The command or address that shows the store."""
        if self.is_server:
            return self.shown
        if self.uri == "databricks" or self.uri.startswith("databricks://"):
            return "the workspace's Experiments page"
        return f"mlflow ui --backend-store-uri {shlex.quote(self.shown)}"


def destination_of(tracking_uri: str | None, experiment: str | None) -> Destination:
    """The options, else ``MLFLOW_TRACKING_URI`` and ``MLFLOW_EXPERIMENT_NAME``, else a local SQLite file."""
    return Destination(
        tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or _STORE,
        experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT,
    )


@contextmanager
def reaching(destination: Destination) -> Iterator[None]:
    """Use the store without long retries; its errors become an ``InvalidOptionError``."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    from mlflow_ragmetrics.tracking.writer import few_attempts, reason_of

    try:
        with few_attempts():
            yield
    except (MlflowException, SQLAlchemyError, OSError, ImportError, ValueError) as error:
        advice = "name another with --tracking-uri, or use --no-log to only print the figures"
        if "deleted experiment" in str(error):
            advice = "name another experiment with --experiment, or restore this one"
        message = f"cannot use the MLflow store {destination.shown} ({reason_of(error)}); {advice}"
        raise InvalidOptionError(message, param="tracking_uri") from None


def silence_mlflow() -> None:
    """Suppress MLflow's migration notes, hints and links."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import mlflow  # sets up its loggers on import, so silence them afterwards

    for name in (mlflow.__name__, "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(mlflow|pydantic|sqlalchemy)\b.*")
