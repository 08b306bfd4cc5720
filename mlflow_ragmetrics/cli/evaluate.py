"""``ragmetrics evaluate``: scores a file, logs a run to MLflow and prints a table."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import click
import numpy as np

from mlflow_ragmetrics.cli import shared_options as shared
from mlflow_ragmetrics.cli import stopped_code
from mlflow_ragmetrics.cli.output import (
    GATE_NOT_REACHED,
    NOT_COMPLETE,
    OutputFile,
    check_output,
    check_writable,
    for_terminal,
    print_blocks,
    report_gates,
    show,
)
from mlflow_ragmetrics.core.safe_text import as_json, plain
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.display.document import clean
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError, MissingFieldError, RagMetricsError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.gates import check_figures, check_names
from mlflow_ragmetrics.results.marks import has_diagnoses
from mlflow_ragmetrics.results.results import results_of
from mlflow_ragmetrics.results.tables import MANY_ROWS
from mlflow_ragmetrics.rows import join, read_samples
from mlflow_ragmetrics.rows.aliases import QUESTION_IDS
from mlflow_ragmetrics.rows.data import RUNS, slices_of
from mlflow_ragmetrics.rows.record import shown_id
from mlflow_ragmetrics.rows.trace_records import SCHEME as TRACES
from mlflow_ragmetrics.rows.trace_records import SESSION
from mlflow_ragmetrics.selection import Checked, check_presence, default_metrics
from mlflow_ragmetrics.suite import Suite, is_suite_file, mapped_field
from mlflow_ragmetrics.suite_file import RunSettings, read_settings
from mlflow_ragmetrics.text.messages import check_language, render

_GROUPS = frozenset((SESSION, *QUESTION_IDS))
_limits_option = partial(click.option, metavar="METRIC=NUMBER,…", multiple=True, callback=shared.numbers)


@click.command("evaluate")
@click.argument("data", required=False, type=click.Path())
@shared.file_option("--results", help="A system's results, joined with --reference.")
@shared.file_option("--reference", help="The references, joined with --results by qid.")
@shared.columns_option
@shared.limit_option
@shared.suite_options
@click.option(
    "--groups",
    metavar="COLUMN",
    help="Column that groups related rows, such as turns of a conversation; intervals are then over groups.",
)
@click.option("--dry-run", is_flag=True, help="Only print the calls, tokens and cost.")
@shared.tracking_uri_option
@shared.experiment_option
@click.option("--run-name", metavar="NAME", help="The run's name in MLflow.")
@click.option("--log/--no-log", default=True, help="Log to MLflow, or only print.")
@click.option(
    "--texts/--no-texts",
    default=True,
    help="Also log questions, answers, passages and reasons, or only scores, verdicts and ids.",
)
@click.option("--feedback", is_flag=True, help="If the rows are traces: write the scores to them, not to new traces.")
@shared.file_option("--output", "-o", help="Write the rows to a .csv, .json, .jsonl or .parquet file or .html page.")
@_limits_option("--fail-under", help="Exit code 1 if a mean, or a figure such as rag_score/ci_low, is lower.")
@_limits_option(
    "--fail-over",
    help="Exit code 1 if a mean or figure is higher, for metrics where lower is better (hallucination_rate).",
)
@click.option(
    "--min-scored",
    metavar="SHARE|METRIC=SHARE,…",
    multiple=True,
    callback=shared.numbers,
    help="Exit code 1 if a smaller share of all rows is measured [default: 0.95 for gated metrics].",
)
@shared.file_option("--junit", help="Write the gates as JUnit XML.")
@shared.default_option("--worst", type=click.IntRange(min=0), default=3, metavar="N", help="The number of worst rows.")
@click.pass_context
def command(
    context: click.Context,
    /,
    data: str | None,
    results: str | None,
    reference: str | None,
    columns: Mapping[str, str | None] | None,
    limit: int | None,
    suite: str | None,
    metric: Sequence[str],
    dry_run: bool,
    tracking_uri: str | None,
    experiment: str | None,
    log: bool,
    output: str | None,
    junit: str | None,
    worst: int,
    run_name: str | None,
    texts: bool,
    feedback: bool,
    **options: Any,
) -> None:
    """Score the rows of DATA (a JSONL, JSON, CSV, TSV, Parquet or Arrow file, or a folder) and log them to MLflow.

    DATA can also be the traces of an experiment, traces:/EXPERIMENT?since=24h&filter=…, or the
    rows of an earlier run, runs:/RUN, which are scored again (default: with the metrics of that run).

    Each row has a question, an answer, and the fields that the metrics need: contexts, a reference, document ids.
    Common other column names (input, output, ground_truth, retrieved_contexts, …) are recognized. For further
    settings, use a suite.yaml (ragmetrics init writes one). If no row has a reference, the default suite is rag.

    \b
    Examples:
      ragmetrics evaluate answers.jsonl --suite white_paper
      ragmetrics evaluate answers.csv -m faithfulness -m "ndcg(k=5)"
      ragmetrics evaluate answers.csv --columns answer=output,reference=gold
      ragmetrics evaluate answers.jsonl -j openai:/gpt-4o-mini --cache judge.db
      ragmetrics evaluate "traces:/live?since=24h" -m faithfulness --feedback
      ragmetrics evaluate runs:/my-run -j openai:/gpt-4o-mini
      ragmetrics evaluate --results run.tsv --reference gold.tsv --suite retrieval

    \b
    Exit codes:
      0  done, all gates passed
      1  a gate failed, or too few rows were measured
      2  invalid input, or nothing could be scored
      3  no judge answered, or a refused key or a spent budget stopped the
         evaluation; the finished rows are logged
      130  stopped by Ctrl-C, 143 by SIGTERM; the finished rows are written
    """
    limits = {name: options.pop(name) for name in ("fail_under", "fail_over", "min_scored")}
    check_output(output)
    check_writable(junit)
    settings = read_settings(suite) if suite is not None and is_suite_file(suite) else RunSettings()
    if (results or data or "").startswith((TRACES, RUNS)):
        shared.open_store(tracking_uri)
    source = _source(data, results, reference, settings, columns=columns, limit=limit)
    if suite is None and not metric:
        options["default"], source = _default(source, options["language"] or "en")
    chosen_suite = shared.suite_of(suite, metric, **options, **(_keyless(options["judge"]) if dry_run else {}))
    if dry_run:
        print_blocks(chosen_suite.plan(list(source.read())).blocks())
        return
    is_gated = any(limits.values()) or bool(junit)
    check_names(chosen_suite.keys, **limits, ranges=chosen_suite.ranges, better=chosen_suite.better)
    destination = shared.destination_of(tracking_uri, experiment) if log else None
    with OutputFile(output, chosen_suite) as file:
        needs_all = log or settings.by or settings.repeat > 1 or not file.grows
        samples, checked, keep = _samples(source, chosen_suite, None if needs_all else max(1, worst))
        groups = mapped_field(chosen_suite.groups, columns)
        for column in settings.by:
            slices_of(list(samples), column)
        if destination is not None:
            _mark_abandoned(destination, destination.open())
        options = {"checked": checked, "keep": keep, "each": file.add, "repeat": settings.repeat, "groups": groups}
        report, interruption = _evaluated(chosen_suite, samples, **options)
        _check_scored(report, source.path)
        report = replace(report, source=source.path, warnings=(*report.warnings, *source.warnings))
        is_written = file.finish(report)
    show(report, chosen_suite, worst, settings.by)
    if is_written:
        click.echo(f"Wrote {output}")
    if destination is not None:
        slices = slices_file(report, settings.by) if texts and settings.by else {}
        run_id = report.log(run_name=run_name, texts=texts, feedback=feedback, files=slices)
        _show_run(run_id, destination)
    if file.refusal is not None:
        raise file.refusal
    about: dict[str, Any] = {"keys": chosen_suite.keys, "rows": len(report), "incomplete": report.incomplete}
    checks = check_figures(report.metrics, **limits, better=chosen_suite.better, **about) if is_gated else []
    are_reached = report_gates(checks, junit)
    if interruption is not None:
        again = "run the same command again to score all of them"
        click.echo(f"Stopped: {len(report)} of {len(samples)} rows were scored; {again}.", err=True)
        context.exit(stopped_code())
    if report.incomplete is not None:
        click.echo("The evaluation is not complete; see above.", err=True)
        context.exit(NOT_COMPLETE)
    context.exit(0 if are_reached else GATE_NOT_REACHED)


def _keyless(judge: str | Sequence[str] | None) -> dict[str, Any]:
    """A placeholder API key for a dry run, which sends nothing."""
    named = [judge] if isinstance(judge, str) else judge or ()
    return {"api_key": "none"} if any(":/" in name for name in named) else {}


@dataclass(frozen=True)
class _Source:
    """A source of samples that can be read repeatedly, with warnings about a join."""

    path: str
    data: Any
    columns: Mapping[str, str | None] | None
    limit: int | None
    delimiter: str | None = None
    warnings: tuple[str, ...] = ()

    def read(self, remembered: int | None = None) -> Iterator[Sample]:
        """The samples; repeated ids are detected within ``remembered`` rows (default: all)."""
        read = read_samples(self.data, self.columns, remembered=remembered, delimiter=self.delimiter)
        return islice(read, self.limit)


def _source(
    data: str | None, results: str | None, reference: str | None, settings: RunSettings, **reading: Any
) -> _Source:
    """The source of the samples; raises ``InvalidOptionError`` for an invalid combination of files."""
    path = results or data
    if path is None or (data and results) or (results and not reference):
        message = "give one file, as in ragmetrics evaluate FILE, or two to join: --results FILE --reference FILE"
        raise InvalidOptionError(message, param="data")
    if reference is None:
        return _Source(path, path, delimiter=settings.delimiter, **reading)
    joined = join(path, reference, on=settings.on, delimiter=settings.delimiter)
    return _Source(path, joined.rows, warnings=(joined.warning,) if joined.warning else (), **reading)


class _Reread(Collection["Sample"]):
    """The samples of a large file, read again on each iteration; the first one records ids."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._ids = array("q")
        self._is_grouped = False

    def __iter__(self) -> Iterator[Sample]:
        is_first = not self._ids
        for sample in self._source.read(MANY_ROWS):
            if is_first:
                self._ids.append(hash(sample.id))
                self._is_grouped = self._is_grouped or not _GROUPS.isdisjoint(sample.metadata)
            yield sample

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, sample: object) -> bool:
        return any(other == sample for other in self)

    @property
    def needs_all(self) -> bool:
        """Whether samples share an id, or may belong to groups."""
        return self._is_grouped or np.unique(np.array(self._ids)).size < len(self._ids)


