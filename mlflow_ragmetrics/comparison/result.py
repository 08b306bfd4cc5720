"""``Comparison``: what two evaluations of the same rows say about the two versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.comparison.changes import ChangedRow
from mlflow_ragmetrics.comparison.difference import Difference, Verdict
from mlflow_ragmetrics.comparison.pairing import Pairing
from mlflow_ragmetrics.report.gates import Check, check_comparison, raise_failures

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison"]

_FIGURES = {
    "difference": "difference",
    "ci_low": "low",
    "ci_high": "high",
    "p_value": "p_value",
    "p_holm": "p_holm",
    "effect_size": "effect",
    "wins": "wins",
    "ties": "ties",
    "losses": "losses",
    "n_pairs": "rows",
}


@dataclass(frozen=True)
class Comparison:
    """B against A: ``differences``, one for each metric, and the ``rows`` that changed most.

    ``name_a`` and ``name_b`` are the runs' names, ``run_a`` and ``run_b`` their ids in MLflow. ``pairing`` says how
    rows were matched and what could not be, ``warnings`` in what the runs are unlike. Differences up to ``tolerance``
    do not matter.

    Intervals: BCa bootstrap of the paired differences, 95 %, each metric for itself (``statistics.intervals`` says when
    a closed form takes its place). Tests: sign-flip permutation, adjusted by Holm over the metrics. Both from
    ``resamples`` draws.
    """

    name_a: str
    name_b: str
    differences: tuple[Difference, ...]
    rows: tuple[ChangedRow, ...]
    pairing: Pairing
    warnings: tuple[str, ...] = ()
    tolerance: float = 0.05
    resamples: int = 10_000
    run_a: str | None = None
    run_b: str | None = None

    def __getitem__(self, key: str) -> Difference:
        """The difference of the metric ``key``."""
        return {each.key: each for each in self.differences}[key]

    @property
    def name(self) -> str:
        """``B vs A``."""
        return f"{self.name_b} vs {self.name_a}"

    @property
    def verdict(self) -> dict[str, Verdict]:
        """By metric: improved, regressed, unchanged or too few rows to tell."""
        return {each.key: each.verdict for each in self.differences}

    @cached_property
    def metrics(self) -> dict[str, float]:
        """What is logged as run metrics: ``<key>/difference``, ``/ci_low``, ``/p_holm``, …; nothing that is unknown."""
        figures = {
            f"{each.key}/{name}": getattr(each, attribute)
            for each in self.differences
            for name, attribute in _FIGURES.items()
        }
        return {name: float(value) for name, value in figures.items() if value is not None}

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a metric: means, difference, interval, p-values, wins, ties, losses, effect, verdict, rows needed."""
        import pandas as pd

        return pd.DataFrame([_record(each) for each in self.differences])

    @cached_property
    def changes(self) -> pd.DataFrame:
        """One row for each of the rows that changed most: id, texts, ``<key>_a``, ``<key>_b``, and changed items."""
        import pandas as pd

        return pd.DataFrame([_flat(row) for row in self.rows])

    def checks(self, fail_on: Iterable[str] = ("regressed",)) -> list[Check]:
        """One check a metric, failed where its verdict is one of ``fail_on``; for ``gates.to_junit`` and the like."""
        return check_comparison(self.differences, fail_on, self.name)

    def check(self, fail_on: Iterable[str] = ("regressed",)) -> None:
        """``GateError`` (an ``AssertionError``) when a metric's verdict is one of ``fail_on``."""
        raise_failures(self.checks(fail_on))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, for JSON."""
        return {
            "a": self.name_a,
            "b": self.name_b,
            "n_pairs": len(self.pairing),
            "paired_by": self.pairing.by,
            "only_a": list(self.pairing.only_a),
            "only_b": list(self.pairing.only_b),
            "tolerance": self.tolerance,
            "resamples": self.resamples,
            "warnings": list(self.warnings),
            "metrics": [_record(each) for each in self.differences],
            "rows": [asdict(row) for row in self.rows],
        }

    def to_html(self, path: str | Path | None = None) -> str:
        """A self-contained page; written to ``path`` as well where one is given."""
        from mlflow_ragmetrics.views.comparison_page import comparison_page

        page = comparison_page(self)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def log(self, run_id: str | None = None, *, run_name: str | None = None) -> str:
        """Write page, table, plot and metrics into the run of B, or into another one; returns the run's id.

        ``run_id`` names another run. Where B is no run: the active run, else a new one.
        """
        from mlflow_ragmetrics.tracking.findings import log_comparison

        return log_comparison(self, run_id or self.run_b, run_name or f"compare {self.name}")

    def __str__(self) -> str:
        from mlflow_ragmetrics.views.text import comparison_text

        return comparison_text(self)


def _record(difference: Difference) -> dict[str, Any]:
    passes = asdict(difference.passes) if difference.passes else {}
    plain = {name: value for name, value in asdict(difference).items() if name not in ("passes", "tolerance")}
    return {
        "metric": plain.pop("key"),
        "verdict": difference.verdict,
        **plain,
        "pass_rate_a": passes.get("rate_a"),
        "pass_rate_b": passes.get("rate_b"),
        "newly_passed": passes.get("newly_passed"),
        "newly_failed": passes.get("newly_failed"),
        "mcnemar_p": passes.get("p_value"),
    }


def _flat(row: ChangedRow) -> dict[str, Any]:
    scores = {
        f"{key}_{side}": value for key, pair in row.scores.items() for side, value in zip("ab", pair, strict=True)
    }
    texts = {"id": row.id, "question": row.question, "answer_a": row.answer_a, "answer_b": row.answer_b}
    items: Mapping[str, Any] = {"items": [asdict(item) for item in row.items]}
    return {**texts, "change": row.change, **scores, **items}
