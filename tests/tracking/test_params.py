"""Params that explain a difference, in the form that MLflow accepts."""

from __future__ import annotations

import pytest

from mlflow_ragmetrics.tracking.writer import LONGEST_PARAM, new_params, params_of


def test_lists_are_joined_mappings_become_json_and_nothing_is_empty() -> None:
    given = {"judge": ["a", "b"], "weights": {"x": 0.5}, "thresholds": {}, "nothing": None, "k": 5, "flag": False}
    assert params_of(given) == {"judge": "a, b", "weights": '{"x": 0.5}', "k": "5", "flag": "False"}


def test_secrets_are_blotted_out_and_long_values_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "abcdefgh12345678")
    params = params_of({"judge": "https://host/?key=abcdefgh12345678", "long": "я" * 10_000})
    assert "abcdefgh" not in params["judge"]
    assert len(params["long"]) == LONGEST_PARAM


def test_params_that_a_run_has_are_left_as_they_are() -> None:
    wanted = {"judge": "ours", "language": "en", "k": "5"}
    assert new_params(wanted, {}) == wanted
    assert new_params(wanted, wanted) == {}
    assert new_params({"judge": "ours"}, {"judge": "theirs"}) == {"ragmetrics.judge": "ours"}
    assert new_params({"judge": "ours"}, {"judge": "theirs", "ragmetrics.judge": "ours"}) == {}
    with pytest.warns(UserWarning, match="judge"):
        assert new_params({"judge": "ours"}, {"judge": "theirs", "ragmetrics.judge": "older"}) == {}
