"""What a watch concludes from its passes, and that it goes on from what it has kept."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.monitoring.state import Alarm, WatchState
from mlflow_ragmetrics.text.messages import render

ANCHORS = 20


def kept(state: WatchState) -> WatchState:
    return WatchState.from_dict(json.loads(json.dumps(state.to_dict())))


def watched(live: Callable[[int], float], judge: Callable[[int], float], passes: int = 120) -> list[Alarm]:
    """The alarms of a watch in which quality and judge have these means, with a restart after each pass."""
    generator = np.random.default_rng(3)
    state = WatchState(["faithfulness"], anchors="a file")
    truth = generator.uniform(0.5, 0.9, ANCHORS)
    for number in range(passes):
        strictness = judge(number)

        def anchors(strictness: float = strictness) -> dict[str, list[float]]:
            noise = generator.normal(0, 0.03, ANCHORS)
            return {"faithfulness": list(np.clip(truth + noise - strictness, 0, 1))}

        state.begin(number)
        values = generator.normal(live(number) - strictness, 0.15, 8)
        state.observe({"faithfulness": list(np.clip(values, 0, 1))})
        state.observe_anchors(anchors())
        state.new_alarms(anchors)
        state = kept(state)
    return state.alarms


def test_nothing_is_said_where_nothing_changes() -> None:
    assert watched(lambda _: 0.8, lambda _: 0.0) == []


def test_a_system_that_gets_worse_is_told_from_a_judge_that_gets_stricter() -> None:
    (system,) = watched(lambda number: 0.8 if number < 60 else 0.6, lambda _: 0.0)
    assert (system.kind, system.cause) == ("quality fell", "system")
    assert system.before is not None
    assert system.after is not None
    assert system.before - system.after > 0.1
    assert 55 <= system.since <= 66
    assert "judge scores the anchors as before" in system.text
    assert re.search(
        r"^faithfulness: качество снизилось с 0\.\d+ до 0\.\d+.*Изменилась система", render(system.text, "ru")
    )
    (judge,) = watched(lambda _: 0.8, lambda number: 0.0 if number < 60 else 0.2)
    assert judge.cause == "judge"
    assert "The judge has changed" in judge.text


def test_a_judge_that_gets_more_lenient_is_noticed_though_no_figure_falls() -> None:
    (judge,) = watched(lambda _: 0.7, lambda number: 0.0 if number < 60 else -0.1)
    assert (judge.kind, judge.cause) == ("judge changed", "judge")
    assert judge.judge_shift is not None
    assert judge.judge_shift < -0.05
    assert f"The judge's scores of the anchors rose by {-judge.judge_shift:.3f} (0." in judge.text
    assert "Оценки контрольных строк судьёй выросли на" in render(judge.text, "ru")


def test_without_anchors_the_cause_is_not_known() -> None:
    state = WatchState(["faithfulness"])
    for number in range(100):
        state.begin(number)
        state.observe({"faithfulness": [0.9, 0.8, 0.85] if number < 50 else [0.5, 0.4, 0.45]})
        state.new_alarms()
    assert [alarm.cause for alarm in state.alarms] == ["not known"]


def test_a_limit_raises_an_alarm_of_its_own_and_rebasing_ends_all_of_them() -> None:
    state = WatchState(["faithfulness"], limits={"faithfulness": 0.7})
    for number in range(60):
        state.begin(number)
        state.observe({"faithfulness": [0.5, 0.6]})
        state.new_alarms()
    (alarm,) = state.alarms
    assert (alarm.kind, alarm.limit) == ("below limit", 0.7)
    state.rebase()
    assert state.alarms == []
    assert kept(state).limits == {"faithfulness": 0.7}


def row(name: str, value: float | None, lower: bool = False) -> Row:
    return Row(Sample(id=name), {"faithfulness": Score(value=value, higher_is_better=not lower)})


def test_a_row_counts_once_and_a_conversation_once() -> None:
    state = WatchState(["faithfulness"])
    state.begin(0)
    assert state.count([row("a", 0.5), row("b", 1.0)], [1, 2]) == 2
    assert state.count([row("a", 0.5)], [1]) == 0
    assert state.count([row("c", 1.0), row("d", 0.0)], [3, 4], ["talk", "talk"]) == 1
    assert state.figures["faithfulness/anytime_n"] == 3
    assert state.figures["faithfulness/mean"] == pytest.approx(2 / 3)
    assert kept(state).count([row("b", 1.0)], [2]) == 0
    state.forget_before(3)
    assert state.count([row("a", 0.5)], [1]) == 1  # nobody looks there again


def test_what_was_not_measured_does_not_count() -> None:
    state = WatchState(["faithfulness"], limits={"faithfulness": 0.7})
    for number in range(60):
        state.begin(number)
        vacuous = Score(value=1.0, details={"unmeasured": True})
        rows = [Row(Sample(id=f"v {number} {each}"), {"faithfulness": vacuous}) for each in range(6)]
        state.count([*rows, row(f"{number}", 0.4)], [number] * 7)
        state.new_alarms()
    assert state.figures["faithfulness/mean"] == pytest.approx(0.4)
    assert [alarm.kind for alarm in state.alarms] == ["below limit"]


def test_of_a_metric_that_is_better_the_lower_a_rise_is_the_fall() -> None:
    state = WatchState(["faithfulness"])
    for number in range(80):
        state.begin(number)
        value = 0.1 if number < 40 else 0.5
        state.count([row(f"{number} {each}", value, lower=True) for each in range(4)], [number] * 4)
        state.new_alarms()
    (alarm,) = state.alarms
    assert alarm.before is not None
    assert alarm.before > 0.8


def test_values_of_several_means_have_no_interval() -> None:
    state = WatchState(["faithfulness"])
    state.begin(0)
    for start, value in ((0, 0.1), (400, 1.0)):
        state.count([row(str(start + number), value) for number in range(400)], [0] * 400)
    assert state.figures["faithfulness/changed"] == 1
    assert "faithfulness/anytime_low" not in state.figures


def test_an_anchor_that_could_not_be_scored_is_left_out() -> None:
    state = WatchState(["faithfulness"], anchors="a file")
    for number, value in enumerate((math.nan, 0.5, 0.75)):
        state.begin(number)
        state.observe_anchors({"faithfulness": [0.5, value]})
    assert state.figures["anchors/faithfulness/shift"] == pytest.approx(0.125)


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(InvalidDataError, match="not the state of a watch"):
        WatchState.from_dict({"keys": []})
