"""A suite whose judge counts its questions."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from tests.adapters.doors import WordJudge


@pytest.fixture
def judge() -> WordJudge:
    return WordJudge()


@pytest.fixture
def suite(judge: WordJudge) -> rm.Suite:
    overall = rm.composite("overall", {"faithfulness": 0.5, "rouge1_f1": 0.5})
    return rm.Suite(["faithfulness", "fact_recall", "rouge", overall], judge=judge)
