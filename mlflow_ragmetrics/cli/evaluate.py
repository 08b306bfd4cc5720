"""``ragmetrics evaluate``: a file in, a run in MLflow and a table in the terminal out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.cli.findings import findings
from mlflow_ragmetrics.cli.options import numbers_of
from mlflow_ragmetrics.cli.output import (
    GATE_NOT_REACHED,
    check_writable,
    clean,
    composite_lines,
    console,
    figures_table,
    other_figures,
    tell,
    wrapped,
)
from mlflow_ragmetrics.cli.request import Request, Sectioned, asked
from mlflow_ragmetrics.errors import JudgeError, RagMetricsError
from mlflow_ragmetrics.report.gates import check_figures, check_names

if TYPE_CHECKING:
    from mlflow_ragmetrics.cli.request import Rows
    from mlflow_ragmetrics.cli.store import Destination
    from mlflow_ragmetrics.core.sample import Sample
    from mlflow_ragmetrics.judges.chat.plan import Plan
    from mlflow_ragmetrics.report.report import Report
    from mlflow_ragmetrics.suite import Suite

__all__ = ["show", "show_plan", "show_run", "command"]

_WIDEST = 120
_LEXICAL = (
    "Judge: lexical, offline. It compares words and numbers and understands no paraphrase: read its verdicts as hints "
    "where to look. For figures to rely on, give a language model: --judge openai:/gpt-4o-mini"
)
_MODEL = "Judge: {names}. Its verdicts are a model's opinion: compare a sample with people's before you rely on them."
_SPELLING = "Embeddings: char-ngram, built in. It compares spelling, not meaning; --embeddings takes a real model."


def show(report: Report, suite: Suite, worst: int) -> None:
    """Print the figures, the worst rows, and how far to trust the judge."""
    screen = console()
    width = min(screen.width, _WIDEST)
    screen.print()
    screen.print(_title(report), style="bold", soft_wrap=True)
    screen.print()
    screen.print(figures_table(report))
    for text, style in _notes(report):
        for line in wrapped(text, width):
            screen.print(line, style=style, soft_wrap=True)
    for number, finding in enumerate(findings(report, worst, width)):
        screen.print("\n" if number == 0 else "", finding, sep="", soft_wrap=True)
    screen.print()
    for text in (*_trust(suite), _usage(report)):
        screen.print("\n".join(wrapped(text, width)), soft_wrap=True)


def show_plan(plans: Mapping[str, Plan]) -> None:
    """Print what an evaluation would cost each language model."""
    screen = console()
    if not plans:
        screen.print("No language model is asked: nothing is sent, and it costs nothing.")
    for name, plan in plans.items():
        tokens = f"{plan.prompt_tokens + plan.schema_tokens:,} prompt and {plan.completion_tokens:,} reply tokens"
        cost = f", ${plan.cost:.2f}" if plan.cost is not None else ""
        screen.print(f"{clean(name)}: at most {plan.calls:,} calls, about {tokens}{cost}. Nothing was sent.")


def _notes(report: Report) -> Iterator[tuple[str, str]]:
    """What the table does not say, each with its style."""
    yield from ((line, "dim") for line in (*composite_lines(report), *other_figures(report)))
    yield from ((f"Warning: {clean(warning)}", "yellow") for warning in report.warnings)
    for key in report.keys:
        errors = [score.error for score in report.scores(key) if score.error]
        if errors:
            yield f"{key} failed on {len(errors)} rows; the first: {clean(errors[0])}", "red"


def show_run(run_id: str, destination: Destination) -> None:
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


def _title(report: Report) -> str:
    source = f"{clean(report.source)}: " if report.source else ""
    return f"{source}{_rows(report)}, suite {clean(report.description['suite'])}"


def _trust(suite: Suite) -> Iterator[str]:
    asks = {each for metric in suite.metrics for each in metric.definition.asks}
    names = [judge.name for judge in suite.judges]
    if "judge" in asks:
        yield _LEXICAL if names == ["lexical"] else _MODEL.format(names=", ".join(map(clean, names)))
    if suite.cache is not None:
        yield f"The judge's answers are kept in {clean(str(suite.cache))} and found again there (--no-cache: nowhere)."
    if "embeddings" in asks and any(each.name == "char-ngram" for each in suite.embeddings):
        yield _SPELLING


def _usage(report: Report) -> str:
    usage = report.usage
    parts = [f"{_rows(report)} in {usage['wall_seconds']:.1f} s"]
    counts = {name: number for name, number in usage.items() if name != "wall_seconds" and number}
    parts += [f"{number:,.0f} {name.replace('_', ' ')}" for name, number in counts.items() if name != "cost"]
    parts += [f"{counts['cost']:.4f} dollars"] if "cost" in counts else []
    return " · ".join(parts)


def _rows(report: Report) -> str:
    return "1 row" if len(report) == 1 else f"{len(report)} rows"


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
    from mlflow_ragmetrics.cli.evaluate import show, show_plan, show_run
    from mlflow_ragmetrics.cli.output import check_output, write_report
    from mlflow_ragmetrics.cli.request import rows_of
    from mlflow_ragmetrics.cli.store import destination_of
    from mlflow_ragmetrics.cli.suites import suite_of

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
    rows.check(suite.selection)
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
