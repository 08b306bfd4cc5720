"""Who judged an evaluation, what that cost, and what each judge of a panel said."""

from __future__ import annotations

from typing import Any

from mlflow_ragmetrics.report.report import Report
from mlflow_ragmetrics.rows.results import Results

__all__ = ["cost_of", "judge_of", "panel_scores"]


def judge_of(results: Results) -> str:
    """The names of the judges; empty where they are not known."""
    names = results.description.get("judge") or ()
    return ", ".join([names] if isinstance(names, str) else map(str, names))


def cost_of(source: Any, results: Results) -> float | None:
    """Dollars for a thousand rows, from a report's usage or a run's; ``None`` where the prices are not known."""
    cost = source.usage.get("cost") if isinstance(source, Report) else None
    if cost is None and results.run_id is not None:
        import mlflow

        cost = mlflow.get_run(results.run_id).data.metrics.get("usage/cost")
    return None if cost is None or not len(results.table) else 1000 * float(cost) / len(results.table)


def panel_scores(source: Any, key: str) -> dict[str, list[float | None]]:
    """The scores of each judge of a panel, row by row; nothing where one judge scored, or only tables are left."""
    if not isinstance(source, Report):
        return {}
    given = [row.scores[key].model_scores if key in row.scores else {} for row in source.rows]
    names = list(dict.fromkeys(name for scores in given for name in scores or {}))
    if len(names) < 2:
        return {}
    return {name: [(scores or {}).get(name) for scores in given] for name in names}
