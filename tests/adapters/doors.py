"""The doors through which a suite can score the same rows; each function returns the metrics of the run."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import mlflow
import pandas as pd
import pytest
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Verify
from mlflow_ragmetrics.errors import JudgeError

__all__ = ["DOORS", "Door", "FailingJudge", "WordJudge", "directly", "quiet", "suite_of"]

Rows = Sequence[dict[str, Any]]
Door = Callable[..., dict[str, float]]
ROWS: list[dict[str, Any]] = [
    {
        "id": f"r{number}",
        "question": f"How tall is tower {number}?",
        "answer": f"Tower {number} is {number}0 metres tall. It is blue [1].",
        "reference": f"Tower {number} is {number}0 metres tall.",
        "contexts": [f"Tower {number} is {number}0 metres tall and red.", "It rains at the sea."],
        "retrieved_doc_ids": [f"tower-{number}", "rain"],
        "gold_doc_ids": [f"tower-{number}"],
    }
    for number in (1, 2, 3)
]
COLUMNS = {name: name for name in ROWS[0] if name not in ("answer", "reference")}


class WordJudge:
    """Claims are sentences, supported if a passage contains them. Counts its questions and fails on demand."""

    name = "words"

    def __init__(self) -> None:
        self.asked: Counter[Any] = Counter()
        self.lock = threading.Lock()

    def answer(self, questions: Any) -> list[Any]:
        time.sleep(0.005)
        with self.lock:
            self.asked.update(questions)
        return [self._answer(question) for question in questions]

    def _answer(self, question: Any) -> Any:
        if isinstance(question, Claims):
            return JudgeError("status 429: rate limit") if "FAIL" in question.text else question.text.split(". ")
        if not isinstance(question, Verify):
            return ()
        found = (any(claim in passage for passage in question.passages) for claim in question.claims)
        return [rm.Finding("SUPPORTED" if each else "NEUTRAL") for each in found]


class FailingJudge(rm.Judge):
    """The offline judge, but with an error for the questions whose text ``fails`` picks. Counts its questions."""

    name = "failing"

    def __init__(
        self, fails: Callable[[str], bool] = lambda text: True, error: JudgeError | str = "no answer today"
    ) -> None:
        self.fails = fails
        self.error = JudgeError(error) if isinstance(error, str) else error
        self.other = rm.LexicalJudge()
        self.asked = 0

    def answer(self, questions: Sequence[Any]) -> Sequence[Any]:
        self.asked += len(questions)
        answers = self.other.answer(questions)
        return [self.error if self.fails(str(q)) else a for q, a in zip(questions, answers, strict=True)]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few threads and no messages of MLflow; a test file that imports it uses it."""
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "2")
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    yield
    logging.getLogger("mlflow").setLevel(logging.NOTSET)


def suite_of(name: str) -> rm.Suite:
    kind, _, preset = name.rpartition("preset ")
    return rm.Suite([preset]) if preset == name or kind else rm.Suite.preset(preset)


def directly(suite: rm.Suite) -> dict[str, float]:
    return dict(suite.evaluate(ROWS, progress=False).metrics)


def frame_of(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame([{name: row.get(name) for name in ROWS[0]} for row in rows])


def evaluated_models(suite: rm.Suite, rows: Rows = ROWS) -> Any:
    columns = {name: name for name in COLUMNS if name in rows[0]}
    made = rm.extra_metrics(suite, columns)
    return mlflow.models.evaluate(data=frame_of(rows), predictions="answer", targets="reference", extra_metrics=made)


def extra_metrics(suite: rm.Suite, rows: Rows = ROWS) -> dict[str, float]:
    evaluated_models(suite, rows)
    return logged()


def plugin(suite: rm.Suite, rows: Rows = ROWS) -> dict[str, float]:
    mlflow.models.evaluate(
        data=frame_of(rows),
        predictions="answer",
        targets="reference",
        model_type="rag",
        evaluators="ragmetrics",
        evaluator_config={"suite": suite},
    )
    return logged()


def genai(suite: rm.Suite, rows: Rows = ROWS) -> dict[str, float]:
    made = rm.scorer(suite)
    made.log(mlflow.genai.evaluate(data=genai_rows(rows), scorers=[made]))
    return logged()


def genai_each(suite: rm.Suite, rows: Rows = ROWS) -> dict[str, float]:
    made = rm.scorers(suite)
    made[0].log(mlflow.genai.evaluate(data=genai_rows(rows), scorers=made))
    return logged()


def genai_rows(rows: Rows = ROWS) -> list[dict[str, Any]]:
    def part(row: dict[str, Any], **names: str) -> dict[str, Any]:
        return {name: row[field] for name, field in names.items() if row.get(field) is not None}

    return [
        {
            "inputs": part(row, id="id", question="question", contexts="contexts"),
            "outputs": part(row, answer="answer", retrieved_doc_ids="retrieved_doc_ids"),
            "expectations": {
                **part(row, expected_response="reference"),
                **({"expected_retrieved_context": _uris(row)} if row.get("gold_doc_ids") else {}),
            },
        }
        for row in rows
    ]


def _uris(row: dict[str, Any]) -> list[dict[str, str]]:
    return [{"doc_uri": uri} for uri in row["gold_doc_ids"]]


def callback(suite: rm.Suite, rows: Rows = ROWS) -> dict[str, float]:
    known = {row["id"]: row for row in rows}

    def contexts(outputs: Any, inputs: Any) -> list[Any]:
        ids = known[inputs["id"]].get("retrieved_doc_ids", ())
        return [{"text": text, "id": uri} if uri else text for text, uri in zip_longest(outputs["contexts"], ids)]

    chain = RunnableLambda(lambda inputs: {name: known[inputs["id"]][name] for name in ("answer", "contexts")})
    with rm.RagMetricsCallback(
        suite,
        contexts=contexts,
    ) as handler:
        for row in rows:
            inputs = {"id": row["id"], "question": row["question"]}
            metadata = {name: row[name] for name in ("id", "reference", "gold_doc_ids") if name in row}
            chain.invoke(inputs, {"callbacks": [handler], "metadata": metadata})
        assert handler.flush(60)
        assert (handler.counts["seen"], handler.counts["dropped"]) == (len(rows), 0)
    return logged()


def logged() -> dict[str, float]:
    (run,) = mlflow.search_runs(output_format="list")
    return dict(run.data.metrics)


DOORS = [pytest.param(door, id=door.__name__) for door in (extra_metrics, plugin, genai, genai_each, callback)]
