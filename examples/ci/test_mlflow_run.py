"""MLflow's own test runs (MLflow 3.14), in which traces and feedback go into one run for all tests of a session::

pytest -p mlflow.pytest.plugin examples/ci/test_mlflow_run.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import mlflow

import mlflow_ragmetrics as rm

sys.path.insert(0, str(Path(__file__).parents[1]))

from score_a_chain import made_chain, read_questions

mlflow.langchain.autolog()


@mlflow.test
def test_in_a_test_run_of_mlflow() -> None:
    """Thresholds of scorers decide ``result.passed``; ``result.reason`` names what failed."""
    chain = made_chain(None, count=2)
    data = [{"inputs": {"question": row["question"]}} for row in read_questions()[:3]]
    scorers = [rm.get_scorer("faithfulness(threshold=0.8)")]
    result = mlflow.genai.evaluate(data=data, predict_fn=lambda question: chain.invoke(question), scorers=scorers)
    assert result.passed, result.reason
