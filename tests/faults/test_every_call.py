"""The n-th call to the disk or the store fails or is interrupted, for every n: unfinished work is always reported."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import mlflow
import pytest
from langchain_core.runnables import RunnableLambda
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from sqlalchemy.engine.default import DefaultExecutionContext

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.tracking import run as run_module
from mlflow_ragmetrics.tracking.outbox import Outbox
from tests.faults.budget import LONG
from tests.live_answers import questions

ROWS = [{"question": f"Why {n}?", "answer": f"Because of {n}.", "reference": f"For {n}."} for n in range(3)]
_STORE = ("create_run", "update_run_info", "get_run", "log_batch", "log_inputs", "set_tag", "_search_runs")
_TRACES = ("start_trace", "log_spans", "link_traces_to_run", "search_traces")
_DISK = (
    (os, "open"),
    (os, "replace"),
    (Path, "mkdir"),
    (Path, "open"),
    (Path, "touch"),
    (Path, "write_bytes"),
    (tempfile, "mkdtemp"),
)
_OUTBOX = (
    *("join", "adopt", "append", "counts", "take_written", "take_lease", "end_lease", "note_measured"),
    *("note", "leave", "forget"),
)
_SUITE = rm.Suite(["rouge", "lexical_relevance"])


class Shim:
    """Counts the calls, and makes the ``nth`` one fail."""

    def __init__(self) -> None:
        self.calls, self.nth, self.named = 0, 0, ""

    def around(self, owner: Any, name: str, patch: pytest.MonkeyPatch, error: Callable[[], Exception]) -> None:
        """Makes ``owner.name`` raise the error on the ``nth`` of all counted calls."""
        real = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.nth:
                self.named = f"{owner.__name__}.{name}"
                raise error()
            return real(*arguments, **options)

        patch.setattr(owner, name, counted)


@contextmanager
def shim(nth: int) -> Iterator[Shim]:
    """The ``nth`` call fails; 0 for none."""
    counter = Shim()
    counter.nth = nth
    with pytest.MonkeyPatch.context() as patch:
        for name in (*_STORE, *_TRACES):
            counter.around(SqlAlchemyStore, name, patch, lambda: MlflowException("the store failed"))
        for owner, name in (*_DISK, (LocalArtifactRepository, "list_artifacts")):
            counter.around(owner, name, patch, lambda: OSError(28, "No space left on device"))
        for name in _OUTBOX:
            counter.around(Outbox, name, patch, lambda: sqlite3.OperationalError("database or disk is full"))
        yield counter


def complete(run_id: str, *, traces_written: bool = True) -> None:
    run = mlflow.get_run(run_id)
    assert "rouge1_f1/mean" in run.data.metrics
    assert len(mlflow.load_table("rag_rows.json", [run_id])) == len(ROWS)
    traces = mlflow.search_traces([run.info.experiment_id], return_type="list")
    mine = [trace for trace in traces if trace.info.tags.get("ragmetrics.run") == run_id]
    assert [len(each.info.assessments) for each in mine] == ([3] * len(ROWS) if traces_written else [])


@pytest.mark.timeout(1800)
def test_evaluate_and_log() -> None:
    report = _SUITE.evaluate(ROWS)
    with shim(0) as counter:
        run_id = report.log()
    complete(run_id)
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
    print(f"\n{len(outcomes)} calls: {Counter(outcomes)}")


@pytest.mark.timeout(1800)
def test_live_scoring() -> None:
    chain = RunnableLambda(lambda question: f"Because of {question}")

    def live() -> tuple[str, rm.RagMetricsCallback]:
        with mlflow.start_run() as run:
            pass
        handler = rm.RagMetricsCallback(["lexical_relevance"], run_id=run.info.run_id)
        return run.info.run_id, handler

    def use(handler: rm.RagMetricsCallback) -> bool:
        for row in ROWS:
            chain.invoke(row["question"], {"callbacks": [handler]})
        return handler.close(60)

    run_id, handler = live()
    with shim(0) as counter:
        assert use(handler)
    outcomes: list[str] = []
    for nth in range(1, counter.calls + 1):
        run_id, handler = live()
        with shim(nth) as failing:
            assert use(handler), (nth, failing.named)
        assert (handler.counts["written"], handler.counts["unwritten"], handler.counts["lost"]) == (3, 0, 0), nth
        outcomes.append(failing.named)
        assert questions(run_id) == [row["question"] for row in ROWS], nth
        points = mlflow.MlflowClient().get_metric_history(run_id, "lexical_relevance")
        assert sorted(point.step for point in points) == [0, 1, 2], nth
    print(f"\n{len(outcomes)} calls: {Counter(outcomes)}")


def said_of_new_runs(seen: set[str]) -> list[tuple[str, str]]:
    """Status and ``ragmetrics.status`` of the runs that did not exist before, as another process reads them."""
    query = "SELECT run_uuid, status, value FROM runs JOIN tags USING (run_uuid) WHERE key = 'ragmetrics.status'"
    with contextlib.closing(sqlite3.connect(mlflow.get_tracking_uri().removeprefix("sqlite:///"))) as store:
        found = [each for each in store.execute(query) if each[0] not in seen]
    seen |= {each[0] for each in found}
    return [(status, said) for _, status, said in found]


@contextmanager
def each_statement(tick: Callable[[], None]) -> Iterator[None]:
    """Calls ``tick`` after each statement of the store, whose file may then be locked."""
    real = DefaultExecutionContext._setup_result_proxy
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefaultExecutionContext, "_setup_result_proxy", lambda context: (tick(), real(context))[1])
        yield


@contextmanager
def each_line(tick: Callable[[], None]) -> Iterator[None]:
    """Calls ``tick`` before each line of a run's beginning and end."""

    def at_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            tick()
        return at_line

    def at_call(frame: FrameType, event: str, _: Any) -> Any:
        code, caller = frame.f_code, frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        ours = code.co_filename == run_module.__file__
        of_ours = code.co_filename == contextlib.__file__ and caller == run_module.__file__
        of_mlflow = code.co_filename == mlflow.tracking.fluent.__file__ and code.co_name in ("start_run", "end_run")
        return at_line if ours or of_ours or of_mlflow else None

    before = sys.gettrace()
    sys.settrace(at_call)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("points", "step"), [(each_statement, 9), (each_line, 4)], ids=["statement", "line"])
