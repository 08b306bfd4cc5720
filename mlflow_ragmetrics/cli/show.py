"""``ragmetrics show``: the rows of a run, and one row with its claims marked in the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from mlflow_ragmetrics.cli.options import files, tracking_uri_option
from mlflow_ragmetrics.cli.output import clean, clean_lines, console, shorten, wrapped
from mlflow_ragmetrics.cli.store import open_store
from mlflow_ragmetrics.core.condition import condition_of
from mlflow_ragmetrics.core.marked import claims_of, marked_text, nearest_sentence
from mlflow_ragmetrics.core.score import verdict_name
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.report.marks import Ranking
from mlflow_ragmetrics.text.messages import counted

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from mlflow_ragmetrics.core.score import Item, Score
    from mlflow_ragmetrics.engine.program import Row
    from mlflow_ragmetrics.rows.results import Results

__all__ = ["command"]

_STYLES = {
    "SUPPORTED": "green",
    "NEUTRAL": "yellow",
    "CONTRADICTED": "red",
    "RELATED": "green",
    "UNRELATED": "yellow",
    "FOUND": "green",
    "NOT_FOUND": "red",
}
_SIGNS = {"SUPPORTED": "✓", "NEUTRAL": "?", "CONTRADICTED": "✗"}
_WIDEST = 120
_NARROWEST_QUESTION = 16
_MOST_PASSAGE = 600
_GAP = 3  # between the columns of a table
_NONE = "–"


@click.command("show")
@click.argument("run", shell_complete=files)
@click.argument("row", required=False)
@click.option("--where", multiple=True, metavar="CONDITION", help='Only rows such as "faithfulness < 0.5"; repeat it.')
@click.option("--diagnosis", metavar="PART", help="Only rows in which this part failed, such as retrieval.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Rows at most.")
@tracking_uri_option
def command(
    run: str, row: str | None, where: tuple[str, ...], diagnosis: str | None, limit: int, tracking_uri: str | None
) -> None:
    """Show the rows of RUN, the worst first, or the row with the id ROW and what is wrong in it.

    RUN is a run's id or name in MLflow, or a file that `ragmetrics evaluate --output` wrote (which has no claims).

    \b
    Examples:
      ragmetrics show my-run
      ragmetrics show my-run --where "faithfulness < 0.5"
      ragmetrics show my-run --diagnosis retrieval
      ragmetrics show my-run rt14373
    """
    from mlflow_ragmetrics.report.diagnosis import causes_line, count_causes
    from mlflow_ragmetrics.rows.results import is_file, results_of, stored_rows

    conditions = [condition_of(each, "where") for each in where]
    if tracking_uri is not None or not is_file(run):
        open_store(tracking_uri)
    results = results_of(run)
    unknown = next((each.name for each in conditions if each.name not in results.keys), None)
    if unknown is not None:
        message = f"--where {unknown!r} is not a metric of {results.name}; there are {', '.join(results.keys)}"
        raise InvalidOptionError(message, param="where")
    diagnoses = results.diagnoses
    if diagnosis is not None:
        _check_diagnosis(diagnosis, results)
    rows = stored_rows(results)
    screen = console()
    width = min(screen.width, _WIDEST)
    if row is not None:
        for line in _row(_found(rows, row, results), width, diagnoses.get(row, ("", ""))):
            screen.print(line, soft_wrap=True)
        return
    chosen = [
        each
        for each in rows
        if all(
            (value := each.scores[c.name].value if c.name in each.scores else None) is not None and c.holds(value)
            for c in conditions
        )
        and diagnosis in (None, diagnoses.get(each.sample.id, ("", ""))[0])
    ]
    ranking = Ranking(results.keys, {key: side for key in results.keys if (side := results.better(key)) is not True})
    ranking = replace(ranking, key=next((each for each in results.composites if _is_scored(rows, each)), None))
    chosen = [chosen[place] for place in ranking.order(chosen)]
    screen.print(_table(chosen[:limit], ranking, width, diagnoses))
    if diagnoses and chosen:
        causes = count_causes(diagnoses[each.sample.id][0] for each in chosen)
        screen.print("\n".join(wrapped(causes_line(causes), width)), style="dim")
    filtered = bool(conditions or diagnosis)
    found = f"{len(chosen)} of {counted(len(rows), 'row')}" if filtered else counted(len(rows), "row")
    number, verb = (f"{limit} ", "are") if limit > 1 else ("", "is")
    shown = f"the {number}{ranking.word} by {ranking.by} {verb} shown (--limit)"
    cut = f", {shown}" if len(chosen) > limit else ""
    screen.print("\n".join(wrapped(f"{found}{cut}. One of them: ragmetrics show {clean(run)} ID", width)), style="dim")


def _check_diagnosis(diagnosis: str, results: Results) -> None:
    from mlflow_ragmetrics.report.diagnosis import CAUSES

    if not results.diagnoses:
        message = f"--diagnosis: {results.name} does not say which part failed; evaluate it with --suite diagnose"
        raise InvalidOptionError(message, param="diagnosis")
    if diagnosis not in CAUSES:
        raise InvalidOptionError(f"--diagnosis {diagnosis!r}: the parts are {', '.join(CAUSES)}", param="diagnosis")


def _is_scored(rows: Sequence[Row], key: str) -> bool:
    return any(key in row.scores and row.scores[key].scored for row in rows)


def _found(rows: list[Row], name: str, results: Results) -> Row:
    by_id = {row.sample.id: row for row in rows}
    if name not in by_id:
        near = get_close_matches(name, by_id, n=1)
        hint = f"; did you mean {clean(near[0])!r}?" if near else ""
        raise InvalidDataError(f"{results.name} has no row {clean(name)!r}{hint}")
    return by_id[name]


def _table(rows: list[Row], ranking: Ranking, width: int, diagnoses: Mapping[str, tuple[str, str]]) -> Table:
    """Id, which part failed where that is known, as many scores as there is room for, and the question.

    Where rows go by the worst of their scores, this one stands first.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    columns: dict[str, list[Text]] = {}
    ids = max([2, *(min(20, len(clean(row.sample.id))) for row in rows)])
    room = width - ids - _NARROWEST_QUESTION - _GAP
    if diagnoses:
        columns["diagnosis"] = [Text(diagnoses[row.sample.id][0]) for row in rows]
        room -= _wide("diagnosis", columns["diagnosis"])
    if ranking.key is None and ranking.keys[1:]:
        title = f"{ranking.word} score"
        columns[title] = [_worst_cell(row, ranking, room - _GAP) for row in rows]
        room -= _wide(title, columns[title])
    keys = sorted(ranking.keys, key=lambda key: key != ranking.key)
    for key in keys:
        cells = [_cell(row.scores.get(key)) for row in rows]
        room -= _wide(key, cells)
        if room < 0 and len(columns) > bool(diagnoses):
            break
        columns[key] = cells
    question = max(_NARROWEST_QUESTION, width - ids - _GAP - sum(_wide(*each) for each in columns.items()))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("id", no_wrap=True)
    for title in columns:
        table.add_column(title, justify="right" if title in keys else "left", no_wrap=True)
    table.add_column("question", no_wrap=True)
    for row, *cells in zip(rows, *columns.values(), strict=True):
        table.add_row(shorten(row.sample.id, ids), *cells, shorten(row.sample.question or "", question))
    return table


