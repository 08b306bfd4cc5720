"""``ragmetrics doctor``: is everything there that an evaluation needs?"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from mlflow_ragmetrics.cli.checks import Check

__all__ = ["command"]

_MARKS = {"ok": ("✓", "green"), "note": ("•", "yellow"), "fault": ("✗", "red")}


@click.command("doctor")
@click.option("--tracking-uri", metavar="URI", help="[default: MLFLOW_TRACKING_URI, else sqlite:///mlflow.db]")
@click.option("--judge", "-j", metavar="JUDGE", help="Ask this judge one question too; a language model bills it.")
@click.pass_context
def command(context: click.Context, tracking_uri: str | None, judge: str | None) -> None:
    """Check versions, extras, the MLflow store, its connection pool, and with --judge one call to a judge.

    \b
    Examples:
      ragmetrics doctor
      ragmetrics doctor --judge openai:/gpt-4o-mini

    \b
    Exit codes: 0 nothing is wrong, 1 something is.
    """
    from rich.text import Text

    from mlflow_ragmetrics.cli.terminal import clean, console, for_terminal

    screen = console()
    faults = 0
    for check in _checks(tracking_uri, judge):
        mark, style = _MARKS[check.level]
        line = for_terminal(f"{mark} {check.subject}: {clean(check.finding)}", sys.stdout)
        screen.print(Text.assemble((mark, style), line[len(mark) :]), soft_wrap=True)
        faults += check.level == "fault"
    context.exit(1 if faults else 0)


def _checks(tracking_uri: str | None, judge: str | None) -> Iterator[Check]:
    from mlflow_ragmetrics.cli.checks import check_extras, check_judge, check_versions
    from mlflow_ragmetrics.cli.destination import destination_of
    from mlflow_ragmetrics.cli.store_checks import check_pool, check_store

    yield from check_versions()
    yield from check_extras()
    destination = destination_of(tracking_uri, None)
    yield check_store(destination)
    yield from check_pool(destination)
    if judge is not None:
        yield check_judge(judge)