def _samples(source: _Source, suite: Suite, keep: int | None) -> tuple[Collection[Sample], Checked, int | None]:
    """The samples, the metrics that apply to them, and the number of scored rows to keep (``None``: all).

    All rows are kept if they are few, or if figures need them: groups, conversations, panels and diagnoses.
    """
    needs_all = suite.groups or suite.several or has_diagnoses(suite.keys) or not os.path.exists(source.path)
    most = None if keep is None or needs_all else MANY_ROWS + 1
    try:
        samples = list(islice(source.read(), most))
        if len(samples) == most:
            again = _Reread(source)
            checked = check_presence(suite.selection, again)
            if not again.needs_all:
                return again, checked, keep
            samples = list(source.read())
        return samples, check_presence(suite.selection, samples), None
    except MissingFieldError as error:
        raise RagMetricsError(f"{source.path}: {error}") from None


def _default(source: _Source, language: str) -> tuple[str | list[str], _Source]:
    """The metrics for these rows, and the source with a warning about them; traces are fetched once."""
    if source.path.startswith(RUNS):
        metrics = results_of(source.path.removeprefix(RUNS)).description.get("metrics")
        if not metrics:
            message = f"{source.path} does not record its metrics; name them with --suite"
            raise InvalidOptionError(message, param="suite")
        return list(metrics), source
    if source.path.startswith(TRACES):
        source = replace(source, data=list(source.read()), columns=None)
    chosen, sentence = default_metrics(source.read(MANY_ROWS))
    warnings = () if sentence is None else (render(sentence, check_language(language)),)
    return chosen, replace(source, warnings=(*warnings, *source.warnings))


