from __future__ import annotations

from mlflow_ragmetrics.presets import PRESETS
from mlflow_ragmetrics.registry import all_metrics


def test_every_metric_and_preset_is_listed_with_its_facts(ragmetrics):
    result = ragmetrics("list")
    assert result.exit_code == 0
    for name in all_metrics():
        assert f"\n{name}  " in f"\n{result.stdout}"
    for name in PRESETS:
        assert f"\n    {name}: " in result.stdout
    shown = " ".join(result.stdout.split())
    assert "key rouge1_f1 · 0–1 · needs answer, reference · seed 000" in shown
    assert "0–1, shown 1–5 · needs answer, judge · uses question, reference, contexts · seed 004" in shown
    assert max(map(len, result.stdout.splitlines())) <= 80
