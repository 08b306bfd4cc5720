"""An evaluation in a notebook's cell: its figures, its warnings, and the rows that came out worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlflow_ragmetrics.core.markup import details, element, score_markup, table
from mlflow_ragmetrics.core.run import Row

__all__ = ["report_markup"]

_NONE = "–"
_HEAD = ("metric", "mean", "95 % interval", "1–5", "passed", "scored", "skipped", "failed")


def report_markup(
    keys: Sequence[str], metrics: Mapping[str, float], warnings: Sequence[str], rows: int, worst: Sequence[Row]
) -> str:
    """HTML for one cell; ``metrics`` are a report's run metrics, ``worst`` its rows to look at first."""
    said = [element("p", f"Warning: {text}", "color: #9a6700") for text in warnings]
    parts = [element("p", f"{rows} rows"), table(_HEAD, (_figures(key, metrics) for key in keys)), *said]
    if worst:
        parts += [element("p", f"The {len(worst)} lowest by {_measured_by(worst)}"), *map(_row, worst)]
    return f"<div>{''.join(parts)}</div>"


def _figures(key: str, metrics: Mapping[str, float]) -> list[str]:
    def shown(name: str, form: str) -> str:
        return format(metrics[name], form) if name in metrics else _NONE

    low, high = shown(f"{key}/ci_low", ".3f"), shown(f"{key}/ci_high", ".3f")
    cells = [
        shown(f"{key}/mean", ".3f"),
        _NONE if low == _NONE else f"{low} – {high}",
        shown(f"{key}_1to5/mean", ".1f"),
        shown(f"{key}/pass_rate", ".0%"),
        *(shown(f"{key}/n_{count}", ".0f") for count in ("scored", "skipped", "error")),
    ]
    return [element("td", key, "text-align: left"), *(element("td", cell) for cell in cells)]


def _measured_by(worst: Sequence[Row]) -> str:
    return next(key for key, score in reversed(worst[0].scores.items()) if score.scored)


def _row(row: Row) -> str:
    sample = row.sample
    texts = [element("p", f"question: {sample.question}"), element("p", f"answer: {sample.answer}")]
    scores = (
        element("p", key, "font-weight: bold; margin: 0.6em 0 0") + score_markup(s) for key, s in row.scores.items()
    )
    return details(f"{row.sample.id} · {row.sample.question or ''}", "".join([*texts, *scores]))