def _wide(title: str, cells: Sequence[Text]) -> int:
    return max(6, len(title), *map(len, cells), 0) + _GAP


def _worst_cell(row: Row, ranking: Ranking, room: int) -> Text:
    place = ranking.place(row)
    cell = _cell(None if place is None else row.scores[place[1]])
    return cell if place is None else cell.append(f" {shorten(place[1], max(1, room - len(cell) - 1))}", style="dim")


def _cell(score: Score | None) -> Text:
    from rich.text import Text

    if score is None:
        return Text(_NONE, style="dim")
    if score.value is None:
        return Text(str(score.status), style="red" if score.status == "error" else "dim")
    if not score.measured:
        return Text(f"by rule {score.value:.3f}", style="dim")
    return Text(f"{score.value:.3f}", style="red" if score.passed is False else "")


def _row(row: Row, width: int, diagnosis: tuple[str, str]) -> Iterator[Text]:
    from rich.text import Text

    sample = row.sample
    yield from (
        Text(line, style="bold") for line in wrapped(f"{clean(sample.id)}  {clean(sample.question or '')}", width)
    )
    cause, why = map(clean, diagnosis)
    yield from map(Text, wrapped(f"Diagnosis: {why or cause}" if cause else "", width))
    claims = claims_of(row.scores)
    if sample.answer is not None:
        yield Text("\nAnswer", style="bold")
        yield from _marked(sample.answer, claims, width)
    for claim in claims:
        yield from _claim(claim, row, width)
    yield Text("\nScores", style="bold")
    for key, score in row.scores.items():
        yield from _score(key, score, width)
    if sample.reference:
        yield Text("\nReference", style="bold")
        yield from map(Text, wrapped(clean(sample.reference), width, 2))
    if sample.contexts:
        yield Text("\nPassages", style="bold")
        for number, chunk in enumerate(sample.contexts, 1):
            yield from map(Text, wrapped(f"{number}  {shorten(chunk.text, _MOST_PASSAGE)}", width, 2))


