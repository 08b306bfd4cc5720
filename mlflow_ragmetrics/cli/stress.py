"""``ragmetrics stress``: tests which edits of supported answers a judge notices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import click

from mlflow_ragmetrics.cli import shared_options as shared
from mlflow_ragmetrics.cli.output import NOT_COMPLETE, print_text
from mlflow_ragmetrics.errors import JudgeError


@click.command("stress")
@click.argument("data", type=click.Path())
@shared.limit_option
@shared.file_option("--suite", help="The suite.yaml with the judge to test.")
@shared.several_option("--judge", "-j", metavar="JUDGE", help="lexical or a model URI.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only these: negation, number, …, control.")
@shared.tracking_uri_option
@shared.experiment_option
@click.option("--log/--no-log", default=True, help="Log to MLflow, or only print.")
@click.pass_context
def command(
    context: click.Context,
    /,
    data: str,
    limit: int | None,
    suite: str | None,
    kinds: Sequence[str],
    tracking_uri: str | None,
    experiment: str | None,
    log: bool,
    **options: Any,
) -> None:
    """Edit supported claims of the answers in DATA, and show which kinds of edits the judge notices.

    You need no labels. Negations, numbers, names, dates, units, exchanged names, sentences of other rows and dropped
    conditions change the meaning; the control keeps it. For each answer, a language model lists the claims, checks
    them, and then checks one edit per kind: try --limit 100 first.

    \b
    Examples:
      ragmetrics stress answers.jsonl --limit 100
      ragmetrics stress answers.jsonl -j openai:/gpt-4o-mini --kind negation
    """
    from mlflow_ragmetrics.rows import read_samples
    from mlflow_ragmetrics.stress_suite import Stress, stress

    chosen_suite = shared.suite_of(suite, default="faithfulness", **options)
    samples = list(islice(read_samples(data), limit))
    destination = shared.destination_of(tracking_uri, experiment) if log else None
    if destination is not None:
        destination.open()
    try:
        outcome = stress(chosen_suite, samples, kinds=kinds or None)
    except JudgeError as error:
        if error.report is None:
            raise
        outcome = Stress(error.report)
    print_text(outcome.to_text)
    if destination is not None:
        click.echo(f"MLflow run: {outcome.log()}. View it: {destination.command()}")
    if outcome.report.incomplete is not None:
        click.echo(f"Not complete: {outcome.report.incomplete}", err=True)
        context.exit(NOT_COMPLETE)
