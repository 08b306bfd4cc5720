"""``ragmetrics label``: chooses rows for people to label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mlflow_ragmetrics.cli.output import check_writable, csv_text, write_text
from mlflow_ragmetrics.cli.shared_options import default_option, metrics, results_at, tracking_uri_option
from mlflow_ragmetrics.display.document import clean
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.text.messages import counted

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_ragmetrics.results.results import Results
    from mlflow_ragmetrics.tracking.review import Answers


@click.command("label")
@click.argument("run", type=click.Path())
@click.option("--key", "-k", metavar="METRIC", shell_complete=metrics, help="The metric [default: the only one].")
@default_option("--budget", type=click.IntRange(min=1), default=60, metavar="N", help="Number of rows.")
@click.option("--output", "-o", metavar="FILE", help="The .csv file [default: labels.csv].")
@click.option(
    "--to",
    type=click.Choice(["file", "mlflow"]),
    help="Where people label: in the file, or in a review queue [default: mlflow for a run on a server].",
)
@default_option(
    "--answers",
    type=click.Choice(["words", "yes-no", "1-5"]),
    default="words",
    help="With --to mlflow: the form of the answers.",
)
@click.option("--reviewer", multiple=True, metavar="NAME", help="With --to mlflow: a reviewer of the queue.")
@click.option("--labels", metavar="LABELS", help="A column or file of labels; labelled rows are left out.")
@tracking_uri_option
def command(
    run: str,
    key: str | None,
    budget: int,
    output: str | None,
    to: str | None,
    answers: Answers,
    reviewer: Sequence[str],
    labels: str | None,
    tracking_uri: str | None,
) -> None:
    """Choose rows of RUN for people to label, and write them to a file with an empty column `label`.

    RUN is a run's id or name in MLflow, or a file written by `ragmetrics evaluate --output`. Fill in 1 or 0, yes or no,
    or grades. The rows are drawn at random, over the whole range of the scores.

    For a run on a server, the rows are put into a review queue of its experiment (on MLflow's Review page), unless you
    name a file. `ragmetrics calibrate RUN --feedback` then reads the answers.

    \b
    Examples:
      ragmetrics label my-run --key faithfulness --budget 60 -o labels.csv
      ragmetrics calibrate my-run labels.csv --key faithfulness
      ragmetrics label my-run --key faithfulness --to mlflow --reviewer ann
      ragmetrics calibrate my-run labels.csv
    """
    from mlflow_ragmetrics.calibration.calibrate_scores import rows_to_label

    results = results_at(run, tracking_uri)
    if to == "mlflow" and results.run_id is None:
        raise InvalidOptionError("--to mlflow needs a run in MLflow, not a file", param="to")
    is_queued = to == "mlflow" or (to is None and output is None and _is_on_server(results))
    output = output or "labels.csv"
    if not is_queued:
        check_writable(output)
        if not output.lower().endswith(".csv"):
            raise InvalidOptionError(f"--output {output}: the name must end in .csv", param="output")
    rows = rows_to_label(results, key=key, budget=budget, labels=labels)
    if is_queued:
        _queue(run, results, key or results.keys[0], rows, answers, reviewer)
        return
    write_text(output, csv_text(rows))
    click.echo(f"Wrote {output}: {counted(len(rows), 'row')} to label. Fill in the column label, then:")
    named = f" --key {key}" if key else ""
    click.echo(f"  ragmetrics calibrate {run} {output}{named}")


def _is_on_server(results: Results) -> bool:
    import mlflow

    return results.run_id is not None and mlflow.get_tracking_uri().startswith("http")


def _queue(
    run: str, results: Results, key: str, rows: pd.DataFrame, answers: Answers, reviewers: Sequence[str]
) -> None:
    from mlflow_ragmetrics.tracking.review import ANSWERS, queue_for_review

    queue = queue_for_review(str(results.run_id), key, rows, answers=answers, reviewers=reviewers)
    if queue.name is not None:
        click.echo(f"Rows in the review queue {clean(queue.name)!r}: {queue.rows}; answers: {ANSWERS[answers]}.")
    else:
        click.echo(f"Traces to label: {queue.rows}; this MLflow has no review queues (they need 3.14).")
        click.echo(f"Find them with the filter {queue.filter}, and add feedback named {key} to each.")
    if queue.without_trace:
        click.echo(f"Warning: rows left out because they have no trace: {queue.without_trace}.", err=True)
    click.echo(f"Then:\n  ragmetrics calibrate {run} --feedback --key {key}")
