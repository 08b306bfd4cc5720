"""What ``ragmetrics evaluate`` was asked, as one value; its options and the rows that they name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import click

from mlflow_ragmetrics.cli.options import files, metrics, pairs_of, suites
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError, RagMetricsError

if TYPE_CHECKING:
    from mlflow_ragmetrics.core.sample import Sample
    from mlflow_ragmetrics.selection import Selection

__all__ = ["Rows", "rows_of", "CACHE", "Request", "Sectioned", "asked"]


@dataclass(frozen=True)
class Rows:
    """Samples, the file they come from, and what did not match when two files were joined."""

    samples: Sequence[Sample]
    source: str
    warnings: tuple[str, ...] = ()

    def check(self, selection: Selection) -> None:
        """``RagMetricsError`` naming the file where every row lacks what a named metric, or a whole preset, needs."""
        from mlflow_ragmetrics.selection import check_presence

        try:
            check_presence(selection, self.samples)
        except MissingFieldError as error:
            message = (
                f"{self.source}: {error.metric} needs the field {error.field!r} and no row has it; add the column, or "
                f"name it with --columns {error.field}=COLUMN (there are {', '.join(self._columns())})"
            )
            raise RagMetricsError(message) from None

    def _columns(self) -> list[str]:
        from mlflow_ragmetrics.core.sample import FIELDS

        fields = [
            name for name in FIELDS if any(getattr(s, name) is not None or name in s.invalid for s in self.samples)
        ]
        return ["id", *fields, *dict.fromkeys(name for sample in self.samples for name in sample.metadata)]


def rows_of(request: Request) -> Rows:
    """The rows, at most ``limit``; ``InvalidOptionError`` where files are given in a way that means nothing."""
    from mlflow_ragmetrics.readers import join, read_samples

    columns = pairs_of(request.columns, "columns") or None
    results = request.results or request.data
    if results is None or (request.data and request.results) or (request.results and not request.reference):
        message = "give one file, as in ragmetrics evaluate FILE, or two to be joined: --results FILE --reference FILE"
        raise InvalidOptionError(message, param="data")
    limit = None if request.limit is None else min(request.limit, sys.maxsize)
    if request.reference is None:
        return Rows(list(islice(read_samples(results, columns), limit)), results)
    joined = join(results, request.reference, on=request.on)
    samples = list(islice(read_samples(joined.rows, columns), limit))
    return Rows(samples, results, (joined.warning,) if joined.warning else ())


CACHE = "ragmetrics-cache.db"

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class Request:
    """The options of ``ragmetrics evaluate`` by their names; ``None`` or empty where not given."""

    data: str | None
    results: str | None
    reference: str | None
    on: str
    columns: Sequence[str]
    limit: int | None
    suite: str | None
    metric: Sequence[str]
    judge: Sequence[str]
    embeddings: Sequence[str]
    weights: Sequence[str]
    thresholds: Sequence[str]
    language: str | None
    calls: str | None
    prompts: str | None
    cache: str | None
    no_cache: bool
    concurrency: int | None
    max_calls: int | None
    repeat: int
    dry_run: bool
    tracking_uri: str | None
    experiment: str | None
    run_name: str | None
    log: bool
    output: str | None
    fail_under: Sequence[str]
    fail_on_error_rate: float | None
    junit: str | None
    json_file: str | None
    worst: int
    progress: bool | None


_DATA = (
    click.argument("data", required=False, shell_complete=files),
    click.option(
        "--results",
        metavar="FILE",
        shell_complete=files,
        help="What a system gave, to be joined by id with --reference.",
    ),
    click.option(
        "--reference", metavar="FILE", shell_complete=files, help="What is right, to be joined by id with --results."
    ),
    click.option(
        "--on", metavar="COLUMN", default="qid", show_default=True, help="The id by which two files are joined."
    ),
    click.option("--columns", metavar="FIELD=COLUMN,…", multiple=True, help="Where the file has other names."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N rows."),
)
_SUITE = (
    click.option(
        "--suite",
        metavar="NAME|FILE",
        shell_complete=suites,
        help="white_paper, lexical, response, retrieval, full, or a suite.yaml [default: white_paper].",
    ),
    click.option(
        "--metric",
        "-m",
        multiple=True,
        metavar="METRIC",
        shell_complete=metrics,
        help="A metric by name, spelling or module:name.",
    ),
    click.option(
        "--judge", "-j", multiple=True, metavar="JUDGE", help="lexical (offline) or a model URI; repeat it for a panel."
    ),
    click.option(
        "--embeddings", multiple=True, metavar="MODEL", help="char-ngram (built in), wordllama or a model URI."
    ),
    click.option("--weights", metavar="METRIC=NUMBER,…", multiple=True, help="The weights of rag_score."),
    click.option(
        "--thresholds",
        metavar="LEVEL|METRIC=NUMBER,…",
        multiple=True,
        help="conservative, balanced, lenient, or one a metric.",
    ),
    click.option("--language", metavar="en|ru", help="The language of the explanations."),
    click.option(
        "--calls", type=click.Choice(["full", "compact"]), help="compact: fewer, larger calls to a language model."
    ),
    click.option(
        "--prompts",
        metavar="FOLDER",
        shell_complete=files,
        help="Your own prompts in place of those with the same name.",
    ),
    click.option(
        "--cache",
        metavar="FILE",
        shell_complete=files,
        help=f"Where a language model's answers are kept and found again [default: {CACHE}].",
    ),
    click.option("--no-cache", is_flag=True, help="No cache, whatever the suite's file says."),
    click.option("--max-calls", type=click.IntRange(min=1), metavar="N", help="Stop after so many calls to a model."),
    click.option(
        "--repeat", type=click.IntRange(min=1), default=1, metavar="N", help="Ask N times and say how far that differs."
    ),
    click.option("--dry-run", is_flag=True, help="Only say what calls, tokens and money it would take."),
    click.option("--concurrency", type=int, metavar="N", help="Calls to language models at the same time."),
)
_OUTCOME = (
    click.option("--tracking-uri", metavar="URI", help="[default: MLFLOW_TRACKING_URI, else sqlite:///mlflow.db]"),
    click.option("--experiment", metavar="NAME", help="[default: MLFLOW_EXPERIMENT_NAME, else ragmetrics]"),
    click.option("--run-name", metavar="NAME", help="The run's name in MLflow."),
    click.option("--log/--no-log", default=True, help="Log to MLflow, or only show."),
    click.option(
        "--output",
        "-o",
        metavar="FILE",
        shell_complete=files,
        help="Write the rows to a .csv, .json, .jsonl or .parquet file, or an .html page.",
    ),
    click.option(
        "--fail-under",
        metavar="METRIC=NUMBER,…",
        multiple=True,
        help="Exit code 1 when a mean, or a figure such as rag_score/ci_low, is lower.",
    ),
    click.option("--fail-on-error-rate", type=float, metavar="SHARE", help="Exit code 1 when more rows fail."),
    click.option("--junit", metavar="FILE", shell_complete=files, help="Write the gates as JUnit XML."),
    click.option("--json", "json_file", metavar="FILE", shell_complete=files, help="Write the gates as JSON."),
    click.option(
        "--worst", type=click.IntRange(min=0), default=3, show_default=True, metavar="N", help="Bad rows to show."
    ),
    click.option("--progress/--no-progress", default=None, help="The bar [default: on terminals]."),
)


_SECTIONS = {"results": "What is read", "suite": "How it is scored", "tracking_uri": "What comes of it"}


class Sectioned(click.Command):
    """Shows its options under headings, each from the option on that ``_SECTIONS`` names."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        title = "Options"
        for parameter in self.get_params(ctx):
            title = _SECTIONS.get(str(parameter.name), title)
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(title, []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


def asked(function: F) -> F:
    """Give a command all options of ``Request``, in the order in which ``--help`` shows them."""
    for option in reversed((*_DATA, *_SUITE, *_OUTCOME)):
        function = option(function)
    return function
