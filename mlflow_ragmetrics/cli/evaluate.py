"""``ragmetrics evaluate``: a file in, a run in MLflow and a table in the terminal out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.cli.assignments import numbers_of
from mlflow_ragmetrics.cli.gate_results import GATE_NOT_REACHED, check_writable, tell
from mlflow_ragmetrics.cli.request import Request, Sectioned, asked
from mlflow_ragmetrics.errors import JudgeError, RagMetricsError
from mlflow_ragmetrics.gates import check_figures, check_names

if TYPE_CHECKING:
    from mlflow_ragmetrics.cli.destination import Destination
    from mlflow_ragmetrics.cli.rows import Rows
    from mlflow_ragmetrics.core.sample import Sample
    from mlflow_ragmetrics.report import Report
    from mlflow_ragmetrics.suite import Suite

__all__ = ["command"]


@click.command("evaluate", cls=Sectioned)
@asked
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Score the rows of DATA (JSONL, JSON, CSV, TSV or Parquet) and log them to MLflow.

    Each row has a question, an answer, and what the metrics need beside: contexts, a reference, document ids. Other
    column names of the ecosystem (input, output, ground_truth, retrieved_contexts, …) are understood.

    \b
    Examples:
      ragmetrics evaluate answers.jsonl --suite white_paper
      ragmetrics evaluate answers.csv -m faithfulness -m "ndcg(k=5)"
      ragmetrics evaluate answers.csv --columns answer=output,reference=gold
      ragmetrics evaluate answers.jsonl -j openai:/gpt-4o-mini --cache judge.db
      ragmetrics evaluate --results run.tsv --reference gold.tsv --suite retrieval

    Exit codes: 0 done, 1 a gate not reached, 2 a mistake or nothing scored, 130 stopped.
    """
    if not _done(Request(**options)):
        context.exit(GATE_NOT_REACHED)


def _done(request: Request) -> bool:
    """Whether all gates were reached, once everything that was asked for has been done."""
    from mlflow_ragmetrics.cli.destination import destination_of
    from mlflow_ragmetrics.cli.outcome import show, show_plan, show_run
    from mlflow_ragmetrics.cli.rows import rows_of
    from mlflow_ragmetrics.cli.suites import suite_of
    from mlflow_ragmetrics.cli.tables import check_output, write_report

    check_output(request.output)
    suite = suite_of(request)
    if request.dry_run:
        show_plan(suite.plan(rows_of(request).samples))
        return True
    check_writable(request.junit, request.json_file)
    limits = numbers_of(request.fail_under, "fail-under"), request.fail_on_error_rate
    check_names(suite.keys, *limits)
    destination = destination_of(request.tracking_uri, request.experiment) if request.log else None
    report = _report(request, rows_of(request), suite, destination)
    unwritten = write_report(report, request.output) if request.output else None
    show(report, suite, request.worst)
    if request.output and unwritten is None:
        click.echo(f"Wrote {request.output}")
    if destination is not None:
        show_run(report.log(run_name=request.run_name), destination)
    if unwritten is not None:
        raise unwritten
    return tell(check_figures(report.metrics, *limits), request.junit, request.json_file)


def _report(request: Request, rows: Rows, suite: Suite, destination: Destination | None) -> Report:
    """Everything that a user can get wrong is checked before the store is touched, and the store before scoring."""
    from mlflow_ragmetrics.cli.suites import named_selection

    named = named_selection(request)
    for selection in (suite.selection, *([named] if named else [])):
        rows.check(selection)
    if destination is not None:
        destination.open()
    report = _evaluated(suite, rows.samples, request)
    _check_scored(report, rows.source)
    return replace(report, source=rows.source, warnings=(*report.warnings, *rows.warnings))


def _evaluated(suite: Suite, samples: Sequence[Sample], request: Request) -> Report:
    """The report, also where the judges gave out on the way: then a warning says so."""
    try:
        return suite.evaluate(samples, progress=request.progress, repeat=request.repeat)
    except JudgeError as error:
        if error.report is None:
            raise
        report: Report = error.report
        return replace(report, warnings=(*report.warnings, f"stopped before the end: {error}"))


def _check_scored(report: Report, source: str) -> None:
    if any(score.scored for row in report.rows for score in row.scores.values()):
        return
    row = report.rows[0]
    first = next(iter(row.scores.values()))
    said = f"of sample {row.sample.id!r} the result says: {first.error or first.reason}"
    raise RagMetricsError(f"{source}: nothing could be scored, and nothing was logged; {said}")
