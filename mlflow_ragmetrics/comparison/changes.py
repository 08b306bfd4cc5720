"""The most changed rows with the items whose verdicts changed, and conversations without a failing turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from mlflow_ragmetrics.comparison.difference import Passes, Values
from mlflow_ragmetrics.core.score import passes, verdict_name
from mlflow_ragmetrics.results.pairing import Pairing, has_contexts, is_true
from mlflow_ragmetrics.results.results import Results
from mlflow_ragmetrics.results.sessions import Session, Turn, limit_of
from mlflow_ragmetrics.rows.row_groups import session_field, slices_of

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
    a: Results, b: Results, pairing: Pairing, scores: Mapping[str, tuple[Values, Values]], count: int
) -> tuple[ChangedRow, ...]:
    """The ``count`` rows with the largest absolute score changes, summed over the metrics, without unchanged rows."""
    moved = np.nan_to_num(np.column_stack([y - x for x, y in scores.values()]), nan=0.0)
    distance = np.abs(moved).sum(axis=1)
    signs = np.array([{True: 1.0, False: -1.0, None: 0.0}[b.better(key)] for key in scores])
    farthest = [int(row) for row in np.argsort(-distance, kind="stable")[:count] if distance[row] > 0]
    places = [(pairing.rows_a[row], pairing.rows_b[row]) for row in farthest]
    names = [(_text(a, "id", place_a), _text(b, "id", place_b)) for place_a, place_b in places]
    items_a, items_b = _items(a, {id_a for id_a, _ in names}), _items(b, {id_b for _, id_b in names})
    causes_a, causes_b = a.diagnoses, b.diagnoses
    found = []
    for row, (place_a, place_b), (id_a, id_b) in zip(farthest, places, names, strict=True):
        found.append(
            ChangedRow(
                id=pairing.ids[row],
                question=_text(b, "question", place_b),
                answer_a=_text(a, "answer", place_a),
                answer_b=_text(b, "answer", place_b),
                change=float((moved[row] * signs).mean()),
                scores={key: (_number(x[row]), _number(y[row])) for key, (x, y) in scores.items()},
                items=_changed_items(items_a.get(id_a, {}), items_b.get(id_b, {})),
                causes=(causes_a[id_a][0], causes_b[id_b][0]) if causes_a and causes_b else None,
            )
        )
    return tuple(found)


ItemKey = tuple[str, str, str, Union[str, None]]
"""Metric, kind, text, and the text it was checked against."""
Verdicts = dict[ItemKey, str | None]


def _items(results: Results, ids: set[str]) -> dict[str, Verdicts]:
    found: dict[str, Verdicts] = {}
    items = results.items
    if not ids or not len(items):
        return found
    for record in items[items["id"].astype(str).isin(ids)].to_dict("records"):
        against = _known(record.get("against"))
        name = str(record["metric"]), str(record.get("kind", "claim")), str(record["text"]), against
        found.setdefault(str(record["id"]), {})[name] = _known(record["verdict"])
    return found


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


def _known(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _text(results: Results, column: str, row: int) -> str:
    value = results.table[column].iloc[row] if column in results.table.columns else None
    return "" if value is None or value != value else str(value)


@dataclass(frozen=True)
class SessionPasses(Passes):
    """Conversations without a turn that fails ``key``; ``unknown`` ones have unmeasured turns on at least one side."""

    key: str
    column: str
    unknown: int

    def __str__(self) -> str:
        text = f"Sessions ({self.column}) without a turn that fails {self.key}: "
        if not self.rows:
            return f"{text}unknown for all {self.unknown} (unmeasured turns)"
        unknown = f"; {self.unknown} unknown (unmeasured turns)" if self.unknown else ""
        return f"{text}{super().__str__()}{unknown}"


def session_passes(a: Results, b: Results, pairing: Pairing) -> tuple[SessionPasses, ...]:
    """One result per metric with a threshold and for faithfulness; empty if A's rows belong to no conversations."""
    column = a.description.get("groups") or session_field(a.table)
    if column is None:
        return ()
    names = slices_of(a.table, str(column))
    of_pairs = [names[row] for row in pairing.rows_a]
    found = []
    for key in (key for key in a.keys if key in b.keys):
        limits = [(each.description.get("thresholds") or {}).get(key) for each in (a, b)]
        if key.endswith("faithfulness") or None not in limits:
            values_a, values_b = pairing.scores(a, b, key)
            before = _outcomes(a, key, limits[0], of_pairs, pairing.rows_a, values_a)
            after = _outcomes(b, key, limits[1], of_pairs, pairing.rows_b, values_b)
            known = [name for name in before if "not measured" not in (before[name], after[name])]
            passed = (np.array([side[name] == "passed" for name in known], dtype=bool) for side in (before, after))
            counts = vars(Passes.of(*passed))
            found.append(SessionPasses(**counts, key=key, column=str(column), unknown=len(before) - len(known)))
    return tuple(found)


def _outcomes(
    results: Results, key: str, threshold: float | None, names: list[str | None], rows: tuple[int, ...], values: Values
) -> dict[str, str]:
    """The outcome of each conversation on one side, over the paired rows with these ``values``."""
    better = results.better(key)
    limit = limit_of(threshold, better)
    claimless = _claims_nothing(results, key)
    turns: dict[str, list[Turn]] = {}
    for name, row, value in zip(names, rows, map(float, values), strict=True):
        if name is not None:
            known = None if np.isnan(value) else passes(value, limit, better)
            turn = Turn("", None if known is None else value, True if claimless[row] else known)
            turns.setdefault(name, []).append(turn)
    return {name: Session(name, tuple(own), better).outcome for name, own in turns.items()}


def _claims_nothing(results: Results, key: str) -> list[bool]:
    """For each row, whether its answer makes no claim: a rule gave it the best score although it has contexts."""
    table = results.table
    if key in results.composites or not {f"{key}_measured", "contexts"} <= set(table.columns):
        return [False] * len(table)
    ruled = ~is_true(table[f"{key}_measured"]) & table[key].eq(1.0).fillna(False)
    return [bool(rule) and has_contexts(held) for rule, held in zip(ruled, table["contexts"], strict=True)]
