"""``ragmetrics doctor``: checks the environment of evaluations."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import chain
from typing import Literal, NamedTuple

import click

from mlflow_ragmetrics import __version__
from mlflow_ragmetrics.cli.shared_options import (
    Destination,
    destination_of,
    reaching,
    silence_mlflow,
    tracking_uri_option,
)
from mlflow_ragmetrics.errors import JudgeError, RagMetricsError


class Check(NamedTuple):
    """One finding: ok, a note, or a fault."""

    level: Literal["ok", "note", "fault"]
    subject: str
    finding: str


def check_packages() -> Iterator[Check]:
    """The versions of Python, of this package and of the packages it needs."""
    from packaging.requirements import Requirement

    yield Check("ok", "python", f"{platform.python_version()} on {platform.system()}")
    yield Check("ok", "mlflow_ragmetrics", __version__)
    for requirement in map(Requirement, requires("mlflow_ragmetrics") or ()):
        if "extra" in str(requirement.marker or ""):
            continue
        try:
            yield Check("ok", requirement.name, version(requirement.name))
        except PackageNotFoundError:
            yield Check("fault", requirement.name, "is not installed")


def check_judge(judge: str | None) -> Iterator[Check]:
    """Ask the judge, if any, one short question and check its answer."""
    if judge is None:
        return
    from mlflow_ragmetrics.core.question import Verify
    from mlflow_ragmetrics.judges.resolve import judges_of

    try:
        (tried_judge,) = judges_of(judge)
        (outcome,) = tried_judge.answer([Verify(("Paris is in France.",), ("Paris is the capital of France.",))])
        if isinstance(outcome, JudgeError):
            raise outcome
    except RagMetricsError as error:
        yield Check("fault", f"judge {judge}", str(error))
    else:
        yield Check("ok", f"judge {judge}", "answers")


def check_store(destination: Destination) -> Iterator[Check]:
    """Whether the store answers, and at most 20 runs that killed processes left half written there.

    Does not create a missing SQLite file.
    """
    subject = f"MLflow store {destination.shown}"
    path = destination.sqlite_path
    if path is not None and not path.exists():
        folder = next(parent for parent in path.parents if parent.exists())  # MLflow creates missing folders
        if folder.is_dir() and os.access(folder, os.W_OK):
            yield Check("ok", subject, "does not exist yet; the first evaluation creates it")
        else:
            yield Check("fault", subject, f"{folder} is not a writable folder")
        return
    silence_mlflow()
    import mlflow

    from mlflow_ragmetrics.tracking.run import abandoned_runs

    try:
        with reaching(destination):
            mlflow.set_tracking_uri(destination.uri)
            experiments = [experiment.experiment_id for experiment in mlflow.search_experiments(max_results=1000)]
            runs = abandoned_runs(experiments, live=True)
    except RagMetricsError as error:
        yield Check("fault", subject, str(error))
        return
    yield Check("ok", subject, f"answers; experiments: {len(experiments)}")
    advice = "log it again with report.log(run_id=…), or delete it; ragmetrics evaluate marks it as failed"
    live = "the next process of the service, or the next watch, completes it"
    for run in runs[:20]:
        left = f"{run.info.run_id} was left half written by a process that ended"
        finding = f"{left}; {live if 'ragmetrics.live' in run.data.tags else advice}"
        yield Check("note", f"run {run.info.run_name}", finding)
    if len(runs) > 20:
        yield Check("note", "runs", f"more runs left half written: {len(runs) - 20}")


def check_waiting(destination: Destination) -> Iterator[Check]:
    """Too few connections to the store, and answers for it that live handlers left when their process ended."""
    from mlflow_ragmetrics.tracking.outbox import open_outbox, outbox_folder
    from mlflow_ragmetrics.tracking.run import pool_shortage, resolved_store

    if (shortage := pool_shortage(destination.uri)) is not None:
        yield Check("note", "connection pool", shortage)
    folder = outbox_folder()
    if not folder.exists():
        return
    waiting, unscored = open_outbox().left(resolved_store(destination.uri))
    if waiting or unscored:
        lost = f"at least {unscored} lost before they were scored"
        finding = f"answers of ended processes: {waiting} scored and waiting, {lost}"
        advice = "the next handler with the same experiment and suite writes the waiting ones and records the loss"
        yield Check("note", f"live answers in {folder}", f"{finding}; {advice}")


@click.command("doctor")
@tracking_uri_option
@click.option(
    "--judge", "-j", metavar="JUDGE", help="Also ask this judge one question; a language model charges for it."
)
@click.pass_context
def command(context: click.Context, tracking_uri: str | None, judge: str | None) -> None:
    """Check versions, the MLflow store (unfinished runs, connections) and, with --judge, a judge.

    \b
    Examples:
      ragmetrics doctor
      ragmetrics doctor --judge openai:/gpt-4o-mini

    \b
    Exit codes: 0 no faults, 1 faults.
    """
    from mlflow_ragmetrics.cli.output import for_terminal
    from mlflow_ragmetrics.display.document import clean

    marks = {"ok": ("✓", "green"), "note": ("•", "yellow"), "fault": ("✗", "red")}
    faults = 0
    destination = destination_of(tracking_uri, None)
    for check in chain(check_packages(), check_store(destination), check_waiting(destination), check_judge(judge)):
        mark, colour = marks[check.level]
        line = for_terminal(f"{mark} {check.subject}: {clean(check.finding)}", sys.stdout)
        click.echo(click.style(mark, colour) + line[1:])
        faults += check.level == "fault"
    context.exit(1 if faults else 0)
