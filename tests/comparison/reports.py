"""Reports over artificial rows, for tests of comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlflow_ragmetrics.core.score import Item, Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report import Report

ALIKE: Mapping[str, Any] = {
    "suite": "custom",
    "judge": ["lexical"],
    "judge_versions": {"lexical": "1"},
    "metrics": ["faithfulness"],
    "thresholds": {"faithfulness": 0.6},
}


def report_of(
    values: Sequence[float | None],
    *,
    key: str = "faithfulness",
    ids: Sequence[str] | None = None,
    questions: Sequence[str] | None = None,
    items: Sequence[tuple[Item, ...]] | None = None,
    threshold: float | None = None,
    answer: str = "an answer",
    **description: Any,
) -> Report:
    """A report with one metric, and rows ``0``, ``1``, …."""
    rows = [
        Row(
            Sample(
                id=ids[place] if ids else str(place),
                question=questions[place] if questions else f"question {place}",
                answer=f"{answer} {place}",
            ),
            {key: Score(value, threshold=threshold, items=items[place] if items else ())},
        )
        for place, value in enumerate(values)
    ]
    return Report(rows, description={**ALIKE, **description})


def noisy(rows: int, shift: float = 0.0, noise: float = 0.05, seed: int = 0) -> list[float]:
    """Scores of ``rows`` questions, equally hard for every ``seed``, on average ``shift`` higher."""
    hard = np.random.default_rng(99).beta(6, 3, rows)
    moved = hard + shift + np.random.default_rng(seed).normal(0, noise, rows)
    return [float(value) for value in np.clip(moved, 0, 1)]
