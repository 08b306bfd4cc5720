"""A report in the terminal: its figures, the worst rows with what is wrong in them, and how far to trust them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mlflow_ragmetrics.cli.output import clean, console, shorten, unbroken, wrapped
from mlflow_ragmetrics.core.marked import nearest_sentence
from mlflow_ragmetrics.core.score import verdict_name
from mlflow_ragmetrics.report.text import measured_figures
from mlflow_ragmetrics.text.messages import counted

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table
    from rich.text import Text

    from mlflow_ragmetrics.core.score import Item
    from mlflow_ragmetrics.engine.program import Row
    from mlflow_ragmetrics.report.report import Report
    from mlflow_ragmetrics.suite import Suite

__all__ = ["figures_table", "show", "slices_table", "worst_rows"]

_WIDEST = 120
_SPELLING = "Embeddings: char-ngram, built in. It compares spelling, not meaning; --embeddings takes a real model."


def show(report: Report, suite: Suite, worst: int, by: Sequence[str] = ()) -> None:
    """Print the figures, those of slices ``by`` columns, the worst rows, and how far to trust the judge."""
    screen = console()
    width = min(screen.width, _WIDEST)
    screen.print()
    screen.print(_title(report), style="bold", soft_wrap=True)
    screen.print()
    screen.print(figures_table(report, width))
    for text, style in _notes(report):
        screen.print("\n".join(wrapped(text, width)), style=style, soft_wrap=True)
    for column in by:
        screen.print()
        screen.print(slices_table(report.by(column), column, width))
    for number, line in enumerate(worst_rows(report, worst, width)):
        screen.print("\n" if number == 0 else "", line, sep="", soft_wrap=True)
    screen.print()
    for text in (*_trust(report, suite), _usage(report)):
        screen.print("\n".join(wrapped(text, width)), soft_wrap=True)


def _notes(report: Report) -> Iterator[tuple[str, str]]:
    """What the table does not say, each with its style."""
    yield from ((clean(line), "dim") for line in report.notes)
    for lines in (_composite_lines, _side_lines, _group_lines, _anytime_lines, _other_figures):
        yield from ((line, "dim") for line in lines(report))
    yield from ((clean(true_score), "") for true_score in report.true_scores)
    yield from ((f"Warning: {clean(warning)}", "yellow") for warning in report.warnings)
    failures = report.failures
    yield from ((clean(line), "red" if line in failures else "yellow") for line in report.banner)


def _title(report: Report) -> str:
    source = f"{clean(report.source)}: " if report.source else ""
    return f"{source}{_row_count(report)}, suite {clean(report.description['suite'])}"


def _trust(report: Report, suite: Suite) -> Iterator[str]:
    asks = {each for metric in suite.metrics for each in metric.definition.asks}
    yield from map(clean, report.judged_by)
    if suite.cache is not None:
        yield f"The judge's answers are kept in {clean(str(suite.cache))} and found again (--cache none: nowhere)."
    if "embeddings" in asks and any(each.name == "char-ngram" for each in suite.embeddings):
        yield _SPELLING


def _usage(report: Report) -> str:
    usage = report.usage
    parts = [f"{_row_count(report)} in {usage['wall_seconds']:.1f} s"]
    counts = {name: number for name, number in usage.items() if name != "wall_seconds" and number}
    parts += [f"{number:,.0f} {name.replace('_', ' ')}" for name, number in counts.items() if name != "cost"]
    parts += [f"{counts['cost']:.4f} dollars"] if "cost" in counts else []
    return " · ".join(parts)


def _row_count(report: Report) -> str:
    return counted(len(report), "row")


_COUNTS = {"scored": "n_scored", "skipped": "n_skipped", "failed": "n_error"}
_NONE = "–"


_DROPPED_FIRST = ("1–5", "passed", "skipped", "failed", "95 % interval")


def figures_table(report: Report, width: int = _WIDEST) -> Table:
    """One line per metric: mean, 95 % interval, 1–5 value, share that passed, and how many rows were scored.

    No cell is cut: what is wider than ``width`` goes without the columns that a reader misses least.
    """
    from rich.console import Console

    figures = measured_figures(report.metrics, report.keys)
    optional = {"1–5": "{}_1to5/mean", "passed": "{}/pass_rate"}
    titles = ["mean", "95 % interval"]
    titles += [title for title, name in optional.items() if any(name.format(key) in figures for key in report.keys)]
    titles += _COUNTS
    table = _figures_table(report, titles)
    for title in _DROPPED_FIRST:
        if Console(width=10_000).measure(table).maximum <= width:
            break
        titles = [each for each in titles if each != title]
        table = _figures_table(report, titles)
    return table


def _figures_table(report: Report, titles: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    figures = measured_figures(report.metrics, report.keys)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("metric", no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for key in report.ranked_keys:
        counts = {title: str(int(figures.get(f"{key}/{count}", 0))) for title, count in _COUNTS.items()}
        cells = {
            "mean": _number(figures, f"{key}/mean"),
            "95 % interval": _interval(figures, key),
            "1–5": _number(figures, f"{key}_1to5/mean", ".1f"),
            "passed": _number(figures, f"{key}/pass_rate", ".0%"),
            **counts,
        }
        is_measured = figures.get(f"{key}/n_measured") == figures.get(f"{key}/n_scored")
        table.add_row(key, *(cells[title] for title in titles), style=_style(list(counts.values()), is_measured))
    return table


_SLICE_FIGURES = ("mean", "ci_low", "ci_high", "p_holm")
_SLICES_DROPPED_FIRST = ("p (Holm)", "rows", "95 % interval")
_LONGEST_SLICE = 40
_SHORTEST_SLICE = 8


def slices_table(slices: pd.DataFrame, column: str, width: int = _WIDEST) -> Table:
    """One line per slice and metric, as ``Report.by`` gives them.

    No figure is cut: what is wider than ``width`` goes without the columns that a reader misses least, then the names
    of the slices are shortened, and last the marks stand below the table.
    """
    from rich.console import Console

    screen = Console(width=10_000)
    titles = ["rows", "mean", "95 % interval", "p (Holm)", "mark"]
    table = _slices_table(slices, column, titles, _LONGEST_SLICE)
    for title in _SLICES_DROPPED_FIRST:
        if screen.measure(table).maximum <= width:
            return table
        titles.remove(title)
        table = _slices_table(slices, column, titles, _LONGEST_SLICE)
    names = max((len(shorten(name, _LONGEST_SLICE)) for name in (*slices["slice"], column)), default=0)
    for shown in (titles, [title for title in titles if title != "mark"]):
        excess = max(0, screen.measure(_slices_table(slices, column, shown, _LONGEST_SLICE)).maximum - width)
        table = _slices_table(slices, column, shown, max(_SHORTEST_SLICE, names - excess))
        if screen.measure(table).maximum <= width:
            break
    if "mark" in shown:
        return table
    marks: dict[str, list[str]] = {}
    for record in slices.to_dict("records"):
        if record["mark"]:
            marks.setdefault(record["mark"], []).append(f"{clean(record['slice'])} ({record['metric']})")
    lines = [line for mark, found in marks.items() for line in wrapped(f"{mark}: {', '.join(found)}", width)]
    table.caption, table.caption_justify, table.caption_style = "\n".join(lines), "left", ""
    return table


def _slices_table(slices: pd.DataFrame, column: str, titles: Sequence[str], longest: int) -> Table:
    import pandas as pd
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for title in (shorten(column, longest), "metric"):
        table.add_column(title, no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=title != "mark")
    for record in slices.to_dict("records"):
        known = {name: record[name] for name in _SLICE_FIGURES if not pd.isna(record[name])}
        cells = {
            "rows": str(record["rows"]),
            "mean": _number(known, "mean"),
            "95 % interval": f"{known['ci_low']:.3f} … {known['ci_high']:.3f}" if "ci_low" in known else _NONE,
            "p (Holm)": _number(known, "p_holm", ".4f"),
            "mark": record["mark"],
        }
        table.add_row(shorten(record["slice"], longest), record["metric"], *(cells[title] for title in titles))
    return table


def _composite_lines(report: Report) -> list[str]:
    """How each composite is made up, and how much of its weight had scores where that is not all."""
    lines = []
    weights: Mapping[str, Mapping[str, float]] = report.description.get("weights", {})
    for key, shares in weights.items():
        total = sum(shares.values())
        named = {name: f"(1 − {name})" if report.better.get(name, True) is False else name for name in shares}
        parts = " + ".join(unbroken(f"{share / total:.3g} {named[name]}") for name, share in shares.items() if share)
        lines.append(f"{key} = {parts}" if total else key)
        coverage = report.metrics.get(f"{key}/coverage", 1.0)
        if coverage < 1.0 and f"{key}/mean" in report.metrics:
            lines.append(f"  on average {coverage:.0%} of these weights had a score; the rest counts in proportion")
    return lines


def _side_lines(report: Report) -> list[str]:
    """Which metrics are better the lower, and which have no better side."""
    words = {False: "lower is better", None: "neither side is better"}
    named = {side: [key for key, each in report.better.items() if each is side] for side in words}
    return [f"{words[side]}: {', '.join(keys)}" for side, keys in named.items() if keys]


def _group_lines(report: Report) -> list[str]:
    """What the groups do to the intervals."""
    figures = report.metrics
    grouped = [key for key in report.keys if f"{key}/n_groups" in figures]
    if not grouped:
        return []
    effects = [
        unbroken(f"{key} {figures[f'{key}/design_effect']:.1f}") for key in grouped if f"{key}/design_effect" in figures
    ]
    number = max(int(figures[f"{key}/n_groups"]) for key in grouped)
    lines = [f"Intervals are those over {number} groups ({clean(report.groups)})"]
    lines[0] += f"; design effects: {', '.join(effects)}" if effects else ""
    few = [key for key in grouped if f"{key}/few_groups" in figures]
    if few:
        of = "" if few == grouped else f" of {', '.join(few)}"
        lines.append(f"few groups: the interval{of} may cover less than 95 %, as fewer than ten groups count")
    return lines


def _anytime_lines(report: Report) -> list[str]:
    """The intervals that stay valid however often one looks."""
    figures = report.metrics
    return [
        f"{key}: {figures[f'{key}/anytime_low']:.3f}–{figures[f'{key}/anytime_high']:.3f} however often one looks, "
        f"over {int(figures[f'{key}/anytime_n'])} {'rows' if report.groups is None else 'groups'} of all looks"
        for key in report.keys
        if f"{key}/anytime_n" in figures
    ]


def _other_figures(report: Report) -> list[str]:
    """Figures of a whole run that are not a metric's mean, such as the share of rows with every document found."""
    names = [name for name in report.metrics if name.startswith("pct_")]
    return [f"{name} = {report.metrics[name]:.1f}" for name in names]


