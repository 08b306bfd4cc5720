"""``ragmetrics watch``: scores the new traces of an experiment as they arrive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

import click

from mlflow_ragmetrics.cli import NOTED, RECEIVED, end_at_once, stopped_code
from mlflow_ragmetrics.cli import shared_options as shared
from mlflow_ragmetrics.cli.output import NOT_COMPLETE
from mlflow_ragmetrics.display.document import clean
from mlflow_ragmetrics.engine.threads import ENDED, CancelledEvaluationError, settle, start_thread
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError, RagMetricsError

_SLICE = 0.25
_LONGEST_STOP = 20.0


@click.command("watch")
@click.argument("experiment")
@click.option("--filter", "filter_string", default="", metavar="FILTER", help="Only these traces (MLflow's syntax).")
@shared.default_option("--sample", type=float, default=1.0, metavar="SHARE", help="Share of traces to score.")
@shared.default_option("--since", default="24h", metavar="TIME", help="Age of the oldest traces in the first pass.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Score at most N traces per pass.")
@shared.suite_option("rag")
@shared.metric_option
@shared.judge_option
@click.option("--once", is_flag=True, help="Do one pass, for cron [default: repeat].")
@shared.default_option("--every", default="5m", metavar="TIME", help="Time between the starts of two passes.")
@shared.tracking_uri_option
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

    Ctrl-C and SIGTERM stop it with 130 and 143: finished rows are written, and the next start continues.
    """
    context.meta[NOTED], code = True, 0
    from mlflow_ragmetrics.adapters.mlflow_watch import Watch
    from mlflow_ragmetrics.rows.trace_records import milliseconds, moment

    pause = milliseconds(every, "every") / 1000
    suite = shared.suite_of(default="rag", **options)
    watch = Watch(suite, experiment, filter_string, sample, moment(since, "since"), limit)
    with suppress(CancelledEvaluationError):
        _result(partial(shared.open_store, tracking_uri))
        code = _pass(watch) if once else _repeat(watch, pause)
    context.exit(stopped_code() if RECEIVED else code)


def _repeat(watch: Any, pause: float) -> int:
    while not RECEIVED:
        began = time.monotonic()
        try:
            _pass(watch)
        except (InvalidOptionError, InvalidDataError, CancelledEvaluationError):
            raise
        except RagMetricsError as error:
            click.echo(f"{_now()} {clean(str(error))}", err=True)
        while not RECEIVED and (left := pause - (time.monotonic() - began)) > 0:
            time.sleep(min(left, _SLICE))
    return 0


def _result(action: Callable[[], Any]) -> Any:
    """Run ``action`` on a thread. After a signal a pass stops between two rows; if it hangs, the process ends."""
    outcome, is_stopped = Future[Any](), threading.Event()

    def work() -> None:
        ENDED.set(is_stopped)
        settle(outcome, action)

    start_thread(work, name="ragmetrics-watch", context=copy_context())
    while not wait([outcome], timeout=_SLICE).done:
        if RECEIVED and not is_stopped.is_set():
            is_stopped.set()
            until = time.monotonic() + _LONGEST_STOP
        if is_stopped.is_set() and time.monotonic() > until:
            end_at_once(RECEIVED[0], None)
    return outcome.result()


def _pass(watch: Any) -> int:
    """Do one pass, print its outcome, and return the exit code."""
    done = _result(watch.once)
    waiting = f", {done.waiting} left for the next pass" if done.waiting else ""
    scored = f"traces scored: {done.scored}{waiting}" if done.scored or waiting else "No new traces"
    click.echo(f"{_now()} {scored} (run {done.run_id})")
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
