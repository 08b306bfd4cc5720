"""Figures, tables and reasons as plain text and as Markdown: for terminals, notebooks, logs and MLflow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import StringIO

from mlflow_ragmetrics.core.json_text import plain_text
from mlflow_ragmetrics.core.score import Item, Score, verdict_name
from mlflow_ragmetrics.engine.program import Row

__all__ = [
    "SUMMARY_HEAD",
    "escaped",
    "measured_figures",
    "number",
    "rationale",
    "signed",
    "summary_note",
    "text_table",
]


def number(value: float | None, digits: int = 3) -> str:
    """A figure, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def signed(value: float | None) -> str:
    """A difference with its sign, or a dash where there is none."""
    return "–" if value is None else f"{value:+.3f}"


_OF_VALUES = ("mean", "ci_low", "ci_high", "pass_rate")


def measured_figures(figures: Mapping[str, float], keys: Sequence[str]) -> dict[str, float]:
    """``figures`` without the means of ``keys`` whose scores all come of a rule: nothing was measured there.

    >>> measured_figures({"a/mean": 1.0, "a/n_scored": 2.0, "a/n_measured": 0.0}, ["a"])
    {'a/n_scored': 2.0, 'a/n_measured': 0.0}
    """
    ruled = [key for key in keys if figures.get(f"{key}/n_scored") and figures.get(f"{key}/n_measured") == 0]
    left_out = {f"{key}{scale}/{name}" for key in ruled for scale in ("", "_1to5") for name in _OF_VALUES}
    return {name: value for name, value in figures.items() if name not in left_out}


def text_table(
    columns: Mapping[str, Sequence[str]], width: int | None = None, *, left: Sequence[str], droppable: Sequence[str]
) -> str:
    """A table of ``columns``, each a heading with its cells; those in ``left`` are aligned left, others right.

    Where it is wider than ``width``, the ``droppable`` columns go one by one, the first first, until it fits. Cells are
    never cut.

    >>> columns = {"metric": ["rouge", "coherence"], "mean": ["0.412", "0.9"], "rows": ["60", "7"]}
    >>> print(text_table(columns, 20, left=["metric"], droppable=["rows"]))
    metric      mean
    ────────────────
    rouge      0.412
    coherence    0.9
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(file=StringIO(), width=10_000, color_system=None, force_jupyter=False, markup=False, emoji=False)

    def table_without(dropped: Sequence[str]) -> Table:
        shown = {name: cells for name, cells in columns.items() if name not in dropped}
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for name in shown:
            table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
        for row in zip(*shown.values(), strict=True):
            table.add_row(*row)
        return table

    table = table_without(())
    for count in range(1, len(droppable) + 1):
        if width is None or console.measure(table).maximum <= width:
            break
        table = table_without(droppable[:count])
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


SUMMARY_HEAD = "| metric | mean | 95 % interval | scored |"
_MARKUP = re.compile(r"([\\`*\[\]<|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|^[-+#>=]|(?<=^\d)[.)])")
_LINKED = re.compile(r"(://|www\.|@)", re.IGNORECASE)  # what renderers turn into links even where it is escaped
_FAILED = {"CONTRADICTED": 0, "NEUTRAL": 1, "UNRELATED": 2, "NOT_FOUND": 3}
_ITEMS_SHOWN = 30
_LONGEST = 600
_LONGEST_CELL = 240


def escaped(text: str, longest: int = _LONGEST) -> str:
    """``text`` on one line, at most ``longest`` characters of it, as Markdown shows it literally and links nothing.

    >>> print(escaped("**bold** <b> snake_case [a](b)"))
    \\*\\*bold\\*\\* \\<b> snake_case \\[a\\](b)
    """
    line = " ".join(plain_text(text).split())
    line = line if len(line) <= longest else line[: longest - 1] + "…"
    return _LINKED.sub(lambda found: f"{found[0][0]}\u2060{found[0][1:]}", _MARKUP.sub(r"\\\1", line))


def rationale(score: Score) -> str:
    """The reason, then each claim, sentence, chunk or document that failed: its verdict, text, reason and quotes.

    Contradicted ones stand first. Words that were not found are named by the reason only: there are too many.
    """
    failed = [item for item in score.items if item.text and item.verdict in _FAILED and item.kind != "token"]
    failed.sort(key=lambda item: _FAILED[str(item.verdict)])
    shown = [_failed_item(item) for item in failed[:_ITEMS_SHOWN]]
    more = [f"- … {len(failed) - _ITEMS_SHOWN} more"] if len(failed) > _ITEMS_SHOWN else []
    return "\n".join([escaped(score.reason, 4 * _LONGEST), *([""] if shown else []), *shown, *more])


def _failed_item(item: Item) -> str:
    whose = f" ({escaped(item.judge)})" if item.judge else ""
    lines = [f"- **{verdict_name(str(item.verdict), item.against)}**{whose}: {escaped(item.text)}"]
    if item.reason:
        lines.append(f"  *{escaped(item.reason)}*")
    for each in item.evidence:
        place = " ".join(filter(None, [f"\\[{each.chunk}\\]" if each.chunk else "", escaped(each.id or "")]))
        lines.append(f"  > {place} “{escaped(each.quote)}”" if place else f"  > “{escaped(each.quote)}”")
    return "\n\n".join(lines)


def summary_note(
    keys: Sequence[str],
    metrics: Mapping[str, float],
    rows: int,
    worst: Sequence[tuple[Row, str, float]],
    *,
    worst_by: str,
    banner: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """A run's description: each metric's mean with its interval, then the worst rows, each with its metric and value.

    ``banner`` are lines that must be read with the figures, ``notes`` what the table does not say.
    """
    metrics = measured_figures(metrics, keys)
    lines = [f"- {escaped(line)}" for line in (*notes, *banner)]  # first: MLflow folds all but a few lines
    lines += [""] if lines else []
    with_threshold = any(f"{key}/pass_rate" in metrics for key in keys)
    lines += [SUMMARY_HEAD + " pass |" * with_threshold, "|---|---|---|---|" + "---|" * with_threshold]
    for key in keys:
        low, high = metrics.get(f"{key}/ci_low"), metrics.get(f"{key}/ci_high")
        interval = "–" if low is None or high is None else f"{low:.3f} to {high:.3f}"
        rate = metrics.get(f"{key}/pass_rate")
        passed = "–" if rate is None else f"{rate:.0%}"
        scored = f"{metrics.get(f'{key}/n_scored', 0):.0f} of {rows}"
        figures = [number(metrics.get(f"{key}/mean")), interval, scored, *[passed] * with_threshold]
        lines.append(f"| {escaped(key)} | {' | '.join(figures)} |")
    if worst:
        lines += ["", f"**Worst rows by {escaped(worst_by)}**", ""]
    for row, key, value in worst:
        lines.append(f"1. {escaped(row.sample.id)}: {escaped(key)} {value:.3f}")
        score = row.scores[key]
        told = {"**Q** {}  ": row.sample.question, "**A** {}  ": row.sample.answer, "*{}*": score.error or score.reason}
        lines += ["   " + form.format(escaped(text, _LONGEST_CELL)) for form, text in told.items() if text]
    return "\n".join(lines)
