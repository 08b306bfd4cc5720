"""Test each row of a data set. The stand-in model cannot answer two of the questions, so these tests fail.

::

    pytest examples/ci/test_answers.py                              # offline judge
    pytest examples/ci/test_answers.py --ragmetrics-judge openai:/gpt-4o-mini --ragmetrics-report run
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import mlflow_ragmetrics as rm

sys.path.insert(0, str(Path(__file__).parents[1]))

from corpus.chain import made_chain, read_questions

rows = pytest.mark.ragmetrics(
    read_questions(), suite=["faithfulness", "answer_relevance"], chain=made_chain(None, count=2)
)


@rows
def test_answer_is_in_the_passages(rag_row: rm.Row) -> None:
    """One test for each question; the first test runs and judges all of them once."""
    rm.assert_score("faithfulness >= 0.8", rag_row)


@rows
def test_means(rag_report: rm.Report) -> None:
    """A gate on the figures of all rows."""
    rag_report.check(faithfulness=0.9, answer_relevance=0.3, min_scored=0.9)


@pytest.mark.skipif("OPENAI_API_KEY" not in os.environ, reason="needs a key")
def test_one_answer_by_a_model() -> None:
    """Skipped if OPENAI_API_KEY is not set."""
    sample = {"answer": "The tower is 330 metres high.", "contexts": ["The tower measures 330 m in height."]}
    rm.assert_score("faithfulness >= 0.8", sample, judge="openai:/gpt-4o-mini", cache="ragmetrics-cache.db")