def _mark_abandoned(destination: shared.Destination, experiment: str) -> None:
    """Mark the half-written runs of killed processes as failed."""
    from mlflow_ragmetrics.tracking.run import mark_abandoned

    with shared.reaching(destination):
        for run in mark_abandoned(experiment):
            name = clean(run.info.run_name or "")
            message = f"Note: the run {name} ({run.info.run_id}) was left half written by a process that ended"
            click.echo(f"{message}; it is now marked as failed.", err=True)


def _evaluated(suite: Suite, samples: Collection[Sample], **options: Any) -> tuple[Report, KeyboardInterrupt | None]:
    """The report, and the interruption if one occurred; an incomplete report says why it is incomplete."""
    try:
        return suite.evaluate_samples(samples, **options), None
    except (JudgeError, KeyboardInterrupt, MemoryError) as error:
        report: Report | None = getattr(error, "report", None)
        if report is None:
            raise
        if not isinstance(error, KeyboardInterrupt):
            return report, None
        rows = f"Scored rows to write: {len(report)}"
        click.echo(f"Stopping. {rows}. A second Ctrl-C or SIGTERM ends at once.", err=True)
        return report, error


def _check_scored(report: Report, source: str) -> None:
    if report.incomplete is not None or any(report.metrics[f"{key}/n_scored"] for key in report.keys):
        return  # an incomplete evaluation is shown and logged as such
    row = report.rows[0]
    first = next(iter(row.scores.values()))
    named = shown_id(row.sample, row.index)
    place = named if named != row.sample.id else f"sample {named!r}"
    reason = f"{place}: {first.error or first.reason}"
    raise RagMetricsError(f"{source}: nothing could be scored, and nothing was logged; {reason}")


def _show_run(run_id: str, destination: shared.Destination) -> None:
    """Print the run's name and id, and how to view it."""
    import mlflow

    run = mlflow.get_run(run_id)
    name, experiment = clean(run.info.run_name or ""), clean(destination.experiment)
    click.echo(for_terminal(f"MLflow run: {name} ({run_id}) in experiment {experiment}", sys.stdout))
    where = destination.command()
    if destination.is_server:
        where += f"/#/experiments/{run.info.experiment_id}/runs/{run_id}"
    click.echo(f"View it: {click.style(where, bold=True)}")


def slices_file(report: Report, columns: Sequence[str]) -> dict[str, str]:
    """The artifact with the figures of the slices, for each of the ``columns``."""
    frames = [report.by(column).assign(by=column) for column in columns]
    records = [record for frame in frames for record in frame.to_dict("records")]
    return {"rag_slices.json": as_json(plain(records), indent=2)}
