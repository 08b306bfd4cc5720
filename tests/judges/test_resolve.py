from __future__ import annotations

from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.resolve import Panel
from tests.judges.fake_models import dutiful


def test_a_panel_is_a_list_of_judges() -> None:
    panel = Panel(["lexical", dutiful(model="a")], aggregate="median", tolerance=0.2)
    assert [judge.name for judge in panel] == ["lexical", "a"]
    assert len(panel) == 2
    assert (panel.aggregate, panel.tolerance) == ("median", 0.2)


@pytest.mark.parametrize(
    ("judges", "options", "param"),
    [
        ([], {}, "judge"),
        ("lexical", {}, "judges"),
        (["lexical"], {"aggregate": "mode"}, "aggregate"),
        (["lexical"], {"tolerance": -1}, "tolerance"),
        (["lexical", "lexical"], {}, "judge"),
    ],
)
def test_what_makes_no_panel_is_refused(judges: Any, options: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidOptionError) as raised:
        Panel(judges, **options)
    assert raised.value.param == param


PRICES = {"input": 1, "output": 2}


@pytest.mark.parametrize(
    ("own", "options", "param"),
    [
        ({}, {"max_cost": 1, "prices": PRICES}, "max_cost"),
        ({"max_cost": 2, "prices": PRICES}, {"max_cost": 1, "prices": PRICES}, "max_cost"),
        ({}, {"max_calls": 5}, "max_calls"),
        ({}, {"prices": PRICES}, "prices"),
        ({"max_cost": 1, "prices": PRICES}, {"max_cost": 1, "prices": PRICES}, None),
        ({"max_calls": 3}, {"max_calls": 5}, None),
        ({}, {"calls": "full"}, None),
    ],
)
def test_a_limit_that_has_no_effect_on_a_ready_judge_is_refused(own: Any, options: Any, param: str | None) -> None:
    judge = ChatJudge(dutiful(), **own)
    if param is None:
        assert rm.Suite(["faithfulness"], judge=judge, **options).replace(name_prefix="a_").judges == [judge]
        return
    with pytest.raises(InvalidOptionError, match="no effect on the ready judge 'fake'; give") as caught:
        rm.Suite(["faithfulness"], judge=[judge, "lexical"], **options)
    assert caught.value.param == param
