"""Figures that may be looked at as often as one likes: each look goes on from the state that the last one left."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.statistics.anytime import ConfidenceSequence

__all__ = ["AnytimeState", "digest_of", "unit_means"]


@dataclass(frozen=True)
class AnytimeState:
    """A confidence sequence for each metric with scores from 0 to 1, and what has been counted.

    ``sequences`` by key; ``seen`` are digests of the rows, or groups, that were counted: none is counted twice, since a
    row that is scored again is not another one. ``repeated``: how many of the last look's were not, for that reason.
    """

    sequences: Mapping[str, ConfidenceSequence] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()
    repeated: int = 0

    def after(self, rows: Sequence[Row], groups: Sequence[str] | None) -> AnytimeState:
        """The state after these rows; with ``groups`` each group counts once, by the mean of its rows."""
        units = _units(rows, groups)
        fresh = {name: members for name, members in units.items() if name not in self.seen}
        sequences = {key: ConfidenceSequence.from_dict(each.to_dict()) for key, each in self.sequences.items()}
        for key in dict.fromkeys(key for row in rows for key in row.scores):
            values = [_mean(members, key) for members in fresh.values()]
            scored = [value for value in values if not math.isnan(value)]
            if all(0 <= value <= 1 for value in scored):
                sequences.setdefault(key, ConfidenceSequence()).update(values)
        return AnytimeState(sequences, self.seen | fresh.keys(), len(units) - len(fresh))

    @property
    def metrics(self) -> dict[str, float]:
        """``<key>/anytime_low`` and ``/anytime_high``, and over how many rows or groups: ``/anytime_n``."""
        figures: dict[str, float] = {}
        for key, each in self.sequences.items():
            if each.count:
                low, high = each.interval()
                figures |= {f"{key}/anytime_low": low, f"{key}/anytime_high": high, f"{key}/anytime_n": each.count}
        return figures

    def to_dict(self) -> dict[str, Any]:
        """All of it for JSON; ``from_dict`` goes on from it."""
        return {"sequences": {key: each.to_dict() for key, each in self.sequences.items()}, "seen": sorted(self.seen)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> AnytimeState:
        """The state of which ``to_dict`` gave the content; ``InvalidDataError`` for anything else."""
        try:
            sequences = {str(key): ConfidenceSequence.from_dict(each) for key, each in state["sequences"].items()}
            return cls(sequences, frozenset(map(str, state["seen"])))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidDataError(f"this is not the state of anytime intervals: {error}") from error


def digest_of(name: str) -> str:
    """What stands for a row or a group among ``seen``."""
    return blake2b(name.encode("utf-8", "replace"), digest_size=8).hexdigest()


def unit_means(rows: Sequence[Row], groups: Sequence[str] | None, seen: Collection[str]) -> dict[str, dict[str, float]]:
    """By key, the mean quality of each row, or group, that is not among ``seen``; only values from 0 to 1."""
    fresh = {name: members for name, members in _units(rows, groups).items() if name not in seen}
    found: dict[str, dict[str, float]] = {}
    for name, members in fresh.items():
        for key in dict.fromkeys(key for row in members for key in row.scores):
            qualities = [q for row in members if key in row.scores and (q := row.scores[key].quality) is not None]
            if qualities and all(0 <= quality <= 1 for quality in qualities):
                found.setdefault(key, {})[name] = math.fsum(qualities) / len(qualities)
    return found


def _units(rows: Sequence[Row], groups: Sequence[str] | None) -> dict[str, list[Row]]:
    units: dict[str, list[Row]] = {}
    for row, name in zip(rows, groups or [str(row.sample.id) for row in rows], strict=True):
        units.setdefault(digest_of(name), []).append(row)
    return units


def _mean(rows: Sequence[Row], key: str) -> float:
    values = [row.scores[key].value for row in rows if key in row.scores]
    scored = [value for value in values if value is not None]
    return math.fsum(scored) / len(scored) if scored else math.nan
