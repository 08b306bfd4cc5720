"""The report as one self-contained HTML file: no network, safe for any text, thousands of rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlflow_ragmetrics.core.html import render
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.judges.lexical.backing import unbacked_in

__all__ = ["MOST_ROWS", "embedded_json", "report_page"]

_PLACE = "the rows of this page"
MOST_ROWS = 20_000
"""How many rows a page shows: MLflow shows files of up to 50 MB, and browsers have their limits too."""


def report_page(
    rows: Sequence[Row],
    *,
    title: str,
    description: Mapping[str, Any],
    metrics: Mapping[str, float],
    usage: Mapping[str, float],
    warnings: Sequence[str] = (),
    banner: Sequence[str] = (),
    diagnoses: Sequence[tuple[str, str]] = (),
    causes: Mapping[str, int] | None = None,
    shown: Sequence[int] | None = None,
) -> Iterator[str]:
    """The page of one evaluation, in pieces: summary, distributions, a table of rows, each row's claims and chunks.

    ``shown`` are the places of the rows to show where these are not all, which the page then says. ``banner`` are lines
    that must be read with the figures, ``warnings`` say what was left out. ``diagnoses`` are cause and sentence of each
    row, ``causes`` how often each cause occurs, where there are any. All text of the data is carried as JSON and put on
    the page as text, so none of it can become markup or script.
    """
    shown = range(len(rows)) if shown is None else shown
    if len(shown) < len(rows):
        left_out = f"This page shows {len(shown):,} of {len(rows):,} rows: the worst ones and a random sample."
        banner = [f"{left_out} The figures are those of all rows, and the run's tables hold all.", *banner]
    data: dict[str, Any] = {
        "total": len(rows),
        "description": dict(description),
        "metrics": dict(metrics),
        "usage": dict(usage),
        "warnings": list(warnings),
        "banner": list(banner),
        "keys": list(dict.fromkeys(key for row in rows for key in row.scores)),
        "lower": sorted({key for row in rows for key, score in row.scores.items() if score.higher_is_better is False}),
        "neither": sorted({key for row in rows for key, score in row.scores.items() if score.higher_is_better is None}),
        "causes": dict(causes or {}),
        "rows": [_PLACE],
    }
    page = render("views/report.html", title=title, data=embedded_json(data))
    before, after = page.rsplit(f'"{_PLACE}"', 1)
    yield before
    for number, place in enumerate(shown):
        row = _row(rows[place]) | ({"diagnosis": diagnoses[place]} if place < len(diagnoses) else {})
        yield ("," if number else "") + embedded_json(row)
    yield after


def embedded_json(data: Any) -> str:
    """JSON that can stand inside a ``script`` element, marked as safe: no ``<``, ``>``, ``&`` and only ASCII."""
    from jinja2.utils import htmlsafe_json_dumps

    return htmlsafe_json_dumps(data, json.dumps, allow_nan=False, separators=(",", ":"), default=str)


def _row(row: Row) -> dict[str, Any]:
    sample = row.sample
    return {
        "id": sample.id,
        "question": sample.question,
        "answer": sample.answer,
        "references": list(sample.references or ()),
        "chunks": [{"id": chunk.id, "text": chunk.text} for chunk in sample.contexts or ()],
        "scores": {key: _score(score, sample.texts) for key, score in row.scores.items()},
    }


def _score(score: Score, passages: Sequence[str] | None) -> dict[str, Any]:
    unmeasured = {} if score.measured or not score.scored else {"unmeasured": True}
    return {
        **unmeasured,
        "value": score.value,
        "scaled": score.scaled,
        "status": score.status,
        "passed": score.passed,
        "reason": score.error or score.reason,
        "judge": score.judge,
        "items": [_item(item, unbacked_in(item, passages) if item.unbacked_by_chunks else ()) for item in score.items],
    }


def _item(item: Item, unbacked: Sequence[str]) -> dict[str, Any]:
    """What the item holds; what is empty is left out, as a page has hundreds of thousands of items."""
    shown: dict[str, Any] = {"kind": item.kind, "text": "" if item.kind == "chunk" else item.text}
    if item.verdict is not None:
        shown["verdict"] = item.verdict
    if item.reason:
        shown["reason"] = item.reason
    if item.support is not None:
        shown["support"] = item.support
    if item.judge is not None:
        shown["judge"] = item.judge
    if item.evidence:
        shown["evidence"] = [{"chunk": each.chunk, "quote": each.quote} for each in item.evidence]
    if unbacked:
        shown["unbacked"] = unbacked
    return shown