def _number(figures: Mapping[str, float], name: str, form: str = ".3f") -> str:
    return format(figures[name], form) if name in figures else _NONE


def _interval(figures: Mapping[str, float], key: str) -> str:
    low, high = figures.get(f"{key}/ci_low"), figures.get(f"{key}/ci_high")
    return _NONE if low is None or high is None else f"{low:.3f}–{high:.3f}"


def _style(counts: Sequence[str], is_measured: bool) -> str | None:
    scored, _, failed = counts
    if failed != "0":
        return "red"
    return "dim" if scored == "0" else None if is_measured else "yellow"


_SHOWN = 3
_MARKS = {
    "CONTRADICTED": ("✗", "red"),
    "NEUTRAL": ("?", "yellow"),
    "NOT_FOUND": ("✗", "red"),
    "UNRELATED": ("–", "dim"),
}
_INDENT = 4


def worst_rows(report: Report, count: int, width: int) -> Iterator[Text]:
    """The ``count`` worst rows, as lines for a terminal of ``width`` columns."""
    from rich.text import Text

    worst = report.worst_rows(count)
    if not worst:
        return
    by = report.ranking.by
    reasons = {id(row): each.reason for row, each in zip(report.rows, report.diagnoses, strict=False)}
    number = f"{len(worst)} " if len(worst) > 1 else ""
    yield Text(f"The {number}{report.ranking.word} by {by}", style="bold")
    for row in worst:
        key, lowest = report.lowest(row) or ("", 0.0)
        yield Text()
        yield _heading(row, f"{lowest:.3f}" if key == by else f"{key} {lowest:.3f}", width)
        if id(row) in reasons:
            yield from _indented(clean(reasons[id(row)]), width)
            why = row.scores[key].reason if key != by and key in row.scores else ""
            yield from _indented(shorten(f"{key}: {why}" if why else "", 2 * (width - _INDENT) - 4), width)
        yield from _components(row, key, width)
        yield from _faults(row, key, width)


