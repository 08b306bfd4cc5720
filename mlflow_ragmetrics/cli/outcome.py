"""What ``ragmetrics evaluate`` shows when it is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mlflow_ragmetrics.cli.figures import composite_lines, figures_table, other_figures
from mlflow_ragmetrics.cli.findings import findings
from mlflow_ragmetrics.cli.terminal import clean, console, wrapped

if TYPE_CHECKING:
    from mlflow_ragmetrics.cli.destination import Destination
    from mlflow_ragmetrics.judges.plan import Plan
    from mlflow_ragmetrics.report import Report
    from mlflow_ragmetrics.suite import Suite

__all__ = ["show", "show_plan", "show_run"]

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
