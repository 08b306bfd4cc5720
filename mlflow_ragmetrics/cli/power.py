"""``ragmetrics power``: how small a difference the data can show, and what a smaller one would take."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from mlflow_ragmetrics.cli.options import files, tracking_uri_option
from mlflow_ragmetrics.cli.output import check_writable, write_text
from mlflow_ragmetrics.cli.store import open_store
from mlflow_ragmetrics.errors import InvalidOptionError

__all__ = ["command"]


@click.command("power")
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN_B]", shell_complete=files)
@click.option(
    "--detect", type=float, default=0.05, show_default=True, metavar="NUMBER", help="The difference to be seen."
)
@click.option("--groups", metavar="COLUMN", help="Rows that belong together [default: those of the evaluation].")
@click.option(
    "--correlation",
    type=float,
    default=0.5,
    show_default=True,
    metavar="NUMBER",
    help="Between the scores of two versions, where only one is given.",
)
@click.option("--row-cost", type=float, metavar="NUMBER", help="What a scored row costs, in dollars.")
@click.option("--json", "json_file", metavar="FILE", shell_complete=files, help="Write the figures as JSON.")
@tracking_uri_option
def command(
    runs: Sequence[str], groups: str | None, json_file: str | None, tracking_uri: str | None, **options: Any
) -> None:
    """Say how small a difference RUN can show, and how many rows, or groups, a difference of --detect would take.

    RUN is a run's id or name in MLflow, or a file that `ragmetrics evaluate --output` wrote. With two of them, what
    varies is the difference between both. What an evaluation costs is said by `ragmetrics evaluate --dry-run`.

    \b
    Examples:
      ragmetrics power rows.parquet --detect 0.03
      ragmetrics power baseline candidate --detect 0.03 --groups conversation_id
    """
    from mlflow_ragmetrics.cli.output import for_terminal, terminal_width
    from mlflow_ragmetrics.comparison import compare
    from mlflow_ragmetrics.comparison.power import power
    from mlflow_ragmetrics.rows.results import is_file, results_of

    check_writable(json_file)
    if len(runs) > 2:
        raise InvalidOptionError("power takes one run, or two to be compared", param="runs")
    if tracking_uri is not None or not all(map(is_file, runs)):
        open_store(tracking_uri)
    results = [results_of(run) for run in runs]
    if len(results) == 1:
        found = power(results[0], groups=groups, **options)
    else:
        found = power(compare(*results, groups=groups, allow_different=True), **options)
    if json_file is not None:
        write_text(json_file, json.dumps(found.table.to_dict("records"), ensure_ascii=False, indent=1) + "\n")
    click.echo(for_terminal(found.to_text(terminal_width(sys.stdout)), sys.stdout))
