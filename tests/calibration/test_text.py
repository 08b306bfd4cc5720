from __future__ import annotations

import mlflow_ragmetrics as rm


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
