"""The n-th call to the disk or the store fails, for every n: what is done is right, and what is not is said."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlflow
import pytest
from langchain_core.runnables import RunnableLambda
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

import mlflow_ragmetrics as rm

ROWS = [{"question": f"Why {n}?", "answer": f"Because of {n}.", "reference": f"For {n}."} for n in range(3)]
_STORE = ("create_run", "update_run_info", "get_run", "log_batch", "log_inputs", "set_tag", "_search_runs")
_TRACES = ("start_trace", "log_spans", "link_traces_to_run", "search_traces")
_SUITE = rm.Suite(["rouge", "lexical_relevance"])


class Shim:
    """Counts the calls, and lets the ``nth`` one fail."""

    def __init__(self) -> None:
        self.calls, self.nth, self.named = 0, 0, ""

    def around(self, owner: Any, name: str, patch: pytest.MonkeyPatch, error: Callable[[], Exception]) -> None:
        real = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.nth:
                self.named = name
                raise error()
            return real(*arguments, **options)

        patch.setattr(owner, name, counted)


@pytest.fixture
def shim() -> Callable[[], Any]:
    @contextmanager
    def shim(nth: int) -> Iterator[Shim]:
        counter = Shim()
        counter.nth = nth
        with pytest.MonkeyPatch.context() as patch:
            for name in (*_STORE, *_TRACES):
                counter.around(SqlAlchemyStore, name, patch, lambda: MlflowException("the store failed"))
            for name in ("log_artifact", "log_artifacts", "list_artifacts"):
                counter.around(LocalArtifactRepository, name, patch, lambda: OSError(28, "No space left on device"))
            counter.around(os, "replace", patch, lambda: OSError(5, "Input/output error"))
            yield counter

    return shim


def complete(run_id: str, *, traces_written: bool = True) -> None:
    run = mlflow.get_run(run_id)
    assert run.data.metrics["rouge1_f1/n_scored"] == len(ROWS)
    assert len(mlflow.load_table("rag_rows.json", [run_id])) == len(ROWS)
    traces = mlflow.search_traces([run.info.experiment_id], return_type="list")
    mine = [trace for trace in traces if trace.info.tags.get("ragmetrics.run") == run_id]
    assert [len(each.info.assessments) for each in mine] == ([3] * len(ROWS) if traces_written else [])


@pytest.mark.timeout(1800)
def test_evaluate_and_log(shim: Callable[[int], Any]) -> None:
    with shim(0) as counter:
        complete(_SUITE.evaluate(ROWS).log())
    outcomes = []
    for nth in range(1, counter.calls + 1):
        report = _SUITE.evaluate(ROWS)
        said: Exception | None = None
        with shim(nth) as failing, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                run_id = report.log()
            except rm.RagMetricsError as error:
                said = error
        if said is None:
            run = mlflow.get_run(run_id)
            assert run.data.tags["ragmetrics.status"] == "complete"
            untraced = any("no traces were written" in str(each.message) for each in warned)
            complete(run_id, traces_written=not untraced)
        else:
            assert "\n" not in str(said)
            complete(report.log())
        outcomes.append((failing.named, "said" if said else "warned" if untraced else "done"))
    for run in mlflow.search_runs(output_format="list"):
        assert (run.info.status == "FINISHED") <= (run.data.tags.get("ragmetrics.status") == "complete"), run
    print(f"\n{len(outcomes)} calls: {outcomes}")


@pytest.mark.timeout(1800)
def test_live_scoring(shim: Callable[[int], Any], tmp_path: Path) -> None:
    chain = RunnableLambda(lambda question: f"Because of {question}")

    def live() -> tuple[str, rm.RagMetricsCallback]:
        with mlflow.start_run() as run:
            pass
        handler = rm.RagMetricsCallback(["lexical_relevance"], run_id=run.info.run_id, spill=tmp_path / "spill")
        return run.info.run_id, handler

    def use(handler: rm.RagMetricsCallback) -> bool:
        for row in ROWS:
            chain.invoke(row["question"], {"callbacks": [handler]})
        return handler.close(60)

    run_id, handler = live()
    with shim(0) as counter:
        assert use(handler)
    for nth in range(1, counter.calls + 1):
        run_id, handler = live()
        with shim(nth):
            assert use(handler), nth
        assert (handler.counts["written"], handler.counts["unwritten"], handler.counts["lost"]) == (3, 0, 0)
        table = mlflow.load_table("rag_rows.json", [run_id])
        assert sorted(table["question"]) == [row["question"] for row in ROWS], nth
        points = mlflow.MlflowClient().get_metric_history(run_id, "lexical_relevance")
        assert sorted(point.step for point in points) == [0, 1, 2], nth
    print(f"\n{counter.calls} calls")
