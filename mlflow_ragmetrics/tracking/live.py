"""Rows into an MLflow run while they come: metrics with steps, tables that grow, feedback on the chain's traces."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.tracking.describe import new_params, params_of
from mlflow_ragmetrics.tracking.feedback import SOURCE_RUN, feedback_of
from mlflow_ragmetrics.tracking.run import few_attempts, note_failure, reason_of, write_errors
from mlflow_ragmetrics.tracking.writer import CLAIMS, ROWS, table_json

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Metric

__all__ = ["GrowingTable", "LiveRun", "TraceAbsentError", "end_run", "log_feedback", "new_run"]


class GrowingTable:
    """Rows on disk, one a line, from which a table in the form of MLflow's ``log_table`` is made.

    Adding rows does not read those before: parsing a long table would hold up the whole interpreter.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.columns: list[str] = []
        self.rows = 0
        self._lines = folder / f"{name}.lines"
        self._lines.touch()

    def extend(self, table: Mapping[str, Any]) -> None:
        """Add the rows of ``table`` (``columns`` and ``data``); columns that one of the sides lacks are null there."""
        fresh = [name for name in table["columns"] if name not in self.columns]
        if fresh and self.rows:
            self._widen(len(fresh))
        self.columns += fresh
        places = {name: place for place, name in enumerate(table["columns"])}
        self._add([row[places[name]] if name in places else None for name in self.columns] for row in table["data"])

    def write(self, folder: Path) -> None:
        """Write the table as the file ``name`` in ``folder``."""
        with (folder / self.name).open("w", encoding="utf-8") as target, self._lines.open(encoding="utf-8") as lines:
            target.write('{"columns": ' + as_json(self.columns) + ', "data": [\n')
            target.write(lines.readline())
            for line in lines:
                target.write("," + line)
            target.write("]}")

    def _add(self, rows: Iterable[Sequence[Any]]) -> None:
        with self._lines.open("a", encoding="utf-8") as lines:
            for row in rows:
                lines.write(as_json(row) + "\n")
                self.rows += 1

    def _widen(self, by: int) -> None:
        wider = self._lines.with_suffix(".wider")
        with self._lines.open(encoding="utf-8") as lines, wider.open("w", encoding="utf-8") as target:
            for line in lines:
                target.write(line.rstrip("\n").removesuffix("]") + ", null" * by + "]\n")
        shutil.move(wider, self._lines)


WINDOW = 50
_METRICS_A_BATCH = 900
_MARK_TAG = "ragmetrics.live"
_TABLES_TAG = "mlflow.loggedArtifacts"


class TraceAbsentError(RagMetricsError):
    """There is no trace of that id in the store (yet)."""


