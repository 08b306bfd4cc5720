"""Evaluators for LangSmith, openevals and agentevals: functions of inputs, outputs and references."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypedDict

from mlflow_ragmetrics.core.safe_text import as_json
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.memory import Recent
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.threads import settle
from mlflow_ragmetrics.rows.chat_messages import messages_of
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.suite import Suite, SuiteLike


class EvaluatorResult(TypedDict):
    """An evaluator's result. If ``score`` is ``None``, ``comment`` has the reason."""

    key: str
    score: float | None
    comment: str


def langsmith_evaluators(suite: SuiteLike) -> list[Callable[..., EvaluatorResult]]:
    """One evaluator per metric of the suite, with the keyword arguments of openevals; each example is scored once.

    Use them in ``langsmith.evaluate(…, evaluators=…)``, also together with evaluators of openevals and agentevals.
    ``inputs`` and ``outputs`` are a text, a mapping or messages. ``context`` has the contexts; by default they are the
    tool results in the messages. ``reference_outputs`` is the expected answer or a mapping with it.

    >>> [evaluator] = langsmith_evaluators("coherence")
    >>> evaluator(inputs="What is there?", outputs={"answer": "The tower is red. It stands at the sea."})["score"]
    1.0
    """
    suite = Suite.of(suite)
    shared = _SharedScores(suite)
    return [_evaluator(key, shared) for key in suite.keys]


def _evaluator(key: str, shared: _SharedScores) -> Callable[..., EvaluatorResult]:
    def evaluator(
        *, inputs: Any = None, outputs: Any = None, reference_outputs: Any = None, context: Any = None
    ) -> EvaluatorResult:
        texts = {"inputs": inputs, "outputs": outputs, "reference_outputs": reference_outputs}
        score = shared.scores(texts, context)[key]
        comment = score.reason if score.measured else f"not measured: {score.cause}"
        return {"key": key, "score": score.measurement, "comment": comment}

    evaluator.__name__ = evaluator.__qualname__ = key
    return evaluator


class _SharedScores:
    """The scored examples: the evaluators of an example share one evaluation, also in different threads."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._lock = threading.Lock()
        self._rows = Recent[str, Future[Row]](200)

    def scores(self, texts: Mapping[str, Any], context: Any) -> Mapping[str, Score]:
        record = {name: _as_mapping(value) for name, value in texts.items()} | {"contexts": context}
        sample = to_sample({name: value for name, value in record.items() if value is not None})
        key = as_json([sample.question, sample.answer, sample.references, sample.texts, sample.retrieved_doc_ids])
        with self._lock:
            row, is_first = self._rows.get(key), key not in self._rows
            if row is None:
                row = self._rows[key] = Future()
        if is_first:
            settle(row, lambda: next(iter(self._suite.score_samples([sample]))))
            if row.exception() is not None:  # such as Ctrl-C: the next evaluation asks again
                self._rows.pop(key, None)
        return row.result().scores


def _as_mapping(value: Any) -> Any:
    """A list of messages as a mapping with ``messages``; anything else unchanged."""
    is_conversation = isinstance(value, Sequence) and not isinstance(value, str) and messages_of(value)
    return {"messages": list(value)} if is_conversation else value
