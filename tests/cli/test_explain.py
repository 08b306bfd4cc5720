from __future__ import annotations

import pytest

from mlflow_ragmetrics.registry import all_metrics


@pytest.mark.parametrize("name", sorted(all_metrics()))
def test_every_metric_has_a_formula_and_a_way_to_run_it(ragmetrics, name):
    result = ragmetrics("explain", name)
    assert result.exit_code == 0
    assert "Formula: " in result.stdout
    assert f"ragmetrics evaluate FILE --metric {name}" in result.stdout
    assert "``" not in result.stdout


def test_a_metric_of_one_s_own_is_explained(ragmetrics, tmp_path):
    source = (
        "import mlflow_ragmetrics as rm\n@rm.metric\ndef shortness(answer: str, *, limit: int = 20) -> float:\n"
        "    '''Formula: limit / words.'''\n    return 1.0\n"
    )
    (tmp_path / "explained_module.py").write_text(source, encoding="utf-8")
    shown = ragmetrics("explain", "explained_module:shortness").stdout
    assert "Formula: limit / words." in shown
    assert "limit  int; default 20" in shown


def test_an_unknown_metric_is_refused_with_a_hint(ragmetrics):
    result = ragmetrics("explain", "fathfulness")
    assert result.exit_code == 2
    assert "did you mean 'faithfulness'" in result.stderr
