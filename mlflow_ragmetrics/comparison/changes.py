"""The most changed rows with the items whose verdicts changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from mlflow_ragmetrics.comparison.difference import Values
from mlflow_ragmetrics.core.score import verdict_name
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.pairing import Pairing
from mlflow_ragmetrics.results.results import stored

_GOOD = ("SUPPORTED", "RELATED", "FOUND")


@dataclass(frozen=True)
class ChangedItem:
    """A claim, chunk or document with its metrics and both verdicts; ``None`` on the side that lacks it.

    ``against``: the text it was checked against; ``None`` if a metric checks it against the passages.
    """

    metric: str
    kind: str
    text: str
    verdict_a: str | None
    verdict_b: str | None
    against: str | None = None

    @property
    def verdicts(self) -> str:
        """Both verdicts in words: before → after."""
        return " → ".join((self._named(self.verdict_a, "A"), self._named(self.verdict_b, "B")))

    def _named(self, verdict: str | None, side: str) -> str:
        return f"not in {side}" if verdict is None else verdict_name(verdict, self.against)


@dataclass(frozen=True)
class ChangedRow:
    """One row of both evaluations; ``change``: its mean score change (B minus A) over the metrics.

    The sign is reversed for metrics where lower is better; metrics without a better direction count as 0. ``causes``:
    the diagnoses of A and of B, if both have one.
    """

    id: str
    question: str
    answer_a: str
    answer_b: str
    change: float
    scores: Mapping[str, tuple[float | None, float | None]]
    items: tuple[ChangedItem, ...] = ()
    causes: tuple[str, str] | None = None


def changed_rows(
    a: Evaluation, b: Evaluation, pairing: Pairing, scores: Mapping[str, tuple[Values, Values]], count: int
) -> tuple[ChangedRow, ...]:
    """The ``count`` rows with the largest absolute score changes, summed over the metrics, without unchanged rows."""
    moved = np.nan_to_num(np.column_stack([y - x for x, y in scores.values()]), nan=0.0)
    distance = np.abs(moved).sum(axis=1)
    signs = np.array([{True: 1.0, False: -1.0, None: 0.0}[b.better(key)] for key in scores])
    farthest = [int(row) for row in np.argsort(-distance, kind="stable")[:count] if distance[row] > 0]
    places_a, places_b = ([places[row] for row in farthest] for places in (pairing.rows_a, pairing.rows_b))
    is_diagnosed = bool(a.diagnoses and b.diagnoses)
    return tuple(
        ChangedRow(
            id=pairing.ids[row],
            question=row_b.sample.question or "",
            answer_a=row_a.sample.answer or "",
            answer_b=row_b.sample.answer or "",
            change=float((moved[row] * signs).mean()),
            scores={key: (_number(x[row]), _number(y[row])) for key, (x, y) in scores.items()},
            items=_changed_items(_verdicts(row_a), _verdicts(row_b)),
            causes=(a.diagnoses[place_a].cause, b.diagnoses[place_b].cause) if is_diagnosed else None,
        )
        for row, place_a, place_b, row_a, row_b in zip(
            farthest, places_a, places_b, _rows(a, places_a), _rows(b, places_b), strict=True
        )
    )


def _rows(side: Evaluation, places: list[int]) -> Sequence[Row]:
    """The rows at ``places``; the others of an evaluation that was read back are not made."""
    table, items = side.table.iloc[places], side.items
    ids = {str(name) for name in table.get("id", ())}
    return stored(side.name, table, items[items["id"].astype(str).isin(ids)], side.description).rows


Verdicts = dict[tuple[str, str, str, Union[str, None]], Union[str, None]]
"""The verdicts by metric, kind, text, and the text that was checked against."""


def _verdicts(row: Row) -> Verdicts:
    return {
        (key, item.kind, item.text, item.against): item.verdict
        for key, score in row.scores.items()
        for item in score.items
    }


def _changed_items(a: Verdicts, b: Verdicts) -> tuple[ChangedItem, ...]:
    """Items whose verdict changed, then items of one side only; within each, bad verdicts first."""
    metrics: dict[tuple[str, str, str | None, str | None], dict[str, str | None]] = {}
    for metric, kind, text, against in {**a, **b}:
        before, after = (side.get((metric, kind, text, against)) for side in (a, b))
        if before != after:
            metrics.setdefault((kind, text, before, after), {})[metric] = against
    found = [
        ChangedItem(", ".join(named), *item, against=None if None in named.values() else next(iter(named.values())))
        for item, named in metrics.items()
    ]
    good = {*_GOOD, None}
    return tuple(sorted(found, key=lambda e: (None in (e.verdict_a, e.verdict_b), {e.verdict_a, e.verdict_b} <= good)))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
