"""``ragmetrics evaluate``: a file in, a run in MLflow and a table in the terminal out."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.cli import exit_code_of, say_stopping
from mlflow_ragmetrics.cli.output import (
    GATE_NOT_REACHED,
    NOT_COMPLETE,
    check_output,
    check_writable,
    clean,
    console,
    report_gates,
    wrapped,
    write_report,
)
from mlflow_ragmetrics.cli.request import CACHE, Request, Sectioned, request_options
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError, MissingFieldError, RagMetricsError
from mlflow_ragmetrics.report.gates import check_figures, check_names
from mlflow_ragmetrics.report.junit import row_cases
from mlflow_ragmetrics.report.slices import slices_file
from mlflow_ragmetrics.rows.groups import sample_groups, sample_slices
from mlflow_ragmetrics.rows.trace_search import SCHEME

if TYPE_CHECKING:
    from mlflow_ragmetrics.cli.store import Destination
    from mlflow_ragmetrics.core.sample import Sample
    from mlflow_ragmetrics.judges.chat.plan import Plan
    from mlflow_ragmetrics.report.report import Report
    from mlflow_ragmetrics.selection import Selection
    from mlflow_ragmetrics.suite import Suite

__all__ = ["Rows", "asks_model", "command", "evaluated", "rows_of", "say_stopped", "show_plan", "suite_of"]

_DEFAULT = "white_paper"


@click.command("evaluate", cls=Sectioned)
@request_options
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Score the rows of DATA (JSONL, JSON, CSV, TSV, Parquet or Arrow, or a folder of them) and log them to MLflow.

    DATA may also be traces of an experiment: traces:/EXPERIMENT?since=24h&filter=…&sample=0.1&limit=100.

    Each row has a question, an answer, and what the metrics need beside: contexts, a reference, document ids. Other
    column names of the ecosystem (input, output, ground_truth, retrieved_contexts, …) are understood.

    \b
    Examples:
      ragmetrics evaluate answers.jsonl --suite white_paper
      ragmetrics evaluate answers.csv -m faithfulness -m "ndcg(k=5)"
      ragmetrics evaluate answers.csv --columns answer=output,reference=gold
      ragmetrics evaluate answers.jsonl -j openai:/gpt-4o-mini --cache judge.db
      ragmetrics evaluate "traces:/live?since=24h" -m faithfulness --feedback
      ragmetrics evaluate --results run.tsv --reference gold.tsv --suite retrieval

    \b
    Exit codes:
      0  done, and all gates reached
      1  a gate not reached, also because too few rows were measured
      2  a mistake in what was given, or nothing could be scored
      3  no judge answered, or a refused key or a spent budget ended it;
         what was done is logged
      130  stopped by Ctrl-C, 143 by SIGTERM; what was scored is written
    """
    context.exit(_exit_code(Request(**options)))


def _exit_code(request: Request) -> int:
    """Do everything that was asked for; a judge that did not answer beats a gate."""
    from mlflow_ragmetrics.cli.report import show
    from mlflow_ragmetrics.cli.store import destination_of
    from mlflow_ragmetrics.cli.streaming import streamed_report, survey_of

    check_output(request.output)
    suite = suite_of(request)
    if request.dry_run:
        show_plan(suite.plan(rows_of(request).samples))
        return 0
    check_writable(request.junit, request.json_file)
    limits = request.fail_under or {}, request.min_scored
    check_names(suite.keys, *limits, suite.ranges, fail_over=request.fail_over, better=suite.better)
    destination = destination_of(request.tracking_uri, request.experiment) if request.log else None
    survey = None if request.log else survey_of(request, suite)  # a run's tables need all rows
    unwritten: RagMetricsError | None = None
    if survey is not None:
        total = survey.rows
        report, interruption, unwritten = streamed_report(request, suite, survey)
        _check_scored(report, str(request.data))
    else:
        rows = rows_of(request)
        total = len(rows.samples)
        report, interruption = _report(request, rows, suite, destination)
    written = request.output if survey is not None and unwritten is None else None
    try:
        if request.output and survey is None:
            unwritten = write_report(report, request.output, keep_formulas=request.keep_formulas)
            written = request.output if unwritten is None else None
        show(report, suite, request.worst, request.by)
        if written:
            click.echo(f"Wrote {written}")
        if destination is not None:
            _show_run(
                report.log(
                    run_name=request.run_name,
                    texts=request.texts,
                    feedback=request.feedback,
                    files=slices_file(report, request.by) if request.texts else None,
                ),
                destination,
            )
    except MemoryError:
        raise RagMetricsError(_memory_ran_out(len(report), total, written)) from None
    if unwritten is not None:
        raise unwritten
    incomplete = report.incomplete
    checks = check_figures(
        report.metrics,
        *limits,
        fail_over=request.fail_over,
        better=suite.better,
        keys=suite.keys,
        rows=len(report),
        incomplete=incomplete,
    )
    cases = row_cases(report.rows, checks, request.fail_under, request.fail_over) if request.junit else []
    are_reached = report_gates(checks, request.junit, request.json_file, {"rows": cases})
    if interruption is not None:
        say_stopped(report, total, suite, output=request.output, is_logged=destination is not None)
        return exit_code_of(interruption)
    if incomplete is not None:
        click.echo("The evaluation is not complete, as said above.", err=True)
        return NOT_COMPLETE
    return 0 if are_reached else GATE_NOT_REACHED