def _heading(row: Row, value: str, width: int) -> Text:
    from rich.text import Text

    name = shorten(row.sample.id, 24)
    question = shorten(row.sample.question or "", width - len(name) - len(value) - 4)
    return Text.assemble((value, "bold"), "  ", (name, "cyan"), "  ", question)


def _components(row: Row, key: str, width: int) -> Iterator[Text]:
    scored = {name: score for name, score in row.scores.items() if name != key and score.value is not None}
    others = [
        unbroken(f"{name} {score.value:.2f}{'' if score.measured else ' by rule'}") for name, score in scored.items()
    ]
    if others:
        yield from _indented(" · ".join(others), width, "dim")
    if not others or not (row.scores[key].details.get("weights") or list(_items(row, key))):
        yield from _indented(clean(row.scores[key].reason), width, "dim")


def _faults(row: Row, key: str, width: int) -> Iterator[Text]:
    from rich.text import Text

    faults = list(_items(row, key))
    answer = shorten(row.sample.answer or "", width - _INDENT - 10)
    if not faults and answer:
        yield from _indented(f"answer: {answer}", width)
    for item in faults[:_SHOWN]:
        mark, style = _MARKS[str(item.verdict)]
        what = clean(item.reason) if item.kind == "document" else verdict_name(str(item.verdict), item.against)
        head = f"{mark} {what}  "
        room = 2 * (width - _INDENT) - len(head) - 2
        yield from _indented(f"{head}“{shorten(item.text, room)}”", width, style)
        if item.reason and item.kind != "document":
            yield from _indented(f"why: {clean(item.reason)}", width, indent=_INDENT + 2)
        yield from _nearest(item, row, width)
    if len(faults) > _SHOWN:
        yield Text(" " * _INDENT + f"… and {len(faults) - _SHOWN} more", style="dim")


