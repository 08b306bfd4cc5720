"""Options that several commands share, the values that they take, and the MLflow store that they name."""

from __future__ import annotations

import logging
import math
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import click
from click.shell_completion import CompletionItem

from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.errors import InvalidOptionError

if TYPE_CHECKING:
    from mlflow_ragmetrics.rows.results import Results
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
    from mlflow_ragmetrics.selection import preset_named
    from mlflow_ragmetrics.suite import Suite

    given = {name: value for name, value in options.items() if value is not None}
    if cache is not None:
        given["cache"] = None if cache == _NO_CACHE else cache
    if metric and suite is not None and preset_named(suite):
        found = Suite.preset(suite, also=metric, **given)
    else:
        given |= {"metrics": metric} if metric else {}
        found = Suite.of(suite or default, **given)
    if found.cache is None and cache is None and any(judge.usage is not None for judge in found.judges):
        return found.replace(cache=CACHE)
    return found


def open_store(tracking_uri: str | None) -> None:
    """Make ``tracking_uri`` (else the environment's, else a SQLite file here) MLflow's own, and see that it answers.

    ``InvalidOptionError`` where it does not.
    """
    silence_mlflow()
    import mlflow

    destination = destination_of(tracking_uri, None)
    with reaching(destination):
        mlflow.set_tracking_uri(destination.uri)
        mlflow.MlflowClient().search_experiments(max_results=1)


def results_at(run: str, tracking_uri: str | None) -> Results:
    """The evaluation ``run``; the store is opened if it is not a file, or if ``tracking_uri`` names one."""
    from mlflow_ragmetrics.rows.results import is_file, results_of

    if tracking_uri is not None or not is_file(run):
        open_store(tracking_uri)
    return results_of(run)


_STORE = "sqlite:///mlflow.db"
_EXPERIMENT = "ragmetrics"
_SQLITE = re.compile(r"sqlite:///(?P<path>[^?]+)(?:\?.*)?")
_HALF_MADE = re.compile(
    r"no such (?:table|column)|already exists|duplicate column|out-of-date database schema|Can't locate revision"
)


@dataclass(frozen=True)
class Destination:
    """A tracking URI and the name of an experiment there."""

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
        """Whether a tracking server answers at the URI."""
        return self.uri.startswith(("http://", "https://"))

    def open(self) -> str:
        """Make the store MLflow's own and the experiment, whose id is returned, the active one; creates both.

        ``InvalidOptionError`` where the store cannot be used.
        """
        silence_mlflow()
        import mlflow

        artifacts = self._artifacts()
        with reaching(self):
            mlflow.set_tracking_uri(self.uri)
            if artifacts is not None and mlflow.get_experiment_by_name(self.experiment) is None:
                mlflow.create_experiment(self.experiment, artifact_location=artifacts)
            return str(mlflow.set_experiment(self.experiment).experiment_id)

    def command(self) -> str:
        """What to run, or which address to open, in order to look at the store."""
        if self.is_server:
            return self.shown
        if self.uri == "databricks" or self.uri.startswith("databricks://"):
            return "the workspace's Experiments page"
        return f"mlflow ui --backend-store-uri {shlex.quote(self.shown)}"

    def _artifacts(self) -> str | None:
        """Beside a SQLite file that lies elsewhere; MLflow's own choice, the working folder, fits otherwise."""
        path = self.sqlite_path
        if path is None or path.parent == Path.cwd():
            return None
        return (path.parent / "mlruns" / quote(self.experiment, safe="")).as_uri()


def destination_of(tracking_uri: str | None, experiment: str | None) -> Destination:
    """The options, else ``MLFLOW_TRACKING_URI`` and ``MLFLOW_EXPERIMENT_NAME``, else a SQLite file here."""
    return Destination(
        tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or _STORE,
        experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT,
    )


@contextmanager
def reaching(destination: Destination) -> Iterator[None]:
    """Ask the store without long retries; what it raises becomes one ``InvalidOptionError``."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    from mlflow_ragmetrics.tracking.writer import few_attempts, reason_of

    try:
        with few_attempts():
            yield
    except (MlflowException, SQLAlchemyError, OSError, ImportError, ValueError) as error:
        advice = "give another with --tracking-uri, or --no-log to only show the figures"
        if destination.sqlite_path is not None and _HALF_MADE.search(str(error)):
            advice = (
                "its tables look half made, as by a process that was killed, or are those of another MLflow; move the "
                f"file away, or run: mlflow db upgrade {destination.shown}"
            )
        if isinstance(error, ImportError) and re.match(r"postgres(ql)?://", destination.uri):
            advice = (  # without a name SQLAlchemy 2.1 takes psycopg 3, and SQLAlchemy 2.0 psycopg2
                "name the driver that you have, as in postgresql+psycopg2://…, or install the one that is missing"
            )
        message = f"cannot use the MLflow store {destination.shown} ({reason_of(error)}); {advice}"
        raise InvalidOptionError(message, param="tracking_uri") from None


def silence_mlflow() -> None:
    """No migration notes, hints and links of MLflow among our own lines."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import mlflow  # sets up its loggers when it is imported, so they can only be silenced after

    for name in (mlflow.__name__, "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(mlflow|pydantic|sqlalchemy)\b.*")