def _report(
    request: Request, rows: Rows, suite: Suite, destination: Destination | None
) -> tuple[Report, KeyboardInterrupt | None]:
    """Everything that a user can get wrong is checked before the store is touched, and the store before scoring."""
    rows.check(suite.selection)
    groups = {name: field for field, name in (request.columns or {}).items()}.get(suite.groups or "", suite.groups)
    if groups is not None:
        sample_groups(rows.samples, groups)
    for column in request.by:
        sample_slices(rows.samples, column)
    for key, labels in (request.true_score or {}).items():
        check_names(suite.keys, {key: 0.0})
        if not os.path.isfile(labels):
            sample_slices(rows.samples, labels, param="true_score")
    if request.anytime and destination is None:
        message = "--anytime goes on from the last run and leaves its state in this one; it needs --log"
        raise InvalidOptionError(message, param="anytime")
    if destination is not None:
        _mark_abandoned(destination, destination.open())
    report, interruption = evaluated(
        suite, rows.samples, progress=request.progress, repeat=request.repeat, groups=groups
    )
    _check_scored(report, rows.source)
    try:
        report = _extended(report, request)
    except RagMetricsError as error:
        if report.incomplete is None:
            raise
        report = replace(report, warnings=(*report.warnings, str(error)))  # of the rows that are done none has it
    return replace(report, source=rows.source, warnings=(*report.warnings, *rows.warnings)), interruption


def _extended(report: Report, request: Request) -> Report:
    """The report with what was asked for beside the scores."""
    for key, labels in (request.true_score or {}).items():
        found = report.true_score(key, labels)
        click.echo(clean(found))
        report = replace(report, figures={**report.figures, **found.metrics})
    return report


def _mark_abandoned(destination: Destination, experiment: str) -> None:
    """Runs that a process left half written when it was killed do not stay at "writing"."""
    from mlflow_ragmetrics.cli.store import reaching
    from mlflow_ragmetrics.tracking.run import mark_abandoned

    with reaching(destination):
        for run in mark_abandoned(experiment):
            name = clean(run.info.run_name or "")
            message = f"Note: the run {name} ({run.info.run_id}) was left half written by a process that was ended"
            click.echo(f"{message}; it is marked as failed.", err=True)


def evaluated(suite: Suite, samples: Sequence[Sample], **options: Any) -> tuple[Report, KeyboardInterrupt | None]:
    """The report, also where the judges gave out on the way or Ctrl-C or SIGTERM came: then it says so."""
    try:
        return suite.evaluate(samples, **options), None
    except (JudgeError, KeyboardInterrupt, MemoryError) as error:
        report: Report | None = getattr(error, "report", None)
        if report is None:
            raise
        if not isinstance(error, KeyboardInterrupt):
            return report, None
        say_stopping(len(report))
        return report, error


def _memory_ran_out(scored: int, total: int, output: str | None) -> str:
    written = f"they are in {output}, and nothing else was written" if output else "nothing was written"
    way = "--no-log with --output FILE.parquet keeps no rows in memory"
    return f"memory ran out when {scored} of {total} rows were scored; {written}; {way}"


def say_stopped(report: Report, rows: int, suite: Suite, *, output: str | None = None, is_logged: bool) -> None:
    """What was scored before a signal, where it is, and how to go on."""
    places = [
        *([output] if output else []),
        *(["the MLflow run, which says that it is incomplete"] if is_logged else []),
    ]
    where = f"they are in {' and in '.join(places)}" if places else "they are shown above"
    kept = "to go on (the cache has the judge's answers)" if suite.cache is not None else "to score all of them"
    click.echo(
        f"Stopped: {len(report)} of {rows} rows were scored; {where}; run the same command again {kept}.", err=True
    )


def _check_scored(report: Report, source: str) -> None:
    if report.incomplete is not None or any(score.scored for row in report.rows for score in row.scores.values()):
        return  # what a judge left undone is shown and logged as such
    if any(report.metrics[f"{key}/n_scored"] for key in report.keys):
        return  # rows that went by
    row = report.rows[0]
    first = next(iter(row.scores.values()))
    reason = f"of sample {row.sample.id!r} the result says: {first.error or first.reason}"
    raise RagMetricsError(f"{source}: nothing could be scored, and nothing was logged; {reason}")


