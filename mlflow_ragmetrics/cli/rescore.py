"""``ragmetrics rescore``: the rows of a run judged anew, and compared with what they had."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.cli import exit_code_of
from mlflow_ragmetrics.cli.evaluate import asks_model, evaluated, say_stopped, show_plan
from mlflow_ragmetrics.cli.options import experiment_option, files, numbers, one_or_all, tracking_uri_option
from mlflow_ragmetrics.cli.output import NOT_COMPLETE, clean, for_terminal, terminal_width
from mlflow_ragmetrics.cli.request import CACHE
from mlflow_ragmetrics.cli.store import destination_of, open_store
from mlflow_ragmetrics.errors import InvalidOptionError

if TYPE_CHECKING:
    from mlflow_ragmetrics.suite import Suite

__all__ = ["command"]


@click.command("rescore")
@click.argument("run", shell_complete=files)
@click.option(
    "--judge", "-j", multiple=True, required=True, callback=one_or_all, metavar="JUDGE", help="lexical or a model URI."
)
@click.option("--suite", metavar="NAME|FILE", help="Other metrics [default: those of RUN].")
@click.option("--embeddings", multiple=True, callback=one_or_all, metavar="MODEL", help="[default: char-ngram]")
@click.option("--calls", type=click.Choice(["full", "compact", "single"]), help="Fewer, larger calls to a model.")
@click.option("--cache", metavar="FILE", default=CACHE, show_default=True, help="Where a model's answers are kept.")
@click.option("--max-calls", type=click.IntRange(min=1), metavar="N", help="Stop after so many calls to a model.")
@click.option("--max-cost", type=click.FloatRange(min=0), metavar="DOLLARS", help="Stop before that; needs --prices.")
@click.option(
    "--prices",
    metavar="input=NUMBER,output=NUMBER",
    multiple=True,
    callback=numbers,
    help="Dollars per million tokens.",
)
@click.option("--dry-run", is_flag=True, help="Only say what calls, tokens and money it would take.")
@click.option("--rows", type=click.IntRange(min=0), default=10, show_default=True, metavar="N", help="Changed rows.")
@click.option("--run-name", metavar="NAME", help="The new run's name [default: RUN and the judge].")
@tracking_uri_option
@experiment_option
@click.option("--log/--no-log", default=True, help="Log a new run to MLflow, or only show the comparison.")
@click.pass_context
def command(
    context: click.Context,
    /,
    run: str,
    suite: str | None,
    dry_run: bool,
    rows: int,
    run_name: str | None,
    tracking_uri: str | None,
    experiment: str | None,
    log: bool,
    **options: Any,
) -> None:
    """Judge the answers of RUN by another judge, and compare both judges' scores row by row.

    RUN is a run's id or name in MLflow, or a file that `ragmetrics evaluate --output` wrote. The differences are those
    between judges, not between answers: they say how far a figure hangs on who judges.

    \b
    Examples:
      ragmetrics rescore my-run --judge openai:/gpt-4o-mini
      ragmetrics rescore my-run --judge openai:/gpt-4o --dry-run --prices input=2.5,output=10

    Exit codes: 0 done, 2 a mistake, 3 the judge gave out (what was done is logged).
    """
    from mlflow_ragmetrics.comparison import compare
    from mlflow_ragmetrics.rows.results import is_file, results_of
    from mlflow_ragmetrics.rows.stored_rows import stored_samples

    if tracking_uri is not None or not is_file(run):
        open_store(tracking_uri)
    results = results_of(run)
    samples = stored_samples(results)
    given = {name: value for name, value in options.items() if value is not None}
    if dry_run and asks_model(given["judge"]):
        given["api_key"] = "none"
    made = _suite(results.description, suite, given)
    if dry_run:
        show_plan(made.plan(samples))
        return
    destination = destination_of(tracking_uri, experiment) if log else None
    if destination is not None:
        destination.open()
    report, interruption = evaluated(made, samples)
    judges = ", ".join(judge.name for judge in made.judges)
    name = run_name or f"{results.name} by {judges}"
    compared = replace(results_of(report), name=name)
    comparison = compare(results, compared, allow_different=True, rows=rows)
    click.echo(f"{for_terminal(comparison.to_text(terminal_width(sys.stdout)), sys.stdout)}\n")
    if destination is not None:
        run_id = report.log(run_name=name)
        comparison.log(run_id)
        click.echo(f"Logged into MLflow run {clean(name)} ({run_id})")
    if interruption is not None:
        say_stopped(report, len(samples), made, is_logged=destination is not None)
        context.exit(exit_code_of(interruption))
    if report.incomplete is not None:
        click.echo(f"The evaluation is not complete: {clean(report.incomplete)}", err=True)
        context.exit(NOT_COMPLETE)


def _suite(description: Any, suite: str | None, options: dict[str, Any]) -> Suite:
    """The suite of the run with another judge; the metrics are those that its description spells."""
    from mlflow_ragmetrics.suite import Suite

    if suite is not None:
        return Suite.of(suite, **options)
    metrics = description.get("metrics")
    if not metrics:
        message = "this evaluation does not say which metrics it has; name them with --suite"
        raise InvalidOptionError(message, param="suite")
    return Suite(list(metrics), **options)