def test_an_interruption(points: Callable[..., Any], step: int) -> None:
    """A run that was begun is marked as interrupted, unless the interruption came after its end."""
    at_lines = points is each_line
    report = _SUITE.evaluate(ROWS[:1] if at_lines else ROWS)
    passed = nth = 0

    def tick() -> None:
        nonlocal passed
        passed += 1
        if passed == nth:
            raise KeyboardInterrupt

    def log() -> None:
        with points(tick):
            report.log(run_name=f"run {nth}", **({"traces": False, "dataset": False} if at_lines else {}))

    log()
    seen: set[str] = set()
    said_of_new_runs(seen)
    outcomes: Counter[str] = Counter()
    for nth in range(1, passed + 1, 1 if LONG else step):
        passed, found = 0, None
        try:
            log()
        except KeyboardInterrupt:
            # the interruption still holds its frames, as at the command's end; after it, the run's end is complete
            found = None if at_lines else said_of_new_runs(seen)
            ends = [[], [("FAILED", "failed: interrupted")], *([[("FINISHED", "complete")]] * at_lines)]
        else:  # in another thread, or where MLflow continues without it
            ends = [[("FINISHED", "complete")]]
        found = said_of_new_runs(seen) if found is None else found
        assert found in ends, nth
        outcomes[found[0][1] if found else "before the run"] += 1
        assert mlflow.active_run() is None, nth
    print(f"\n{dict(outcomes)}")
