from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm

from ..comparison.reports import report_of


def test_a_narrow_table_goes_without_the_figures_that_others_imply() -> None:
    rows = [
        {"id": str(n), "answer": "It is. It is not." if n % 2 else "It rains here.", "human": n % 2} for n in range(30)
    ]
    calibration = rm.calibrate(rm.Suite(["coherence"]).evaluate(rows, progress=False), "human")
    wide, narrow = str(calibration), calibration.to_text(72)
    assert calibration.to_text(200) == wide
    assert "accuracy" in wide
    assert "AUROC" in narrow
    (table,) = [line for line in narrow.splitlines() if line.startswith("verdicts")]
    assert len(table) <= 72


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.9] * 6 + [0.1] * 4, "finds 4 of 4 bad answers; 4 of its 4 alarms are right."),
        ([0.1] * 6 + [0.9] * 4, "finds 0 of 4 bad answers; 0 of its 6 alarms are right. This is worse than chance"),
        ([0.9] * 10, "finds 0 of 4 bad answers; it raises no alarm. This is no better than chance"),
    ],
)
def test_the_verdict_in_words_comes_first(values: list[float], words: str) -> None:
    labels = [1] * 6 + [0] * 4
    assert words in str(rm.calibrate(report_of(values), labels)).splitlines()[0]