def suite_of(request: Request) -> Suite:
    """The suite of a preset or a YAML file, with further metrics, or of metrics alone.

    A metric that was named takes the place of the preset's metric of the same key. The answers of language models
    are cached in the current folder unless another place, or none, was given.
    """
    from mlflow_ragmetrics.judges.chat.options import JudgeOptions
    from mlflow_ragmetrics.selection import PRESETS
    from mlflow_ragmetrics.suite import Suite

    taken = {*inspect.signature(Suite).parameters, *JudgeOptions.model_fields}
    # only what was given, so that a file's settings stand where the command line is silent
    options = {name: value for name, value in vars(request).items() if name in taken and value is not None}
    if request.no_cache:
        options["cache"] = None
    if request.dry_run and asks_model(request.judge):
        options["api_key"] = "none"  # nothing is sent, so that no key is needed to learn the price of one
    if request.metric and request.suite in PRESETS:
        suite = Suite.preset(request.suite, also=request.metric, **options)
    else:
        options |= {"metrics": request.metric} if request.metric else {}
        suite = Suite.of(request.suite or _DEFAULT, **options)
    if suite.cache is None and not request.no_cache and any(judge.usage is not None for judge in suite.judges):
        return suite.replace(cache=CACHE)
    return suite


def asks_model(judge: str | Sequence[str] | None) -> bool:
    """Whether a judge that was given is a model's URI."""
    return any(":/" in name for name in ([judge] if isinstance(judge, str) else judge or ()))


@dataclass(frozen=True)
class Rows:
    """Samples, the file they come from, and what did not match when two files were joined."""

    samples: Sequence[Sample]
    source: str
    warnings: tuple[str, ...] = ()

    def check(self, selection: Selection) -> None:
        """``RagMetricsError`` naming the file where every row lacks what a named metric, or a whole preset, needs."""
        from mlflow_ragmetrics.selection import check_presence

        try:
            check_presence(selection, self.samples)
        except MissingFieldError as error:
            raise RagMetricsError(f"{self.source}: {error}") from None


def rows_of(request: Request) -> Rows:
    """The rows, at most ``limit``; ``InvalidOptionError`` where files are given in a way that means nothing."""
    from mlflow_ragmetrics.rows import join, read_samples

    results = request.results or request.data
    if results is None or (request.data and request.results) or (request.results and not request.reference):
        message = "give one file, as in ragmetrics evaluate FILE, or two to be joined: --results FILE --reference FILE"
        raise InvalidOptionError(message, param="data")
    if results.startswith(SCHEME):
        from mlflow_ragmetrics.cli.store import open_store

        open_store(request.tracking_uri)
    if request.reference is None:
        read = read_samples(results, request.columns, delimiter=request.delimiter)
        return Rows(list(islice(read, request.limit)), results)
    joined = join(results, request.reference, on=request.on, delimiter=request.delimiter)
    samples = list(islice(read_samples(joined.rows, request.columns), request.limit))
    return Rows(samples, results, (joined.warning,) if joined.warning else ())


def show_plan(plans: Mapping[str, Plan]) -> None:
    """Print what an evaluation would cost each language model."""
    screen = console()
    if not plans:
        screen.print("No language model is asked: nothing is sent, and it costs nothing.")
    for name, plan in plans.items():
        most = plan.most or plan
        prompts = _range(plan.prompt_tokens, most.prompt_tokens + most.schema_tokens)
        tokens = f"{prompts} prompt and {_range(plan.completion_tokens, most.completion_tokens)} reply tokens"
        cost = "its price is not known: give it with --prices"
        if plan.cost is not None and most.cost is not None:
            cost = f"${plan.cost:.4g} to ${most.cost:.4g}"
        calls = f"{_range(plan.calls, most.calls)} calls, {tokens}, {cost}"
        line = f"{clean(name)}: {calls} (one to three claims a sentence). Nothing was sent."
        screen.print("\n".join(wrapped(line, screen.width)), soft_wrap=True)


def _range(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _show_run(run_id: str, destination: Destination) -> None:
    """Print the run's name and id, and how to look at it."""
    import mlflow

    run = mlflow.get_run(run_id)
    screen = console()
    name = clean(run.info.run_name or "")
    screen.print(f"MLflow run: {name} ({run_id}) in experiment {clean(destination.experiment)}", soft_wrap=True)
    where = destination.command()
    if destination.is_server:
        where += f"/#/experiments/{run.info.experiment_id}/runs/{run_id}"
    screen.print("Look at it: ", end="")
    screen.print(where, style="bold", soft_wrap=True)
