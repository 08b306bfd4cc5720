"""``ragmetrics show``: the rows of a run, or one row with its claims marked in the answer."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from mlflow_ragmetrics.cli.output import print_blocks
from mlflow_ragmetrics.cli.shared_options import default_option, results_at, tracking_uri_option
from mlflow_ragmetrics.core.options import meant
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.display.document import Cell, Line, Styled, Table, shorten
from mlflow_ragmetrics.display.marked import row_blocks
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.gates import Condition, condition_of
from mlflow_ragmetrics.results.marks import Ranking, causes_line, count_causes
from mlflow_ragmetrics.text.messages import counted

_LONGEST_ID = 20
_LONGEST_QUESTION = 100


@click.command("show")
@click.argument("run", type=click.Path())
@click.argument("row", required=False)
@click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help='Only rows that meet this, such as "faithfulness < 0.5"; repeatable.',
)
@default_option("--limit", type=click.IntRange(min=1), default=20, metavar="N", help="Maximum number of rows.")
@tracking_uri_option
def command(run: str, row: str | None, where: tuple[str, ...], limit: int, tracking_uri: str | None) -> None:
    """Show the rows of RUN, the worst first, or the row with the id ROW and its faults.

    RUN is a run's id or name in MLflow, or a file written by `ragmetrics evaluate --output` (which has no claims).

    \b
    Examples:
      ragmetrics show my-run
      ragmetrics show my-run --where "faithfulness < 0.5"
      ragmetrics show my-run rt14373
    """
    conditions = [condition_of(text, "where") for text in where]
    results = results_at(run, tracking_uri)
    unknown = next((condition.name for condition in conditions if condition.name not in results.keys), None)
    if unknown is not None:
        message = f"--where {unknown!r} is not a metric of {results.name}; use one of {', '.join(results.keys)}"
        raise InvalidOptionError(message, param="where")
    rows = results.rows
    diagnoses = {row.sample.id: diagnosis for row, diagnosis in zip(rows, results.diagnoses, strict=False)}
    if row is not None:
        shown_row = _found(rows, row, results)
        own = diagnoses.get(row)
        print_blocks(row_blocks(shown_row.sample, shown_row.scores, "" if own is None else own.reason or own.cause))
        return
    chosen = [row_of_run for row_of_run in rows if all(_holds(condition, row_of_run) for condition in conditions)]
    ranking = results.totals.ranking
    chosen = [chosen[place] for place in ranking.order(chosen)]
    causes = [diagnoses[row_of_run.sample.id].cause for row_of_run in chosen] if diagnoses else []
    all_rows = counted(len(rows), "row")
    count = f"{len(chosen)} of {all_rows}" if conditions else all_rows
    worst, verb = (f"{limit} worst rows", "are") if limit > 1 else ("worst row", "is")
    cut = f", the {worst} by {ranking.by} {verb} shown (--limit)" if len(chosen) > limit else ""
    lines = [str(causes_line(count_causes(causes)))] if causes else []
    lines.append(f"{count}{cut}. One of them: ragmetrics show {shlex.quote(run)} ID")
    table = _table(chosen[:limit], ranking, causes)
    print_blocks([table, *(Line(line, "faint") for line in lines)])


def _holds(condition: Condition, row: Row) -> bool:
    score = row.scores.get(condition.name)
    return score is not None and score.value is not None and condition.holds(score.value)


def _found(rows: Sequence[Row], name: str, results: Evaluation) -> Row:
    by_id = {f"row {number}": row for number, row in enumerate(rows, 1)} | {row.sample.id: row for row in rows}
    if name not in by_id:
        raise InvalidDataError(f"{results.name} has no row {name!r}{meant(name, by_id)}")
    return by_id[name]


def _table(rows: Sequence[Row], ranking: Ranking, causes: Sequence[str]) -> Table:
    """Id, diagnosis (if any), scores, and question; the worst score comes first if the rows are sorted by it."""
    columns: dict[str, Sequence[Cell]] = {"id": [shorten(row.sample.id, _LONGEST_ID) for row in rows]}
    if causes:
        columns["diagnosis"] = causes[: len(rows)]
    if ranking.composite is None and ranking.keys[1:]:
        columns[f"{ranking.word} score"] = [_worst_cell(row, ranking) for row in rows]
    texts = list(columns)
    columns |= {key: [_cell(row.scores.get(key)) for row in rows] for key in ranking.keys}
    columns["question"] = [shorten(row.sample.question or "", _LONGEST_QUESTION) for row in rows]
    kept = texts if texts[-1].endswith("score") else [*texts, ranking.keys[0]]  # keep at least one score
    droppable = [key for key in reversed(ranking.keys) if key not in kept]
    return Table(columns, left=[*texts, "question"], droppable=[*droppable], flexible="question")


def _worst_cell(row: Row, ranking: Ranking) -> Cell:
    place = ranking.place(row)
    if place is None:
        return "–"
    cell = _cell(row.scores[place[1]])
    return Styled(f"{cell.text} {place[1]}", cell.style)


def _cell(score: Score | None) -> Styled:
    if score is None:
        return Styled("–", "faint")
    if score.value is None:
        return Styled(str(score.status), "bad" if score.status == "error" else "faint")
    if not score.measured:
        return Styled(f"by rule {score.value:.3f}", "faint")
    return Styled(f"{score.value:.3f}", "bad" if score.passed is False else "")
