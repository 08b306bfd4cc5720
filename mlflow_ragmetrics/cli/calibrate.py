"""``ragmetrics calibrate``: compares a metric with human labels and finds its best threshold."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.cli.shared_options import assignments, metrics, results_at, tracking_uri_option
from mlflow_ragmetrics.errors import InvalidOptionError

if TYPE_CHECKING:
    from mlflow_ragmetrics.results.results import Results


@click.command("calibrate")
@click.argument("run", type=click.Path())
@click.argument("labels", required=False, type=click.Path())
@click.option("--key", "-k", metavar="METRIC", shell_complete=metrics, help="The metric [default: the only one].")
@click.option("--good-from", type=float, metavar="NUMBER", help="The lowest good grade, if labels are grades.")
@click.option("--groups", metavar="COLUMN", help="Column that groups related rows, such as answers to one question.")
@click.option(
    "--also", multiple=True, metavar="RUN", help="Runs of other judges on the same rows, to choose between them."
)
@click.option(
    "--words",
    multiple=True,
    metavar="WORD=NUMBER,…",
    callback=assignments,
    help="Meaning of other words in the labels: 1 for good, 0 for bad, none for no label.",
)
@click.option("--feedback", is_flag=True, help="Use human feedback on the traces of the run's experiment as labels.")
@tracking_uri_option
def command(
    run: str,
    labels: str | None,
    also: Sequence[str],
    feedback: bool,
    tracking_uri: str | None,
    words: Mapping[str, str] | None,
    **options: Any,
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
    from mlflow_ragmetrics.cli.output import for_terminal, terminal_width

    results = results_at(run, tracking_uri)
    others = [results_at(other, tracking_uri) for other in also]
    given = _labels(labels, feedback, results)
    found = calibrate_run([results, *others], given, words=_meanings(words), **options)
    click.echo(f"{for_terminal(found.to_text(terminal_width(sys.stdout)), sys.stdout)}\n")
    if results.run_id is not None:
        click.echo(f"Logged to MLflow run {found.log()}")


def _labels(labels: str | None, feedback: bool, results: Results) -> Any:
    if feedback == (labels is not None):
        raise InvalidOptionError("give either LABELS (a column or a file) or --feedback", param="labels")
    if labels is not None:
        return labels
    if results.run_id is None:
        raise InvalidOptionError("--feedback needs a run in MLflow, not a file", param="feedback")
    import mlflow

    experiment = mlflow.get_run(results.run_id).info.experiment_id
    return mlflow.search_traces([experiment], max_results=100_000)


def _meanings(words: Mapping[str, str] | None) -> dict[str, float | None]:
    def number(word: str, text: str) -> float | None:
        try:
            return None if text.lower() == "none" else float(text)
        except ValueError:
            message = f"--words {word}={text}: {text!r} is neither a number nor none"
            raise InvalidOptionError(message, param="words") from None

    return {word: number(word, text) for word, text in (words or {}).items()}