class LiveRun:
    """A run that rows are appended to. Each method may be called again after it failed, and repeats nothing.

    Who writes holds ``lock``. What goes to the store raises a ``RagMetricsError`` of one sentence when it does not.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.begun = False
        self.lock = threading.Lock()
        self._step = 0
        self._sums: dict[str, tuple[float, int]] = {}
        self._windows: dict[str, deque[float]] = {}
        folder = tempfile.mkdtemp(prefix="ragmetrics-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._tables = [GrowingTable(Path(folder), name) for name in (ROWS, CLAIMS)]

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return self._tables[0].rows

    def begin(self, description: Mapping[str, Any]) -> None:
        """Log what explains the run as params, and go on from the rows that it has already."""
        import mlflow

        with _explained(self.run_id):
            client = mlflow.MlflowClient()
            run = client.get_run(self.run_id)
            for name, value in new_params(params_of(description), run.data.params).items():
                client.log_param(self.run_id, name, value)
            for table in self._tables:
                stored = None if table.rows else self._stored(table.name)
                if stored is not None:
                    table.extend(stored)
                    self._continue_from(stored)
        self.begun = True

    def _continue_from(self, table: Mapping[str, Any]) -> None:
        self._step = self.rows
        for column, values in zip(table["columns"], zip(*table["data"], strict=True), strict=False):
            numbers = [value for value in values if isinstance(value, float)]
            self._sums[column] = (sum(numbers), len(numbers))
            self._windows[column] = deque(numbers[-WINDOW:], WINDOW)

    def check(self) -> None:
        """Nothing where the store answers; else the error."""
        import mlflow

        with _explained(self.run_id):
            mlflow.MlflowClient().get_run(self.run_id)

    def points(self, scores: Mapping[str, Score], time_ms: int) -> list[Metric]:
        """The metrics of the next row: ``<key>``, ``<key>/mean`` so far and ``<key>/rolling_mean`` (last 50)."""
        from mlflow.entities import Metric

        figures: dict[str, float] = {}
        for key, score in scores.items():
            if score.value is None:
                continue
            total, count = self._sums.get(key, (0.0, 0))
            self._sums[key] = total, count = total + score.value, count + 1
            window = self._windows.setdefault(key, deque(maxlen=WINDOW))
            window.append(score.value)
            figures |= {key: score.value, f"{key}/mean": total / count, f"{key}/rolling_mean": fmean(window)}
        step, self._step = self._step, self._step + 1
        return [Metric(name, value, time_ms, step) for name, value in figures.items()]

    def log_points(self, points: Sequence[Metric]) -> None:
        """Write metrics; the store knows a point that it has already."""
        import mlflow

        with _explained(self.run_id):
            for start in range(0, len(points), _METRICS_A_BATCH):
                batch = points[start : start + _METRICS_A_BATCH]
                mlflow.MlflowClient().log_batch(self.run_id, metrics=batch, synchronous=True)

    def append(self, rows: pd.DataFrame, items: pd.DataFrame) -> None:
        """Add to the tables, here for now: ``publish`` takes them to the store."""
        for table, frame in zip(self._tables, (rows, items), strict=True):
            table.extend(json.loads(table_json(frame)))

    def publish(self) -> None:
        """Write the tables ``rag_rows.json`` and ``rag_claims.json``, whole, in place of what the run has."""
        import mlflow

        with _explained(self.run_id), tempfile.TemporaryDirectory() as folder:
            for table in self._tables:
                table.write(Path(folder))
            mlflow.MlflowClient().log_artifacts(self.run_id, folder)
            self._mark_tables()

    def _stored(self, name: str) -> dict[str, Any] | None:
        import mlflow

        client = mlflow.MlflowClient()
        if not any(artifact.path == name for artifact in client.list_artifacts(self.run_id)):
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = client.download_artifacts(self.run_id, name, folder)
            table: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        return table

    def _mark_tables(self) -> None:
        import mlflow

        client = mlflow.MlflowClient()
        known = json.loads(client.get_run(self.run_id).data.tags.get(_TABLES_TAG, "[]"))
        missing = [table for name in (ROWS, CLAIMS) if (table := {"path": name, "type": "table"}) not in known]
        if missing:
            client.set_tag(self.run_id, _TABLES_TAG, json.dumps([*known, *missing]))


def new_run(name: str, mark: str) -> str:
    """The id of a new run in the active experiment. It stays open until ``end_run``, and is active in no thread.

    Called again with the same ``mark`` after a failure, it finds the run that the store may have made before it failed.
    """
    import mlflow

    with _explained("(new)"):
        made = mlflow.search_runs(filter_string=f"tags.`{_MARK_TAG}` = '{mark}'", output_format="list", max_results=1)
        if made:
            run_id = str(made[0].info.run_id)
        else:
            with mlflow.start_run(run_name=name, tags={_MARK_TAG: mark}) as run:
                run_id = str(run.info.run_id)
        mlflow.MlflowClient().update_run(run_id, status="RUNNING")
    return run_id


def end_run(run_id: str, failure: str | None = None) -> None:
    """Mark a run as finished; where ``failure`` says what it lacks, as failed. A store that is gone is soon left."""
    import mlflow

    if failure is not None:
        note_failure(run_id, failure)
    with _explained(run_id), few_attempts():
        mlflow.MlflowClient().set_terminated(run_id, "FINISHED" if failure is None else "FAILED")


def log_feedback(trace_id: str, key: str, score: Score, run_id: str | None = None) -> None:
    """Put ``score`` on the trace as the feedback ``key``.

    Raises:
        TraceAbsentError: the store has no such trace, even after MLflow has exported what was under way.
        RagMetricsError: the store does not take it.
    """
    import mlflow
    from mlflow.exceptions import MlflowException

    assessment = feedback_of(key, score)
    if run_id is not None:
        assessment.metadata = {**(assessment.metadata or {}), SOURCE_RUN: run_id}
    with _explained(run_id or "(none)"):
        for exported in (False, True):
            try:
                mlflow.log_assessment(trace_id=trace_id, assessment=assessment)
                return
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
                if exported:
                    raise TraceAbsentError(f"there is no trace {trace_id} in the store") from error
                mlflow.flush_trace_async_logging()


@contextmanager
def _explained(run_id: str) -> Iterator[None]:
    try:
        yield
    except RagMetricsError:
        raise
    except write_errors() as error:
        raise RagMetricsError(f"run {run_id} cannot be written: {reason_of(error)}") from error
