"""A report whose scores separate good rows from bad ones, and its labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report import Report


def labelled_report(rows: int = 200, *, threshold: float | None = None, seed: int = 0) -> tuple[Report, list[bool]]:
    """Good rows score around 0.8, bad ones around 0.55: a threshold of 0.5 misses most bad rows."""
    generator = np.random.default_rng(seed)
    good = [bool(each) for each in generator.random(rows) < 0.7]
    values = np.clip(generator.normal([0.8 if each else 0.55 for each in good], 0.08), 0, 1)
    description: dict[str, Any] = {} if threshold is None else {"thresholds": {"faithfulness": threshold}}
    made = [
        Row(
            Sample(
                id=f"row {place}",
                question=f"question {place}",
                metadata={"human": label, "document": f"d{place // 2}", "bem": 0.9 if label else 0.2},
            ),
            {"faithfulness": Score(float(value), threshold=threshold)},
        )
        for place, (label, value) in enumerate(zip(good, values, strict=True))
    ]
    return Report(made, description=description), good
