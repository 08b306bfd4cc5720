"""Use MLflow's test runs (MLflow 3.14), which collect traces and feedback of all tests of a session in one run::

pytest -p mlflow.pytest.plugin examples/ci/test_mlflow_run.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import mlflow

import mlflow_ragmetrics as rm

sys.path.insert(0, str(Path(__file__).parents[1]))

from corpus.chain import made_chain, read_questions

mlflow.langchain.autolog()


@mlflow.test
def test_in_a_test_run_of_mlflow() -> None:
    """The thresholds of the scorers decide ``result.passed``; ``result.reason`` names the failures."""
    chain = made_chain(None, count=2)
    data = [{"inputs": {"question": row["question"]}} for row in read_questions()[:3]]
    scorers = [rm.get_scorer("faithfulness(threshold=0.8)")]
    result = mlflow.genai.evaluate(data=data, predict_fn=lambda question: chain.invoke(question), scorers=scorers)
    assert result.passed, result.reason
