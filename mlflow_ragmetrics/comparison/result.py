"""``Comparison``: what two evaluations of the same rows say about the two versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.comparison.changes import ChangedRow
from mlflow_ragmetrics.comparison.difference import Difference, Verdict
from mlflow_ragmetrics.comparison.forest_plot import forest_plot
from mlflow_ragmetrics.comparison.pairing import Pairing
from mlflow_ragmetrics.core.html import render
from mlflow_ragmetrics.report.gates import Check, check_comparison, raise_failures
from mlflow_ragmetrics.views.text import text_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

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
    rows were matched and what could not be, ``warnings`` how the runs differ otherwise. Differences up to
    ``tolerance`` do not matter.

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
    def title(self) -> str:
        """B against A, both by name and letter."""
        a, b = (
            name if name == letter or name.endswith(f"({letter})") else f"{name} ({letter})"
            for name, letter in ((self.name_a, "A"), (self.name_b, "B"))
        )
        return f"{b} against {a}"

    @property
    def heading(self) -> str:
        """What was compared, and over how many rows."""
        return f"{self.title}: {len(self.pairing)} rows paired by {self.pairing.by}, tolerance {self.tolerance:g}"

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
        """One row per metric: means, difference, interval, p-values, wins, ties, losses, effect, rows needed, …."""
        import pandas as pd

        return pd.DataFrame([_record(each) for each in self.differences])

    @cached_property
    def changes(self) -> pd.DataFrame:
        """One row for each of the rows that changed most: id, texts, ``<key>_a``, ``<key>_b``, and changed items."""
        import pandas as pd

        return pd.DataFrame([_flat(row) for row in self.rows])

    def checks(self, fail_on: Iterable[str] = ("regressed",)) -> list[Check]:
        """One check per metric, failed where its verdict is one of ``fail_on``; for ``gates.to_junit`` and the like."""
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
        ends = [abs(end) for each in self.differences for end in (each.low, each.high) if end is not None]
        page = render(
            "views/comparison.html",
            comparison=self,
            columns=list(self.differences[0].figures),
            thresholds=self._thresholds(),
            reach=1.05 * max(self.tolerance, *ends, 1e-6),  # the interval plots go from -reach to reach
        )
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def to_text(self, width: int | None = None) -> str:
        """A table of the metrics, then thresholds and warnings.

        Where the table is wider than ``width`` columns, it goes without the figures that a reader misses least.
        """
        figures = [each.figures for each in self.differences]
        columns: dict[str, Sequence[str]] = {
            "metric": [each.key for each in self.differences],
            **{name: [each[name] for each in figures] for name in figures[0]},
            "verdict": [each.verdict for each in self.differences],
        }
        droppable = ("d_z", "needed", "p (Holm)", "won/tied/lost", "rows")
        table = text_table(columns, width, left=("metric", "verdict"), droppable=droppable)
        notes = (*self._thresholds(), *(f"Note: {warning}" for warning in self.warnings))
        return "\n".join([self.heading, "", table, "", *notes]).rstrip()

    def __str__(self) -> str:
        return self.to_text()

    def _thresholds(self) -> list[str]:
        return [f"{each.key}: {each.passes}" for each in self.differences if each.passes is not None]

    def plot(self) -> Figure | None:
        """A forest plot: one line per metric with its interval; ``None`` when no metric has one."""
        return forest_plot(self.differences, self.tolerance, self.title)

    def log(self, run_id: str | None = None, *, run_name: str | None = None) -> str:
        """Write page, table, plot and metrics into the run of B, or into another one; returns the run's id.

        ``run_id`` names another run. Where B is not a run: the active run, else a new one. The artifacts are
        ``compare_<A>.html``, ``.json`` (a table) and ``.png``, the metrics ``vs_<A>/<key>/difference``, ….
        """
        from mlflow_ragmetrics.tracking.findings import Findings, log_findings, safe_name

        name = safe_name(self.name_a)
        findings = Findings(
            texts={f"compare_{name}.html": self.to_html()},
            tables={f"compare_{name}.json": self.table},
            plots={f"compare_{name}.png": self.plot()},
            metrics={f"vs_{name}/{figure}": value for figure, value in self.metrics.items()},
            params={f"compared_with_{name}": self.run_a or self.name_a},
        )
        return log_findings(findings, run_id or self.run_b, run_name or f"compare {self.name}")


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
