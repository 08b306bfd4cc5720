"""What ``ragmetrics evaluate`` was asked: its options, as the command line takes them and as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import click

from mlflow_ragmetrics.cli.options import (
    assignments,
    experiment_option,
    files,
    levels_or_numbers,
    limit_option,
    metrics,
    numbers,
    one_or_all,
    share_or_numbers,
    suites,
    tracking_uri_option,
)

__all__ = ["CACHE", "SUITE_OPTIONS", "Request", "Sectioned", "request_options"]

CACHE = "ragmetrics-cache.db"

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class Request:
    """The options of ``ragmetrics evaluate`` by their names; ``None`` or empty where not given."""

    data: str | None
    results: str | None
    reference: str | None
    on: str
    columns: Mapping[str, str] | None
    delimiter: str | None
    limit: int | None
    suite: str | None
    metric: Sequence[str]
    judge: str | Sequence[str] | None
    embeddings: str | Sequence[str] | None
    weights: Mapping[str, float] | None
    thresholds: str | Mapping[str, float] | None
    language: str | None
    groups: str | None
    calls: str | None
    prompts: str | None
    cache: str | None
    no_cache: bool
    concurrency: int | None
    max_calls: int | None
    max_cost: float | None
    prices: Mapping[str, float] | None
    repeat: int
    dry_run: bool
    tracking_uri: str | None
    experiment: str | None
    run_name: str | None
    log: bool
    texts: bool
    feedback: bool
    output: str | None
    keep_formulas: bool
    fail_under: Mapping[str, float] | None
    fail_over: Mapping[str, float] | None
    min_scored: Mapping[str, float] | None
    true_score: Mapping[str, str] | None
    junit: str | None
    json_file: str | None
    by: Sequence[str]
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
    click.option(
        "--columns",
        metavar="FIELD=COLUMN,…",
        multiple=True,
        callback=assignments,
        help="Where the file has other names.",
    ),
    click.option(
        "--delimiter", metavar="CHARACTER", help="What separates the cells of a .csv or .tsv file [default: found out]."
    ),
    limit_option,
)
SUITE_OPTIONS = (
    click.option(
        "--suite",
        metavar="NAME|FILE",
        shell_complete=suites,
        help="white_paper, lexical, response, retrieval, diagnose, full, or a suite.yaml [default: white_paper].",
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
        "--judge",
        "-j",
        multiple=True,
        callback=one_or_all,
        metavar="JUDGE",
        help="lexical (offline) or a model URI; repeat it for a panel.",
    ),
    click.option(
        "--embeddings",
        multiple=True,
        callback=one_or_all,
        metavar="MODEL",
        help="char-ngram (built in), wordllama or a model URI.",
    ),
    click.option(
        "--weights", metavar="METRIC=NUMBER,…", multiple=True, callback=numbers, help="The weights of rag_score."
    ),
    click.option(
        "--thresholds",
        metavar="LEVEL|METRIC=NUMBER,…",
        multiple=True,
        callback=levels_or_numbers,
        help="conservative, balanced, lenient, or one per metric.",
    ),
    click.option(
        "--groups",
        metavar="COLUMN",
        help="Rows that belong together, such as turns of a conversation: intervals and gates then count these.",
    ),
    click.option("--language", metavar="en|ru", help="The language of the explanations."),
    click.option(
        "--calls",
        type=click.Choice(["full", "compact", "single"]),
        help="compact: fewer, larger calls to a language model.",
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
        "--max-cost",
        type=click.FloatRange(min=0),
        metavar="DOLLARS",
        help="Stop before the calls cost more; needs --prices.",
    ),
    click.option(
        "--prices",
        metavar="input=NUMBER,output=NUMBER",
        multiple=True,
        callback=numbers,
        help="Dollars per million tokens of the model, and cached= where these cost less.",
    ),
    click.option("--concurrency", type=int, metavar="N", help="Calls to language models at the same time."),
)
_TRIAL = (
    click.option(
        "--repeat", type=click.IntRange(min=1), default=1, metavar="N", help="Ask N times and say how far that differs."
    ),
    click.option("--dry-run", is_flag=True, help="Only say what calls, tokens and money it would take."),
)
_OUTCOME = (
    tracking_uri_option,
    experiment_option,
    click.option("--run-name", metavar="NAME", help="The run's name in MLflow."),
    click.option("--log/--no-log", default=True, help="Log to MLflow, or only show."),
    click.option(
        "--texts/--no-texts",
        default=True,
        help="Log questions, answers, passages and reasons too, or scores, verdicts and ids only.",
    ),
    click.option(
        "--feedback",
        is_flag=True,
        help="Where rows are traces: write the scores onto these, not onto new ones.",
    ),
    click.option(
        "--output",
        "-o",
        metavar="FILE",
        shell_complete=files,
        help="Write the rows to a .csv, .json, .jsonl or .parquet file, or an .html page.",
    ),
    click.option(
        "--keep-formulas", is_flag=True, help="Write .csv cells that begin with = + - @ as they are, unquoted."
    ),
    click.option(
        "--fail-under",
        metavar="METRIC=NUMBER,…",
        multiple=True,
        callback=numbers,
        help="Exit code 1 when a mean, or a figure such as rag_score/ci_low, is lower.",
    ),
    click.option(
        "--fail-over",
        metavar="METRIC=NUMBER,…",
        multiple=True,
        callback=numbers,
        help="The same for metrics that are better the lower, such as hallucination_rate: when it is higher.",
    ),
    click.option(
        "--min-scored",
        metavar="SHARE|METRIC=SHARE,…",
        multiple=True,
        callback=share_or_numbers,
        help="Exit code 1 when fewer of all rows are measured [default: 0.95 of a metric with --fail-under].",
    ),
    click.option(
        "--true-score",
        metavar="METRIC=LABELS,…",
        multiple=True,
        callback=assignments,
        help="Correct a mean by people's labels, a column or a file, for gates such as faithfulness/true_low=0.8.",
    ),
    click.option("--junit", metavar="FILE", shell_complete=files, help="Write gates and rows as JUnit XML."),
    click.option("--json", "json_file", metavar="FILE", shell_complete=files, help="Write the gates as JSON."),
    click.option(
        "--by", multiple=True, metavar="COLUMN", help="Figures of each slice as well: one for each value, as of topic."
    ),
    click.option(
        "--worst", type=click.IntRange(min=0), default=3, show_default=True, metavar="N", help="Bad rows to show."
    ),
    click.option("--progress/--no-progress", default=None, help="The bar [default: on terminals]."),
)


_READ, _OUTCOMES = "What is read", "What comes of it"
_SECTIONS = {
    "results": _READ,
    "filter_string": _READ,
    "suite": "How it is scored",
    "once": _OUTCOMES,
    "tracking_uri": _OUTCOMES,
}


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


def request_options(function: F) -> F:
    """Give a command all options of ``Request``, in the order in which ``--help`` shows them."""
    for option in reversed((*_DATA, *SUITE_OPTIONS, *_TRIAL, *_OUTCOME)):
        function = option(function)
    return function