def _marked(answer: str, claims: list[Item], width: int) -> Iterator[Text]:
    """The answer in lines, each claim's part in the colour of its verdict, with the verdict's sign after it."""
    from rich.console import Console
    from rich.text import Text

    text = Text()
    for piece, claim in marked_text(clean_lines(answer), claims):
        style = "" if claim is None else _STYLES[str(claim.verdict)]
        text.append(piece, style=f"{style} underline" if style else "")
        text.append("" if claim is None else f" [{_SIGNS[str(claim.verdict)]}]", style=style)
    for line in text.wrap(Console(width=width), width - 2):
        line.rstrip()
        yield Text.assemble("  ", line)


def _claim(claim: Item, row: Row, width: int) -> Iterator[Text]:
    from rich.text import Text

    if claim.verdict == "SUPPORTED":
        return
    style = _STYLES[str(claim.verdict)]
    head = f"{_SIGNS[str(claim.verdict)]} {verdict_name(str(claim.verdict), claim.against)}: “{clean(claim.text)}”"
    yield from (Text(line, style=style) for line in ["", *wrapped(head, width, 2)])
    if claim.reason:
        yield from map(Text, wrapped(f"why: {clean(claim.reason)}", width, 4))
    nearest = None if claim.against else nearest_sentence(claim.text, row.sample.contexts or ())
    for evidence in claim.evidence or ([nearest] if nearest else []):
        said = "" if claim.evidence else "nearest: "
        place = f"passage {evidence.chunk}: " if evidence.chunk else ""
        yield from map(Text, wrapped(f"{said}{place}“{clean(evidence.quote)}”", width, 4))


def _score(key: str, score: Score, width: int) -> Iterator[Text]:
    from rich.text import Text

    value = str(score.status) if score.value is None else f"{score.value:.3f}"
    scaled = "" if score.scaled is None else f", {score.scaled:.1f} of 5"
    side = "above" if score.higher_is_better is False else "below"
    missed = "" if score.passed is not False else f", {side} its threshold"
    ruled = ", by rule and not measured" if score.scored and not score.measured else ""
    text = f"{key} {value}{scaled}{ruled}{missed}" + (f": {clean(score.reason)}" if score.reason else "")
    bad = score.passed is False or score.status == "error"
    yield from (Text(line, style="red" if bad else "") for line in wrapped(text, width, 2))
