"""One budget divided among several workers."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.spark.score_frame import Recipe, is_remote, suite_of
from mlflow_ragmetrics.errors import InvalidOptionError

WHOLE = ("concurrency", "max_calls", "requests_per_minute", "tokens_per_minute")
limits = st.fixed_dictionaries(
    {"concurrency": st.integers(1, 200)},
    optional={**{name: st.integers(1, 10_000) for name in WHOLE[1:]}, "max_cost": st.floats(0.01, 100)},
)


@given(limits, st.integers(1, 500))
def test_the_shares_never_exceed_the_whole_and_each_allows_a_call(options: dict[str, Any], workers: int) -> None:
    recipe = Recipe("lexical", options)
    tasks = recipe.most_workers(workers)
    assert 1 <= tasks <= workers
    share = recipe.divided(tasks).options
    for name, value in share.items():
        assert tasks * value <= options[name] * (1 + 1e-12)
    assert all(share[name] >= 1 for name in WHOLE if name in share)


def test_the_limits_of_each_judge_in_a_file_are_shared(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    path = tmp_path / "suite.yaml"
    path.write_text(
        "metrics: [rouge, correctness]\nconcurrency: 16\nprompts: words\nrate_limit: {requests_per_minute: 90}\n"
        "judges: [{model: 'endpoints:/a', max_calls: 40, rate_limit: {tokens_per_minute: 9}}, 'endpoints:/b']\n"
    )
    (tmp_path / "words").mkdir()
    recipe = Recipe.of(path, {})
    assert recipe.most_workers(100) == 9
    content = recipe.divided(8).suite
    assert (content["concurrency"], content["rate_limit"]) == (2, {"requests_per_minute": 11})
    assert content["judges"][0]["max_calls"] == 5
    assert content["prompts"] == str(tmp_path / "words")
    assert is_remote(recipe.build())


def test_one_suite_for_copies_of_a_recipe_and_another_for_another_of_the_same_words() -> None:
    first, second = Recipe(["rouge"], {}), Recipe(["rouge"], {})
    assert suite_of(pickle.loads(pickle.dumps(first))) is suite_of(first)
    assert suite_of(second) is not suite_of(first)


def test_what_cannot_travel_is_refused_with_the_way_out() -> None:
    pytest.importorskip("pyspark")

    class Connected:
        name = "connected"
        socket = None

        def __init__(self) -> None:
            self.lock = threading.Lock()

        def answer(self, questions: Any) -> list[Any]:
            return []

    with pytest.raises(InvalidOptionError, match="cannot be sent"):
        Recipe.of(rm.Suite(["rouge"]), {})
    with pytest.raises(InvalidOptionError, match=r"_thread\.lock.*by URI"):
        Recipe.of(["faithfulness"], {"judge": Connected()})
    with pytest.raises(InvalidOptionError, match="workers=0"):
        Recipe(["rouge"], {}).most_workers(0)
