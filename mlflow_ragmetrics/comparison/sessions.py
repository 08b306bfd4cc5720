"""Conversations on both sides of a comparison: which have no failing turn, before and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlflow_ragmetrics.comparison.pairing import Pairing, is_true, measured
from mlflow_ragmetrics.core.score import passes
from mlflow_ragmetrics.report.sessions import Session, Turn, limit_of
from mlflow_ragmetrics.rows.groups import table_session_field, table_slices
from mlflow_ragmetrics.rows.results import Results
from mlflow_ragmetrics.statistics.significance import mcnemar

__all__ = ["SessionPasses", "session_passes"]


@dataclass(frozen=True)
class SessionPasses:
    """Conversations without a turn that fails ``key``, of those known on both sides; McNemar's exact p-value.

    ``unknown`` counts the others, of which a turn was not measured on one side at least.
    """

    key: str
    column: str
    sessions: int
    passed_a: int
    passed_b: int
    newly_passed: int
    newly_failed: int
    unknown: int
    p_value: float

    def __str__(self) -> str:
        text = f"Sessions ({self.column}) without a turn that fails {self.key}: "
        if not self.sessions:
            return f"{text}not known of any of {self.unknown}, as turns were not measured"
        text += f"{self.passed_a} → {self.passed_b} of {self.sessions} ({self.newly_passed} newly pass, "
        text += f"{self.newly_failed} newly fail, McNemar p = {self.p_value:.4f})"
        return text + (f"; {self.unknown} not known, as turns were not measured" if self.unknown else "")


def session_passes(a: Results, b: Results, pairing: Pairing) -> tuple[SessionPasses, ...]:
    """For each metric with a threshold, and for faithfulness, where the rows of A belong to conversations."""
    column = a.description.get("groups") or table_session_field(a.table)
    if column is None:
        return ()
    names = table_slices(a.table, str(column))
    of_pairs = [names[row] for row in pairing.rows_a]
    found = []
    for key in (key for key in a.keys if key in b.keys):
        limits = [(each.description.get("thresholds") or {}).get(key) for each in (a, b)]
        if key.endswith("faithfulness") or None not in limits:
            before = _outcomes(a, key, limits[0], of_pairs, pairing.rows_a)
            after = _outcomes(b, key, limits[1], of_pairs, pairing.rows_b)
            found.append(_passes(key, str(column), before, after))
    return tuple(found)


def _outcomes(
    results: Results, key: str, threshold: float | None, names: list[str | None], rows: tuple[int, ...]
) -> dict[str, str]:
    """The outcome of each conversation on one side, over the paired rows."""
    better = results.better(key)
    limit = limit_of(threshold, better)
    values = measured(results, key).astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    claimless = _claims_nothing(results, key)
    turns: dict[str, list[Turn]] = {}
    for name, row in zip(names, rows, strict=True):
        if name is not None:
            value = float(values[row])
            known = None if np.isnan(value) else passes(value, limit, better)
            turn = Turn("", None if known is None else value, True if claimless[row] else known)
            turns.setdefault(name, []).append(turn)
    return {name: Session(name, tuple(own), better).outcome for name, own in turns.items()}


def _claims_nothing(results: Results, key: str) -> list[bool]:
    """Whether a rule scored the row although it has contexts: its answer claims nothing."""
    table = results.table
    if f"{key}_measured" not in table.columns or "contexts" not in table.columns:
        return [False] * len(table)
    ruled = ~is_true(table[f"{key}_measured"]) & table[f"{key}_status"].eq("ok")
    held = [isinstance(each, (list, tuple, np.ndarray)) and any(map(str.strip, each)) for each in table["contexts"]]
    return [bool(rule) and has for rule, has in zip(ruled, held, strict=True)]


def _passes(key: str, column: str, a: dict[str, str], b: dict[str, str]) -> SessionPasses:
    known = [(a[name], b[name]) for name in a if "not measured" not in (a[name], b[name])]
    won, lost = known.count(("failed", "passed")), known.count(("passed", "failed"))
    return SessionPasses(
        key=key,
        column=column,
        sessions=len(known),
        passed_a=sum(before == "passed" for before, _ in known),
        passed_b=sum(after == "passed" for _, after in known),
        newly_passed=won,
        newly_failed=lost,
        unknown=len(a) - len(known),
        p_value=mcnemar(lost, won),
    )
