"""Figures that may be looked at as often as one likes, and the state that goes from look to look."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import mlflow
import numpy as np
import pytest
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report.report import Report
from mlflow_ragmetrics.statistics.anytime import ConfidenceSequence


def look(start: int, rows: int = 100, mean: float = 0.7, **description: object) -> Report:
    draw = np.random.default_rng(start)
    return Report(
        [
            Row(Sample(id=str(n), metadata={"chat": n // 5}), {"m": Score(float(draw.random() < mean))})
            for n in range(start, start + rows)
        ],
        description=description,
    )


def _width(metrics: Mapping[str, float]) -> float:
    return metrics["m/anytime_high"] - metrics["m/anytime_low"]


def test_several_looks_are_one_sequence() -> None:
    first = look(0).with_anytime()
    second = look(100).with_anytime(first.anytime)
    values = [score.value for report in (first, second) for score in report.scores("m")]
    sequence = ConfidenceSequence()
    sequence.update([value for value in values if value is not None])
    low, high = sequence.interval()
    metrics = second.metrics
    assert (metrics["m/anytime_low"], metrics["m/anytime_high"], metrics["m/anytime_n"]) == (low, high, 200)
    assert _width(metrics) < _width(first.metrics)


def test_the_interval_is_wider_than_that_of_one_look() -> None:
    metrics = look(0).with_anytime().metrics
    assert _width(metrics) > metrics["m/ci_high"] - metrics["m/ci_low"]


def test_rows_that_were_counted_are_not_counted_again_and_a_warning_says_so() -> None:
    first = look(0).with_anytime()
    again = look(50).with_anytime(first.anytime)
    assert again.metrics["m/anytime_n"] == 150
    assert again.warnings == ("50 rows were counted by an earlier look: the anytime intervals leave them out",)


def test_the_state_goes_through_json() -> None:
    first = look(0).with_anytime()
    assert first.anytime is not None
    stored = json.loads(json.dumps(first.anytime.to_dict()))
    assert look(100).with_anytime(stored).metrics == look(100).with_anytime(first.anytime).metrics
    with pytest.raises(rm.InvalidDataError, match="not the state"):
        look(0).with_anytime({"sequences": 3})


def test_each_group_counts_once() -> None:
    assert look(0, groups="chat").with_anytime().metrics["m/anytime_n"] == 20


def test_scores_off_the_scale_have_no_such_interval() -> None:
    report = Report([Row(Sample(id=str(n)), {"m": Score(value)}) for n, value in enumerate([0.5, -0.5, 0.7])])
    assert "m/anytime_low" not in report.with_anytime().metrics


def test_unscored_rows_count_for_nothing() -> None:
    report = Report([Row(Sample(id=str(n)), {"m": Score(0.5 if n else None)}) for n in range(4)])
    assert report.with_anytime().metrics["m/anytime_n"] == 3
    assert "m/anytime_low" not in Report([Row(Sample(id="1"), {"m": Score()})]).with_anytime().metrics


def test_a_gate_may_look_at_it() -> None:
    with pytest.raises(rm.GateError, match="m/anytime_low"):
        look(0, 20).with_anytime().check(**{"m/anytime_low": 0.6})


def test_runs_of_an_experiment_go_on_from_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = f"sqlite:///{tmp_path / 'store.db'}"

    def night(first: int, *options: str) -> str:
        rows = [{"id": str(n), "answer": "Cats sleep a lot."} for n in range(first, first + 10)]
        Path("night.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        arguments = ["evaluate", "night.jsonl", "-m", "coherence", "--anytime", "--tracking-uri", store, *options]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code in (0, 1), done.output
        return " ".join(done.output.split())

    assert "over 10 rows of all looks" in night(0)
    assert "over 20 rows of all looks" in night(10)
    assert "10 rows were counted by an earlier look" in night(10)
    output = night(20, "--fail-under", "coherence/anytime_low=0.99")
    assert "Gate not reached: coherence/anytime_low" in output
    mlflow.set_tracking_uri(store)
    assert (
        "--log"
        in CliRunner().invoke(main, ["evaluate", "night.jsonl", "-m", "coherence", "--anytime", "--no-log"]).output
    )
