from __future__ import annotations

from mlflow_ragmetrics.registry import all_metrics
from mlflow_ragmetrics.selection import PRESETS


def test_every_metric_and_preset_is_listed_with_its_facts(ragmetrics):
    result = ragmetrics("list")
    assert result.exit_code == 0
    for name in all_metrics():
        assert f"\n{name}  " in f"\n{result.stdout}"
    for name in PRESETS:
        assert f"\n    {name}: " in result.stdout
    shown = " ".join(result.stdout.split())
    assert "model (--suite lexical) Sources: ROUGE (Lin, 2004); ElBruno.AI.Evaluation rouge Overlap" in shown
    assert "range 0 to 1, higher is better; also shown on a 1–5 scale · needs answer, judge · uses" in shown
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "mlflow_ragmetrics.metrics" not in shown
