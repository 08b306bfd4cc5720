"""What is sent to Spark's workers."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.spark import Recipe, is_remote, score_spark, suite_of


def test_the_paths_of_a_file_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("MLFLOW_DEPLOYMENTS_TARGET", "http://127.0.0.1:9")
    path = tmp_path / "suite.yaml"
    path.write_text(
        "metrics: [rouge, correctness]\nconcurrency: 16\nprompts: words\nrate_limit: {requests_per_minute: 90}\n"
        "judges: [{model: 'endpoints:/a', max_calls: 40, rate_limit: {tokens_per_minute: 9}}, 'endpoints:/b']\n"
    )
    (tmp_path / "words").mkdir()
    recipe = Recipe.of(path, {})
    assert recipe.suite["prompts"] == str(tmp_path / "words")
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
        score_spark(None, ["rouge"], workers=0)  # type: ignore[arg-type]
