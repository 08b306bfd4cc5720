"""``ragmetrics label`` chooses rows for people to label; ``ragmetrics calibrate`` compares a metric with the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from mlflow_ragmetrics.cli.output import check_writable, csv_text, print_text, write_text
from mlflow_ragmetrics.cli.shared_options import default_option, metrics, numbers, results_at, tracking_uri_option
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.text.messages import counted

key_option = click.option(
    "--key", "-k", metavar="METRIC", shell_complete=metrics, help="The metric [default: the only one]."
)


@click.command("label")
@click.argument("run", type=click.Path())
@key_option
@default_option("--budget", type=click.IntRange(min=1), default=60, metavar="N", help="Number of rows.")
@default_option("--output", "-o", default="labels.csv", metavar="FILE", help="The .csv file.")
@click.option("--labels", metavar="LABELS", help="A column or file of labels; labelled rows are left out.")
@tracking_uri_option
def label_command(
    run: str, key: str | None, budget: int, output: str, labels: str | None, tracking_uri: str | None
) -> None:
    """Choose rows of RUN for people to label, and write them to a file with an empty column `label`.

    RUN is a run's id or name in MLflow, or a file written by `ragmetrics evaluate --output`. Fill in 1 or 0, yes or no,
    or grades. The rows are drawn at random, over the whole range of the scores.

    \b
    Examples:
      ragmetrics label my-run --key faithfulness --budget 60 -o labels.csv
      ragmetrics calibrate my-run labels.csv --key faithfulness
    """
    from mlflow_ragmetrics.calibration import rows_to_label

    check_writable(output)
    if not output.lower().endswith(".csv"):
        raise InvalidOptionError(f"--output {output}: the name must end in .csv", param="output")
    rows = rows_to_label(results_at(run, tracking_uri), key=key, budget=budget, labels=labels)
    write_text(output, csv_text(rows))
    click.echo(f"Wrote {output}: {counted(len(rows), 'row')} to label. Fill in the column label, then:")
    named = f" --key {key}" if key else ""
    click.echo(f"  ragmetrics calibrate {run} {output}{named}")


@click.command("calibrate")
@click.argument("run", type=click.Path())
@click.argument("labels", required=False, type=click.Path())
@key_option
@click.option("--good-from", type=float, metavar="NUMBER", help="The lowest good grade, if labels are grades.")
@click.option("--groups", metavar="COLUMN", help="Column that groups related rows, such as answers to one question.")
@click.option(
    "--also", multiple=True, metavar="RUN", help="Runs of other judges on the same rows, to choose between them."
)
@click.option(
    "--words",
    multiple=True,
    metavar="WORD=NUMBER,…",
    callback=numbers,
    help="Meaning of other words in the labels: 1 for good, 0 for bad.",
)
@click.option("--feedback", is_flag=True, help="Use human feedback on the traces of the run's experiment as labels.")
@tracking_uri_option
def calibrate_command(
    run: str, labels: str | None, also: Sequence[str], feedback: bool, tracking_uri: str | None, **options: Any
) -> None:
    """Compare a metric of RUN with human LABELS, and find the threshold that agrees best.

    RUN is a run's id or name in MLflow, or a file written by `ragmetrics evaluate --output`. LABELS is a column of its
    data, or a file with the columns id and label. The result is logged as a new run.

    \b
    Examples:
      ragmetrics calibrate rows.parquet human_supported --key faithfulness
      ragmetrics calibrate my-run labels.csv --key faithfulness
      ragmetrics calibrate my-run --feedback --key correctness
    """
    from mlflow_ragmetrics.calibration import calibrate as calibrate_run

    results = results_at(run, tracking_uri)
    others = [results_at(other, tracking_uri) for other in also]
    calibration = calibrate_run([results, *others], _labels(labels, feedback, results), **options)
    print_text(calibration.to_text)
    if results.run_id is not None:
        click.echo(f"Logged to MLflow run {calibration.log()}")


def _labels(labels: str | None, feedback: bool, results: Evaluation) -> Any:
    if feedback == (labels is not None):
        raise InvalidOptionError("give either LABELS (a column or a file) or --feedback", param="labels")
    if labels is not None:
        return labels
    if results.run_id is None:
        raise InvalidOptionError("--feedback needs a run in MLflow, not a file", param="feedback")
    import mlflow

    experiment = mlflow.get_run(results.run_id).info.experiment_id
    return mlflow.search_traces([experiment], max_results=100_000)
