"""``ragmetrics compare``: compares two runs, row by row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.cli import shared_options as shared
from mlflow_ragmetrics.cli.output import (
    GATE_NOT_REACHED,
    NOT_COMPLETE,
    check_writable,
    print_text,
    report_gates,
    write_text,
)
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError

if TYPE_CHECKING:
    from mlflow_ragmetrics.comparison import Comparison


@click.command("compare")
@click.argument("runs", nargs=-1, metavar="RUN_A RUN_B [RUN_C …]", type=click.Path())
@shared.default_option(
    "--tolerance", type=float, default=0.05, metavar="NUMBER", help="Largest difference that does not matter."
)
@click.option(
    "--fail-on", multiple=True, metavar="VERDICT", help='Exit code 1 for this verdict: regressed, "cannot be told", ….'
)
@click.option(
    "--by", multiple=True, metavar="COLUMN", help="Also show the differences for each slice, such as each topic."
)
@click.option("--allow-different", is_flag=True, help="Compare even if judge, prompts, suite or references differ.")
@shared.default_option("--rows", type=click.IntRange(min=0), default=10, metavar="N", help="Number of rows shown.")
@click.option("--groups", metavar="COLUMN", help="Column that groups related rows [default: the groups of RUN_A].")
@shared.several_option(
    "--preference",
    metavar="JUDGE",
    help="Ask this judge which answer is better, in both orders: lexical or a model URI. Repeat it for a majority.",
)
@shared.cache_option
@shared.max_calls_option
@shared.default_option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    help="Output format. With formats other than text, nothing else is printed, so you can redirect the output.",
)
@shared.file_option("--html", help="Write the page (of the last comparison).")
@shared.file_option("--junit", help="Write the gates as JUnit XML.")
@shared.tracking_uri_option
@click.option("--log/--no-log", default=None, help="Log the comparison as a new run [default: if B is a run].")
@click.pass_context
def command(
    context: click.Context,
    /,
    runs: Sequence[str],
    fail_on: Sequence[str],
    by: Sequence[str],
    form: str,
    html: str | None,
    junit: str | None,
    tracking_uri: str | None,
    log: bool | None,
    preference: str | list[str] | None,
    cache: str | None,
    max_calls: int | None,
    **options: Any,
) -> None:
    """Compare RUN_B (and each further run) with RUN_A, row by row. P-values are adjusted over all runs.

    A run is an id or a name in MLflow, or a file written by `ragmetrics evaluate --output`.

    \b
    Examples:
      ragmetrics compare baseline.parquet candidate.parquet
      ragmetrics compare 5f0c…a1 candidate --fail-on regressed --tolerance 0.02
      ragmetrics compare main pr --format markdown >> "$GITHUB_STEP_SUMMARY"
      ragmetrics compare main pr --preference openai:/gpt-4o-mini

    Exit codes: 0 done, 1 a --fail-on gate failed, 2 invalid input, 3 the judge of --preference never answered.
    """
    from mlflow_ragmetrics.comparison import compare as compare_runs

    check_writable(html, junit)
    if form != "text" and by:
        raise InvalidOptionError(f"--by needs --format text, not {form}", param="format")
    if preference is not None:
        options["preference"] = shared.suite_of(judge=preference, cache=cache, max_calls=max_calls)
    elif cache or max_calls:
        raise InvalidOptionError("--cache and --max-calls need --preference", param="preference")
    if len(runs) < 2:
        raise InvalidOptionError("compare needs at least two runs or files", param="runs")
    baseline, *others = [shared.results_at(run, tracking_uri) for run in runs]
    unjudged = None
    try:
        comparisons = compare_runs(baseline, others, **options)
    except JudgeError as error:  # the scores need no judge
        unjudged = error
        comparisons = compare_runs(baseline, others, **{**options, "preference": None})
    checks = [check for comparison in comparisons for check in comparison.checks(fail_on)]
    _print(comparisons, form, fail_on, by)
    if html is not None:
        write_text(html, comparisons[-1].to_html())
    for comparison in comparisons:
        if log or (log is None and comparison.b.run_id is not None):
            click.echo(f"Logged to MLflow run {comparison.log()}", err=form != "text")
    are_reached = report_gates(checks, junit, quiet=form != "text", said=bool(fail_on))
    if unjudged is not None:
        click.echo(f"The comparison has no preference: {unjudged}", err=True)
        context.exit(NOT_COMPLETE)
    if not are_reached:
        context.exit(GATE_NOT_REACHED)


def _print(comparisons: Sequence[Comparison], form: str, fail_on: Sequence[str], by: Sequence[str]) -> None:
    if form == "text":
        for comparison in comparisons:
            print_text(comparison.to_text)
            for column in by:
                print_text(partial(comparison.slices_text, column))
    elif form == "markdown":
        click.echo("\n".join(comparison.to_markdown(fail_on) for comparison in comparisons), nl=False)
    else:
        content = [comparison.to_dict() for comparison in comparisons]
        click.echo(json.dumps(content if content[1:] else content[0], ensure_ascii=False, indent=1))
