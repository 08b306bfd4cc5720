from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import GateError, InvalidOptionError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.evaluation import repeatability
from tests.comparison.reports import noisy, report_of
from tests.judges.fake_models import FakeChatModel


def test_repeats_of_grouped_rows_have_intervals_over_groups() -> None:
    runs = [report_of(noisy(40, seed=seed)) for seed in range(2)]
    alone = repeatability(runs)
    chats = [
        Report(
            [replace(r, sample=replace(r.sample, metadata={"chat": n // 8})) for n, r in enumerate(run.rows)],
            description={**run.description, "groups": "chat"},
        )
        for run in runs
    ]
    assert repeatability(chats)["faithfulness/repeat_ci_low"] != alone["faithfulness/repeat_ci_low"]


def test_spread_and_flips_by_hand() -> None:
    values = [[0.5, 0.7, 0.2, None], [0.5, 0.5, 0.2, 0.3], [0.5, 0.6, 0.2, 0.9]]
    runs = [report_of(scores, threshold=0.6) for scores in values]
    figures = repeatability(runs)
    assert figures["faithfulness/repeat_sd"] == pytest.approx(np.sqrt(0.01 / 3))
    assert figures["faithfulness/flip_rate"] == pytest.approx(1 / 3)


def test_without_a_threshold_nothing_flips() -> None:
    assert "faithfulness/flip_rate" not in repeatability([report_of([0.5, 0.6]), report_of([0.7, 0.6])])


def test_gates_are_on_all_repeats_and_on_rows_that_were_measured_each_time() -> None:
    asked: list[str] = []

    @rm.metric
    def moody(answer: str) -> float:
        """0.9 the first time, 0.5 the second time."""
        asked.append(answer)
        if answer == "3" and asked.count("3") > 1:
            raise ValueError("gone")
        return 0.9 if asked.count(answer) == 1 else 0.5

    rows = [{"id": str(n), "answer": str(n)} for n in range(20)]
    report = rm.Suite([moody]).evaluate(rows, repeat=2, progress=False)
    assert report.metrics["moody/mean"] == pytest.approx(0.9)
    report.check(moody=0.69, min_scored=0.9)
    with pytest.raises(GateError, match=r"moody/repeat_mean = 0\.7000 < 0\.8"):
        report.check(moody=0.8, min_scored=0.9)
    with pytest.raises(GateError, match="19 of 20 rows were measured"):
        report.check(moody=0.1, min_scored=0.96)
    with pytest.raises(InvalidOptionError, match="repeat=0"):
        rm.Suite([moody]).evaluate(rows, repeat=0)


def test_a_repeat_in_which_no_judge_answered_is_not_complete() -> None:
    calls = iter(range(10**6))

    def reply(said: object) -> object:
        return json.dumps({"grades": [{"id": "a", "reason": "", "grade": 5}]}) if next(calls) < 1 else OSError("gone")

    judge = rm.ChatJudge(FakeChatModel(reply=reply), name="chat", attempts=1)
    rows = [{"id": "1", "question": "Why?", "answer": "So."}]
    report = rm.Suite(["answer_relevance"], judge=judge).evaluate(rows, repeat=2, progress=False)
    assert report.incomplete is not None
    with pytest.raises(GateError, match="not complete"):
        report.check(answer_relevance=0.0)