def _nearest(item: Item, row: Row, width: int) -> Iterator[Text]:
    """The judge's own evidence, else for a claim the passage's sentence that shares most words with it."""
    given = next(iter(item.evidence), None)
    is_claim = item.kind in ("claim", "sentence") and not item.against
    if given is None and is_claim and row.sample.contexts:
        given = nearest_sentence(item.text, row.sample.contexts)
    if given is None:
        return
    place = f"passage {given.chunk}" if given.chunk else ""
    place += f" ({shorten(given.id, 24)})" if given.id else ""
    quote = f"“{shorten(given.quote, 2 * width - 60)}”" if given.quote else ""
    yield from _indented(f"nearest: {': '.join(filter(None, (place, quote)))}", width, indent=_INDENT + 2)


def _items(row: Row, key: str) -> Iterator[Item]:
    """Claims first, contradicted ones before the rest; what several metrics say of a text once."""
    found: dict[tuple[str, str], Item] = {}
    for name, score in row.scores.items():
        for item in score.items if name != key or len(row.scores) == 1 else ():
            if item.verdict in _MARKS and (item.kind != "chunk" or len(row.scores) == 1):
                found.setdefault((item.text, str(item.verdict)), item)
    order = {kind: number for number, kind in enumerate(("claim", "sentence", "document", "chunk", "token"))}
    missed = set(row.sample.gold_doc_ids or ())  # matter more than documents that were not needed
    yield from sorted(
        found.values(),
        key=lambda item: (order[item.kind], list(_MARKS).index(str(item.verdict)), item.text not in missed),
    )


def _indented(text: str, width: int, style: str = "", indent: int = _INDENT) -> Iterator[Text]:
    from rich.text import Text

    yield from (Text(line, style=style) for line in wrapped(text, width, indent))
