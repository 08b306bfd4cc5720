"""Conversations without a failing turn, on both sides of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlflow_ragmetrics.comparison.difference import Passes, Values
from mlflow_ragmetrics.core.score import passes
from mlflow_ragmetrics.results.pairing import Pairing, has_contexts, is_true
from mlflow_ragmetrics.results.results import Results
from mlflow_ragmetrics.results.sessions import Session, Turn, limit_of
from mlflow_ragmetrics.rows.row_groups import table_session_field, table_slices


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
    column = a.description.get("groups") or table_session_field(a.table)
    if column is None:
        return ()
    names = table_slices(a.table, str(column))
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
