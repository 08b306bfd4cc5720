"""``ragmetrics watch``: the traces of an experiment scored as they come, and an alert when quality falls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mlflow_ragmetrics.cli.options import files, metrics, numbers, tracking_uri_option
from mlflow_ragmetrics.cli.output import GATE_NOT_REACHED, NOT_COMPLETE, clean
from mlflow_ragmetrics.cli.request import SUITE_OPTIONS, Sectioned
from mlflow_ragmetrics.cli.store import destination_of, open_store, reaching
from mlflow_ragmetrics.errors import InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.text.messages import render

if TYPE_CHECKING:
    from mlflow_ragmetrics.monitoring.watch import PassOutcome, Watch

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., object])


def _suite_options(function: F) -> F:
    for option in reversed(SUITE_OPTIONS):
        function = option(function)
    return function


@click.command("watch", cls=Sectioned)
@click.argument("experiment")
@click.option("--filter", "filter_string", default="", metavar="FILTER", help="Which traces, as MLflow searches them.")
@click.option("--sample", type=float, default=1.0, show_default=True, metavar="SHARE", help="The share that is scored.")
@click.option("--since", default="24h", show_default=True, metavar="TIME", help="Where the first pass begins.")
@click.option("--late", default="1h", show_default=True, metavar="TIME", help="How late a trace may reach the store.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N traces a pass.")
@click.option(
    "--anchors",
    metavar="FILE",
    shell_complete=files,
    help="Rows that stay the same, scored with each pass: they tell whether the judge has changed.",
)
@_suite_options
@click.option("--once", is_flag=True, help="One pass, as for cron [default: again and again].")
@click.option(
    "--every",
    default="5m",
    show_default=True,
    metavar="TIME",
    help="How long from one pass to the next, without --once.",
)
@click.option(
    "--alert",
    metavar="COMMAND|URL",
    envvar="RAGMETRICS_ALERT",
    help="Who is told when quality falls or the judge changes.",
)
@click.option(
    "--alarm-on",
    multiple=True,
    metavar="METRIC",
    shell_complete=metrics,
    help="What an alarm may be about [default: the composite, else all metrics].",
)
@click.option(
    "--fail-under",
    multiple=True,
    metavar="METRIC=NUMBER,…",
    callback=numbers,
    help="An alarm too when a mean is lower than this.",
)
@click.option("--rebase", is_flag=True, help="What quality is from now on is the new normal: alarms are over.")
@tracking_uri_option
@click.pass_context
def command(
    context: click.Context,
    /,
    experiment: str,
    filter_string: str,
    sample: float,
    since: str,
    late: str,
    limit: int | None,
    anchors: str | None,
    once: bool,
    every: str,
    alert: str | None,
    alarm_on: Sequence[str],
    fail_under: Mapping[str, float] | None,
    rebase: bool,
    tracking_uri: str | None,
    **options: Any,
) -> None:
    """Score the traces of EXPERIMENT that no pass has scored yet, write the scores onto them, and watch the quality.

    What has been scored is known from the traces themselves, in MLflow: a pass goes on where the last one ended,
    however that ended. Figures, their intervals, which are valid however often one looks, and alarms are in the run
    "watch · EXPERIMENT".

    \b
    Examples:
      ragmetrics watch live --once -m faithfulness
      ragmetrics watch live -j openai:/gpt-4o-mini --sample 0.1 --anchors anchors.jsonl
      ragmetrics watch live --once --alert "mail -s quality team@example.org"

    \b
    Exit codes with --once:
      0  done, and no alarm
      1  an alarm stands: quality has fallen, or the judge has changed
      2  a mistake in what was given, or the store failed
      3  no judge answered; the next pass goes on
    """
    from mlflow_ragmetrics.monitoring.watch import Watch
    from mlflow_ragmetrics.rows import read_samples
    from mlflow_ragmetrics.rows.trace_search import experiment_named, milliseconds, moment

    if options["groups"] is not None:
        message = (
            "--groups: a watch counts the turns of a conversation together, by the traces' sessions, and no others"
        )
        raise InvalidOptionError(message, param="groups")
    pause = milliseconds(every, "every") / 1000
    suite = _suite(options)
    samples = [] if anchors is None else list(read_samples(anchors))
    first, lateness = moment(since, "since"), milliseconds(late, "late")
    open_store(tracking_uri)
    with reaching(destination_of(tracking_uri, experiment)):
        experiment_id = experiment_named(experiment)
    watch = Watch(
        suite,
        experiment_id,
        experiment,
        filter=filter_string,
        sample=sample,
        since=first,
        late=lateness,
        limit=limit,
        anchors=samples,
        alarm_on=alarm_on,
        limits=fail_under or {},
        alert=alert,
    )
    if once:
        context.exit(_one_pass(watch, rebase))
    while True:
        began = time.monotonic()
        try:
            _one_pass(watch, rebase)
            rebase = False
        except InvalidOptionError:
            raise
        except RagMetricsError as error:
            click.echo(f"{_now()} {clean(str(error))}", err=True)
        time.sleep(max(0.0, pause - (time.monotonic() - began)))


def _suite(options: Mapping[str, Any]) -> Any:
    from mlflow_ragmetrics.cli.evaluate import suite_of

    return suite_of(SimpleNamespace(**options, dry_run=False))  # type: ignore[arg-type]


def _one_pass(watch: Watch, rebase: bool) -> int:
    """Do one pass, say what came of it, and give the exit code."""
    from mlflow_ragmetrics.tracking.watch_run import WatchBusyError

    try:
        done = watch.once(rebase=rebase)
    except WatchBusyError as error:
        click.echo(f"{_now()} Nothing done: {error}", err=True)
        return 0
    _say(done, watch)
    if done.incomplete is not None:
        return NOT_COMPLETE
    return GATE_NOT_REACHED if done.standing else 0


def _say(done: PassOutcome, watch: Watch) -> None:
    language = watch.suite.language
    parts = [f"scored {done.scored}"]
    parts += [f"counted {done.recovered} of an earlier pass"] if done.recovered else []
    parts += [f"{done.failed} failed calls"] if done.failed else []
    parts += [f"{done.left} to be tried again"] if done.left else []
    click.echo(f"{_now()} Pass {done.number} ({done.run_id}): {', '.join(parts)}")
    for line in done.lines:
        click.echo(f"  {clean(render(line, language))}")
    for alarm in done.standing:
        click.echo(
            f"  {'Alarm' if alarm in done.new else 'Alarm stands'}: {clean(render(alarm.text, language))}", err=True
        )
    if done.undelivered is not None:
        click.echo(f"  The alert was not delivered, the next pass tries again: {done.undelivered}", err=True)
    if done.incomplete is not None:
        click.echo(f"  Not complete: {clean(done.incomplete)}; the next pass goes on.", err=True)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
