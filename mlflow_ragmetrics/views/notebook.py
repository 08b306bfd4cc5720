"""An evaluation in a notebook's cell: its figures, its warnings, and the rows that came out worst."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlflow_ragmetrics.core.markup import details, element, score_markup, table
from mlflow_ragmetrics.engine.program import Row

__all__ = ["report_markup"]

_NONE = "–"
_FIGURES = {
    "mean": ("{}/mean", ".3f"),
    "from": ("{}/ci_low", ".3f"),
    "to": ("{}/ci_high", ".3f"),
    "1–5": ("{}_1to5/mean", ".1f"),
    "passed": ("{}/pass_rate", ".0%"),
    "scored": ("{}/n_scored", ".0f"),
    "skipped": ("{}/n_skipped", ".0f"),
    "failed": ("{}/n_error", ".0f"),
}


def report_markup(
    keys: Sequence[str], metrics: Mapping[str, float], warnings: Sequence[str], rows: int, worst: Sequence[Row]
) -> str:
    """HTML for one cell; ``metrics`` are a report's run metrics, ``worst`` its rows to look at first."""
    said = [element("p", f"Warning: {text}", "color: #9a6700") for text in warnings]
    shown = {title: form for title, form in _FIGURES.items() if any(form[0].format(key) in metrics for key in keys)}
    figures = table(("metric", *shown), ([_name(key), *_cells(key, metrics, shown)] for key in keys))
    parts = [element("p", f"{rows} rows; from and to: the 95 % interval of the mean"), figures, *said]
    if worst:
        parts += [element("p", f"The {len(worst)} lowest by {_measured_by(worst)}"), *map(_row, worst)]
    return f"<div>{''.join(parts)}</div>"


def _name(key: str) -> str:
    return element("td", key, "text-align: left")


def _cells(key: str, metrics: Mapping[str, float], shown: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for name, form in shown.values():
        value = metrics.get(name.format(key))
        yield element("td", _NONE if value is None else format(value, form))


def _measured_by(worst: Sequence[Row]) -> str:
    return next(key for key, score in reversed(worst[0].scores.items()) if score.scored)


def _row(row: Row) -> str:
    sample = row.sample
    texts = [element("p", f"question: {sample.question}"), element("p", f"answer: {sample.answer}")]
    scores = (
        element("p", key, "font-weight: bold; margin: 0.6em 0 0") + score_markup(s) for key, s in row.scores.items()
    )
    return details(f"{row.sample.id} · {row.sample.question or ''}", "".join([*texts, *scores]))
