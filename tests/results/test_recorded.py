"""The figures, gates and texts of reports over random rows of every status are as recorded."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlflow_ragmetrics.core.score import Item, Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.evaluation import repeatability
from mlflow_ragmetrics.results.gates import check_figures
from mlflow_ragmetrics.results.pairing import pair
from mlflow_ragmetrics.results.results import results_of
from tests.recorded import check_recorded

VERDICTS = ("SUPPORTED", "NEUTRAL", "CONTRADICTED")


def score_of(draw: np.random.Generator, key: str, rows: int) -> Score:
    """A score of any status; some are by a rule, doubtful, or of a panel."""
    value = float(np.round(draw.beta(4, 2), 2)) if rows % 2 else float(draw.random() < 0.7)
    chance = draw.random()
    if chance < 0.05:
        return Score(error="JudgeReplyError: no usable reply", reason="no usable reply")
    if chance < 0.1:
        return Score(status="skipped", reason="no reference", details={"unmeasured": "no reference"})
    details: dict[str, Any] = {"no_context": True, "unmeasured": "no contexts"} if chance < 0.15 else {"total": 3}
    warnings = (("claims_missing", "1 sentence has no claim"),) if chance > 0.9 else ()
    items = tuple(Item("claim", f"claim {n}", VERDICTS[int(draw.integers(3))]) for n in range(int(draw.integers(4))))
    panel = {"a": value, "b": 1 - value} if rows % 3 == 0 else {}
    if panel:
        apart = abs(2 * value - 1)
        details |= {"judges_asked": 3, "n_judges": 2, "agreement": 1 - apart, "within_tolerance": apart <= 0.1}
    return Score(
        value,
        scaled=1 + 4 * value if key == "correctness" else None,
        threshold=0.6,
        details=details,
        warnings=warnings,
        items=items,
        model_scores=panel,
        higher_is_better=key != "hallucination_rate",
        judge="model",
    )


def report(rows: int, seed: int = 0) -> Report:
    """Rows with three metrics; up to five form a group."""
    draw = np.random.default_rng([rows, seed])
    found = []
    for n in range(rows):
        metadata = {"session_id": f"s{n // 5}", "part": "ab"[n % 2]}
        sample = Sample(id=f"r{n}", question=f"question {n % 30}", answer=f"answer {n}", metadata=metadata)
        keys = ("faithfulness", "correctness", "hallucination_rate")
        found.append(Row(sample, {key: score_of(draw, key, rows) for key in keys}, n))
    return Report(found, description={"judge": ["model"], "suite": "custom", "groups": "session_id"})


def outcome(call: Any) -> Any:
    try:
        return call()
    except RagMetricsError as error:
        return str(error)


@pytest.mark.parametrize("rows", [1, 2, 9, 30, 121])
def test_reports_are_as_recorded(rows: int) -> None:
    runs = [report(rows, seed) for seed in range(3)]
    first = runs[0]
    draw = np.random.default_rng(rows)
    labels = {row.sample.id: float(draw.random() < 0.5) for row in first.rows[::2]}
    alone = replace(first, description={"judge": ["model"]})
    checks = [
        check_figures(first.metrics, limits, share)
        for limits in ({"faithfulness": 0.6, "correctness_1to5": 3.5}, {"hallucination_rate": 0.4, "correctness": 0.9})
        for share in (None, 0.5, 0.99)
    ]
    pairing = pair(results_of(first), results_of(runs[1]))
    found: dict[str, Any] = {
        "metrics": first.metrics,
        "metrics without groups": alone.metrics,
        "repeats": repeatability(runs),
        "gates": [[each.name, each.passed, each.reason] for check in checks for each in check],
        "true score": outcome(lambda: {**asdict(first.true_score("faithfulness", labels))}),
        "by part": first.by("part").values.tolist(),
        "worst": [row.sample.id for row in first.worst_rows(5)],
        "worst by key": [row.sample.id for row in first.worst_rows(5, "hallucination_rate")],
        "notes": [str(note) for note in (*first.notes, *first.banner, str(first.incomplete), str(first.partial))],
        "diagnoses": [str(each) for each in first.diagnoses],
        "pairing": [pairing.by, list(pairing.rows_a), list(pairing.rows_b), pairing.warnings],
    }
    check_recorded(found, Path(__file__).with_name(f"recorded_{rows}.json"))
