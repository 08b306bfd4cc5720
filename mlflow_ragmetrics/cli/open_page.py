"""``ragmetrics open``: the page of a run, in the browser."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

import click

from mlflow_ragmetrics.cli.options import tracking_uri_option
from mlflow_ragmetrics.cli.output import check_writable, write_text
from mlflow_ragmetrics.cli.store import open_store
from mlflow_ragmetrics.errors import InvalidDataError

__all__ = ["command"]

_PAGE = "ragmetrics_report.html"


@click.command("open")
@click.argument("run")
@click.option("--output", "-o", metavar="FILE", help="Only write the page to this file.")
@tracking_uri_option
def command(run: str, output: str | None, tracking_uri: str | None) -> None:
    """Open the page of RUN, a run's id or name in MLflow, in the browser.

    \b
    Examples:
      ragmetrics open my-run
      ragmetrics open my-run --output page.html
    """
    check_writable(output)
    open_store(tracking_uri)
    from mlflow import artifacts
    from mlflow.exceptions import MlflowException

    from mlflow_ragmetrics.rows.results import found_run

    found = found_run(run)
    try:
        page = artifacts.load_text(f"runs:/{found.info.run_id}/{_PAGE}")
    except (MlflowException, OSError) as error:
        name = f"{found.info.run_name} ({found.info.run_id})"
        raise InvalidDataError(f"run {name} has no {_PAGE}; open runs that ragmetrics evaluated") from error
    if output is not None:
        write_text(output, page)
        click.echo(f"Wrote {output}")
        return
    path = Path(tempfile.mkdtemp(prefix="ragmetrics-"), _PAGE)
    write_text(str(path), page)
    shown = webbrowser.open(path.as_uri())
    click.echo(f"{'Opened' if shown else 'No browser was found; the page is'} {path}")
