"""``ragmetrics doctor``: checks the environment of evaluations."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from mlflow_ragmetrics import __version__
from mlflow_ragmetrics.cli.shared_options import Destination, reaching, silence_mlflow, tracking_uri_option
from mlflow_ragmetrics.errors import JudgeError, RagMetricsError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_EXTRA = re.compile(r"extra == ['\"](?P<name>[\w-]+)['\"]")
_DEVELOPMENT = ("test", "lint", "dev", "docs", "mutation")


@dataclass(frozen=True)
class Check:
    """One finding: ok, a note, or a fault."""

    level: Literal["ok", "note", "fault"]
    subject: str
    finding: str


def check_versions() -> Iterator[Check]:
    """The versions of Python, of this package and of the packages it needs."""
    yield Check("ok", "python", f"{platform.python_version()} on {platform.system()}")
    yield Check("ok", "mlflow_ragmetrics", __version__)
    for extra, requirement in _requirements():
        if extra is None:
            found, missing = _version(requirement.name), f"is not installed; pip install '{requirement}'"
            yield Check("fault" if found is None else "ok", requirement.name, found or missing)


def check_extras() -> Iterator[Check]:
    """For each extra, whether all of its packages are installed."""
    extras: dict[str, list[str]] = defaultdict(list)
    for extra, requirement in _requirements():
        if extra is not None and extra not in _DEVELOPMENT:
            extras[extra].append(requirement.name)
    for name, packages in extras.items():
        missing = [package for package in packages if _version(package) is None]
        if missing:
            how = f"pip install 'mlflow_ragmetrics[{name}]'"
            yield Check("note", f"extra {name}", f"not installed ({', '.join(missing)}); {how} if you need it")
        else:
            yield Check("ok", f"extra {name}", "installed")


def check_judge(judge: str) -> Check:
    """Ask the judge one short question and check its answer."""
    from mlflow_ragmetrics.core.question import Verify
    from mlflow_ragmetrics.judges.resolve import judges_of

    try:
        (asked,) = judges_of(judge)
        (outcome,) = asked.answer([Verify(("Paris is in France.",), ("Paris is the capital of France.",))])
        if isinstance(outcome, JudgeError):
            raise outcome
    except RagMetricsError as error:
        return Check("fault", f"judge {judge}", str(error))
    return Check("ok", f"judge {judge}", "answers")


def _requirements() -> Iterator[tuple[str | None, Requirement]]:
    """The requirements of the installed package, each with its extra, if any."""
    from packaging.requirements import Requirement

    for line in requires("mlflow_ragmetrics") or ():
        requirement = Requirement(line)
        match = _EXTRA.search(str(requirement.marker or ""))
        yield (match["name"] if match else None), requirement


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_store(destination: Destination) -> Check:
    """Whether the store answers; does not create a missing SQLite file."""
    subject = f"MLflow store {destination.shown}"
    path = destination.sqlite_path
    if path is not None and not path.exists():
        return _check_folder(subject, path)
    silence_mlflow()
    from mlflow import MlflowClient

    try:
        with reaching(destination):
            experiments = MlflowClient(destination.uri).search_experiments(max_results=100)
    except RagMetricsError as error:
        return Check("fault", subject, str(error))
    return Check("ok", subject, f"answers; experiments: {len(experiments)}")


def check_runs(destination: Destination) -> Iterator[Check]:
    """Runs that killed processes left half written; at most the newest 20 are listed."""
    import mlflow

    from mlflow_ragmetrics.tracking.run import abandoned_runs

    path = destination.sqlite_path
    if path is not None and not path.exists():
        return
    before = mlflow.get_tracking_uri()
    try:
        with reaching(destination):
            mlflow.set_tracking_uri(destination.uri)
            experiments = [each.experiment_id for each in mlflow.search_experiments(max_results=1000)]
            found = abandoned_runs(experiments, live=True)
    except RagMetricsError:  # check_store reports it
        return
    finally:
        mlflow.set_tracking_uri(before)
    for run in found[:20]:
        advice = "log it again with report.log(run_id=…), or delete it; ragmetrics evaluate marks it as failed"
        finding = f"{run.info.run_id} was left half written by a process that ended; {advice}"
        yield Check("note", f"run {run.info.run_name}", finding)
    if len(found) > 20:
        yield Check("note", "runs", f"more runs left half written: {len(found) - 20}")


def check_waiting(destination: Destination) -> Iterator[Check]:
    """Answers for this store that live handlers left in the outbox when their process ended."""
    from mlflow_ragmetrics.tracking.outbox import open_outbox, outbox_folder
    from mlflow_ragmetrics.tracking.run import resolved_store

    folder = outbox_folder()
    if not folder.exists():
        return
    waiting, unscored = open_outbox().left(resolved_store(destination.uri))
    if waiting or unscored:
        finding = f"answers of ended processes: {waiting} scored and waiting, {unscored} lost before they were scored"
        advice = "the next handler with the same experiment and suite writes the waiting ones and records the loss"
        yield Check("note", f"live answers in {folder}", f"{finding}; {advice}")


def _check_folder(subject: str, path: Path) -> Check:
    """Whether the nearest existing folder is writable; MLflow creates missing folders."""
    folder = next(each for each in path.parents if each.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return Check("fault", subject, f"{folder} is not a writable folder")
    return Check("ok", subject, "does not exist yet; the first evaluation creates it")


_MARKS = {"ok": ("✓", "green"), "note": ("•", "yellow"), "fault": ("✗", "red")}


@click.command("doctor")
@tracking_uri_option
@click.option(
    "--judge", "-j", metavar="JUDGE", help="Also ask this judge one question; a language model charges for it."
)
@click.pass_context
def command(context: click.Context, tracking_uri: str | None, judge: str | None) -> None:
    """Check versions, extras, the MLflow store (unfinished runs, connections) and, with --judge, a judge.

    \b
    Examples:
      ragmetrics doctor
      ragmetrics doctor --judge openai:/gpt-4o-mini

    \b
    Exit codes: 0 no faults, 1 faults.
    """
    from rich.text import Text

    from mlflow_ragmetrics.cli.output import console, for_terminal
    from mlflow_ragmetrics.core.document import clean

    screen = console()
    faults = 0
    for check in _checks(tracking_uri, judge):
        mark, style = _MARKS[check.level]
        line = for_terminal(f"{mark} {check.subject}: {clean(check.finding)}", sys.stdout)
        screen.print(Text.assemble((mark, style), line[len(mark) :]), soft_wrap=True)
        faults += check.level == "fault"
    context.exit(1 if faults else 0)


def _checks(tracking_uri: str | None, judge: str | None) -> Iterator[Check]:
    from mlflow_ragmetrics.cli.shared_options import destination_of
    from mlflow_ragmetrics.tracking.run import pool_shortage

    yield from check_versions()
    yield from check_extras()
    destination = destination_of(tracking_uri, None)
    store = check_store(destination)
    yield store
    if store.level == "ok":
        yield from check_runs(destination)
    yield from check_waiting(destination)
    if (shortage := pool_shortage(destination.uri)) is not None:
        yield Check("note", "connection pool", shortage)
    if judge is not None:
        yield check_judge(judge)
