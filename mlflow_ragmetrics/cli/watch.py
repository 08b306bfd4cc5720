"""``ragmetrics watch``: scores the new traces of an experiment as they arrive."""

from __future__ import annotations

import time
from typing import Any

import click

from mlflow_ragmetrics.cli.output import NOT_COMPLETE
from mlflow_ragmetrics.cli.shared_options import (
    default_option,
    judge_option,
    metric_option,
    open_store,
    suite_of,
    suite_option,
    tracking_uri_option,
)
from mlflow_ragmetrics.display.document import clean
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError, RagMetricsError


@click.command("watch")
@click.argument("experiment")
@click.option("--filter", "filter_string", default="", metavar="FILTER", help="Only these traces (MLflow's syntax).")
@default_option("--sample", type=float, default=1.0, metavar="SHARE", help="Share of traces to score.")
@default_option("--since", default="24h", metavar="TIME", help="Age of the oldest traces in the first pass.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Score at most N traces per pass.")
@suite_option
@metric_option
@judge_option
@click.option("--once", is_flag=True, help="Do one pass, for cron [default: repeat].")
@default_option("--every", default="5m", metavar="TIME", help="Time between the starts of two passes.")
@tracking_uri_option
@click.pass_context
def command(
    context: click.Context,
    /,
    experiment: str,
    filter_string: str,
    sample: float,
    since: str,
    limit: int | None,
    once: bool,
    every: str,
    tracking_uri: str | None,
    **options: Any,
) -> None:
    """Score the traces of EXPERIMENT that lack scores, and write the scores to them.

    MLflow stores the scores, so each pass continues from the last one. The run "watch · EXPERIMENT" has the figures of
    all traces.

    \b
    Examples:
      ragmetrics watch live --once -m faithfulness
      ragmetrics watch live --suite suite.yaml --sample 0.1 --every 15m

    \b
    Exit codes with --once:
      0  done
      2  invalid options, no such experiment, or the store failed
      3  no judge answered; the next pass continues
    """
    from mlflow_ragmetrics.adapters.mlflow_watch import Watch
    from mlflow_ragmetrics.rows.trace_records import milliseconds, moment

    pause = milliseconds(every, "every") / 1000
    watch = Watch(suite_of(**options), experiment, filter_string, sample, moment(since, "since"), limit)
    open_store(tracking_uri)
    if once:
        context.exit(_pass(watch))
    while True:
        began = time.monotonic()
        try:
            _pass(watch)
        except (InvalidOptionError, InvalidDataError):
            raise
        except RagMetricsError as error:
            click.echo(f"{_now()} {clean(str(error))}", err=True)
        time.sleep(max(0.0, pause - (time.monotonic() - began)))


def _pass(watch: Any) -> int:
    """Do one pass, print its outcome, and return the exit code."""
    done = watch.once()
    waiting = f", {done.waiting} left for the next pass" if done.waiting else ""
    click.echo(f"{_now()} traces scored: {done.scored}{waiting} (run {done.run_id})")
    for key in watch.suite.keys:
        measured = int(done.figures.get(f"{key}/n_measured", 0))
        others = int(sum(done.figures.get(f"{key}/{name}", 0) for name in ("n_unmeasured", "n_skipped", "n_error")))
        mean = f"{done.figures[f'{key}/mean']:.3f}" if measured else "not measured"
        click.echo(f"  {key}: {mean}, traces measured: {measured} of {measured + others}")
    if done.incomplete is None:
        return 0
    click.echo(f"  Not complete: {clean(done.incomplete)}", err=True)
    return NOT_COMPLETE


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
