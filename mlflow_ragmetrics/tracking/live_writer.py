"""Writes answers from the outbox to the run: running figures, growing tables, feedback on the chain's traces.

The data of an answer depends only on the answers before it, and progress is stored after each step. So a step can be
repeated unchanged after a failure.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from mlflow_ragmetrics.core.safe_text import as_json
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.results.marks import DIAGNOSIS, cause_figure
from mlflow_ragmetrics.text.non_answers import gives_no_answer
from mlflow_ragmetrics.tracking.feedback import TraceAbsentError, add_feedback
from mlflow_ragmetrics.tracking.outbox import Lines, Outbox, Waiting
from mlflow_ragmetrics.tracking.run import COMPLETE, Home, new_run, status_of
from mlflow_ragmetrics.tracking.writer import (
    CLAIMS,
    ROWS,
    STATUS_TAG,
    RunWriter,
    explained,
    mlflow_name,
    table_rows,
    write_table,
)

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Metric

_ROWS_TAG = "ragmetrics.rows"
_FEWEST_ROWS = 20
_LONGEST_WAIT = 30.0
_FEEDBACK_ATTEMPTS = 3
_TOLERATED = 0.05
_CALLS = ("seen", "dropped", "failed", "skipped", "withheld")
_WINDOW = 50
_COVERAGE = "/coverage="
_logger = logging.getLogger(__name__)

Tables = Callable[[Sequence[Row]], "tuple[pd.DataFrame, pd.DataFrame]"]
"""The tables of rows and of items."""


@dataclass(frozen=True)
class Service:
    """The outbox, the home of its runs, the suite's description, and the function that builds its tables."""

    outbox: Outbox
    home: Home
    description: Mapping[str, Any]
    tables: Tables


class LiveWriter:
    """Writes the answers of one run, which is created with ``name`` if it has no id yet."""

    def __init__(self, service: Service, name: str, number: int, *, is_made_here: bool) -> None:
        self._service = service
        self._home = service.home
        self._name = name
        self._is_made_here = is_made_here
        self._outbox = service.outbox
        self._number = number

    def write(self, *, all_rows: bool) -> None:
        """Write metrics, then feedback, then rows in batches, unless another process is writing."""
        if not self._outbox.take_lease(self._number):
            return
        try:
            run_id = self._made_run()
            with explained(run_id):
                writer = RunWriter(run_id, self._home.uri)
                if self._outbox.run(self._number, "figures") is None:
                    writer.suite(self._service.description)
                    self._take_rows_of_others(writer)
                while waiting := self._outbox.answers(self._number, measured=False):
                    self._measure(writer, waiting)
                self._tell(writer)
                self._publish(writer, all_rows=all_rows)
        finally:
            self._outbox.end_lease(self._number)

    def _made_run(self) -> str:
        found = self._outbox.run(self._number, "run_id")
        if found is not None:
            return str(found)
        run_id = new_run("ragmetrics live", self._name, home=self._home)
        self._outbox.note_run(self._number, run_id)
        return run_id

    def _measure(self, writer: RunWriter, waiting: Sequence[Waiting]) -> None:
        found = {each.number: row for each in waiting if (row := self._row_of(each)) is not None}
        if "damaged" in (self._outbox.run(self._number, "losses") or {}):
            found = self._unlisted(found)
        times = {each.number: each.content["time_ms"] for each in waiting}
        frames = self._service.tables(list(found.values()))
        causes = frames[0][DIAGNOSIS] if DIAGNOSIS in frames[0] else [None] * len(found)
        figures = LiveFigures(self._outbox.run(self._number, "figures"))
        points: list[Metric] = []
        for (number, row), cause in zip(found.items(), causes, strict=True):
            points += figures.add(row.scores, times[number], cause, gives_no_answer(row.sample.answer))
        writer.metrics(points)
        named = zip((ROWS, CLAIMS), frames, strict=True)
        lines = [Lines(name, list(frame.columns), table_rows(frame)) for name, frame in named]
        self._outbox.note_measured(self._number, found, figures.state, lines)

    def _row_of(self, waiting: Waiting) -> Row | None:
        try:
            return _rows().validate_python(waiting.content["row"])
        except ValidationError:  # written by another version
            _logger.warning("a scored answer in the outbox cannot be read and is left out")
            self._outbox.note_unreadable(self._number, waiting.number)
            return None

    def _unlisted(self, found: Mapping[int, Row]) -> dict[int, Row]:
        """The answers that are not in the run's tables; a damaged or older outbox may repeat written answers."""
        frame, _ = self._service.tables(list(found.values()))
        records = [_record(list(frame.columns), row) for row in table_rows(frame)]
        listed = self._records(ROWS)
        known = [number for number, record in zip(found, records, strict=True) if listed[record]]
        self._outbox.note(known, measured=1, listed=1)
        return {number: row for number, row in found.items() if number not in known}

    def _tell(self, writer: RunWriter) -> None:
        """Write scores to traces; after a few failed attempts, withhold them."""
        last = 0
        while waiting := self._outbox.answers(self._number, measured=True, after=last):
            for each in waiting:
                last, trace_id, is_absent = each.number, each.content["trace_id"], False
                try:
                    for key, score in _rows().validate_python(each.content["row"]).scores.items() if trace_id else ():
                        if score.status != "skipped":
                            add_feedback(trace_id, key, score, writer.run_id, each.content["time_ms"])
                except RagMetricsError as error:
                    if not isinstance(error, TraceAbsentError):
                        writer.present_tags()  # raises if the store does not answer: then everything waits
                    is_absent = True
                if is_absent and each.attempts + 1 < _FEEDBACK_ATTEMPTS:
                    self._outbox.note([each.number], attempts=each.attempts + 1)
                else:
                    self._outbox.note([each.number], told=1, withheld=is_absent)

    def _publish(self, writer: RunWriter, *, all_rows: bool) -> None:
        """Rewrite the tables once enough new answers wait; longer tables are rewritten less often."""
        count, last, oldest = self._outbox.unlisted(self._number)
        listed = self._outbox.run(self._number, "figures")["step"] - count
        is_old = time.time() - oldest > _LONGEST_WAIT and listed < 100 * count
        if not count or not (all_rows or is_old or count >= max(_FEWEST_ROWS, listed // 10)):
            return
        means = self._take_rows_of_others(writer)
        writer.files({name: partial(self._write_table, name) for name in (ROWS, CLAIMS)}, tables=(ROWS, CLAIMS))
        if means:
            writer.figures(means, step=listed + count)
        mark = f"{self._outbox.run(self._number, 'mark').partition(' ')[0]} {listed + count}"
        writer.tags({_ROWS_TAG: mark})
        self._outbox.note_listed(self._number, last, mark)

    def _take_rows_of_others(self, writer: RunWriter) -> Mapping[str, float]:
        """Take over rows of the run's tables that this outbox does not have; returns the means if there are any.

        The rows are older, or from other machines, which have their own outboxes. If this outbox wrote them, it has
        been reset to an older state, for example by a power failure.
        """
        state, mark = self._outbox.run(self._number, "figures"), self._outbox.run(self._number, "mark")
        written = writer.present_tags().get(_ROWS_TAG, "")
        if state is not None and written == mark:
            return {}
        figures, taken = LiveFigures(state), []
        for name in (ROWS, CLAIMS):
            stored = writer.table(name)
            if stored is not None:
                taken.append(self._not_ours(Lines(name, stored["columns"], stored["data"])))
                if name == ROWS:
                    figures.add_table(taken[0])
        losses = {} if state is not None else self._former_losses()
        has_rows = any(each.rows for each in taken)
        if has_rows and written.partition(" ")[0] == mark.partition(" ")[0]:
            losses["damaged"] = 1
        self._outbox.note_measured(self._number, (), figures.state, taken, losses)
        return figures.means if has_rows and state is not None else {}

    def _former_losses(self) -> dict[str, int]:
        """The losses that earlier handlers recorded in the run."""
        from mlflow import MlflowClient

        metrics = MlflowClient(self._home.uri).get_run(self._outbox.run(self._number, "run_id")).data.metrics
        return {name: int(metrics.get(f"calls/{name}", 0)) for name in (*_CALLS, "lost")}

    def _not_ours(self, stored: Lines) -> Lines:
        ours, others = self._records(stored.name), []
        for row in stored.rows:
            record = _record(stored.columns, row)
            if ours[record]:
                ours[record] -= 1
            else:
                others.append(row)
        return stored._replace(rows=others)

    def _records(self, name: str) -> Counter[str]:
        lines = self._outbox.lines(self._number, name)
        return Counter(_record(each.columns, row) for each in lines for row in each.rows)

    def _write_table(self, name: str, path: Path) -> None:
        columns = self._outbox.columns(self._number, name)

        def placed(each: Lines) -> list[list[Any]]:
            places = [each.columns.index(column) if column in each.columns else None for column in columns]
            return [[None if place is None else row[place] for place in places] for row in each.rows]

        write_table(path, columns, map(placed, self._outbox.lines(self._number, name)))

    def finish(self, silence: str | None) -> None:
        """Record losses in the run, and end it if it was created here; ``silence``: why no judge answered."""
        waiting = self._outbox.waiting(self._number)
        losses = Counter[str](self._outbox.run(self._number, "losses"))
        absent = waiting + losses["killed"] + losses["unscored"] + losses["lost"]
        lacks = absent or losses["damaged"]
        run_id = self._outbox.run(self._number, "run_id") or (self._made_run() if lacks else None)
        if run_id is not None:
            with explained(run_id):
                self._say(RunWriter(run_id, self._home.uri), losses, waiting, absent, silence)
        self._outbox.forget(self._number)

    def _say(self, writer: RunWriter, losses: Counter[str], waiting: int, absent: int, silence: str | None) -> None:
        """Write the losses as ``calls/dropped``, … and ``ragmetrics.status``."""
        calls = {f"calls/{name}": losses[name] for name in _CALLS if losses[name]}
        # an outbox older than the run lacks answers that are in the run
        calls |= {} if losses["damaged"] else {"calls/lost": absent - waiting}
        if absent or calls.keys() - {"calls/seen", "calls/lost"}:
            writer.figures(calls)
            _logger.warning("run %s lacks answers: %s, %d unwritten", writer.run_id, calls, waiting)
        failure, status = None, COMPLETE if self._is_made_here else None
        if losses["damaged"]:
            failure = "the outbox was damaged: the number of missing answers is unknown"
        elif losses["killed"]:
            failure = f"answers lost because a process ended before they were written: {absent}"
        elif absent:
            failure = f"answers not written: {absent}"
        elif losses["silent"] and not losses["judged"]:
            failure = silence or "no judge answered"
        elif losses["dropped"] + losses["failed"] > _TOLERATED * losses["seen"]:
            status = f"partial: {losses['dropped']} of {losses['seen']} answers dropped, {losses['failed']} failed"
        if failure is not None and not self._is_made_here:
            status = status_of(failure)
        if status is not None:
            writer.tags({STATUS_TAG: status})
        if self._is_made_here:
            writer.end(failure)


def packed(row: Row, trace_id: str | None) -> dict[str, Any]:
    """A scored answer for the outbox: the row, the trace id and the current time."""
    return {"trace_id": trace_id, "time_ms": int(time.time() * 1000), "row": _rows().dump_python(row, warnings=False)}


def _record(columns: Sequence[str], row: Sequence[Any]) -> str:
    return as_json(sorted((column, value) for column, value in zip(columns, row, strict=True) if value is not None))


@lru_cache(maxsize=1)
def _rows() -> TypeAdapter[Row]:
    return TypeAdapter(Row)


class MarkCounts(Counter[str]):
    """The number of rows so far with each mark, such as ``<key>/n_error``."""

    def add(self, scores: Mapping[str, Score], cause: str | None = None, is_non_answer: bool = False) -> None:
        """Count a row's score marks, the part of the chain that failed (``cause``), and non-answers."""
        self.update([] if cause is None else [cause_figure(cause)])
        self["n_non_answers"] += is_non_answer
        for key, score in scores.items():
            self.update(f"{key}/{mark}" for mark in score.marks)
            if score.measurement is not None and "coverage" in score.details:
                self[f"{key}{_COVERAGE}{score.details['coverage']:.9f}"] += 1

    @property
    def figures(self) -> dict[str, float]:
        """The nonzero counts. For a composite, also the mean ``coverage`` if it is below 1, and ``n_partial``, the
        number of rows below the highest coverage.
        """
        coverages: dict[str, dict[float, int]] = {}
        for name, count in self.items():
            key, separator, coverage = name.partition(_COVERAGE)
            if separator:
                coverages.setdefault(key, {})[float(coverage)] = count
        found: dict[str, float] = {name: count for name, count in self.items() if _COVERAGE not in name}
        for key, counts in coverages.items():
            mean = sum(share * count for share, count in counts.items()) / sum(counts.values())
            found[f"{key}/n_partial"] = sum(counts.values()) - counts[max(counts)]
            found |= {f"{key}/coverage": mean} if mean < 1 else {}
        return {name: float(count) for name, count in found.items() if count}


class LiveFigures:
    """The figures of a run so far."""

    def __init__(self, state: Mapping[str, Any] | None) -> None:
        state = state or {}
        self.step: int = state.get("step", 0)
        self._sums: dict[str, list[float]] = state.get("sums", {})
        self._windows = {key: deque(values, _WINDOW) for key, values in state.get("windows", {}).items()}
        self._marks = MarkCounts(state.get("marks", {}))

    @property
    def state(self) -> dict[str, Any]:
        """All figures, as JSON-compatible values."""
        windows = {key: list(values) for key, values in self._windows.items()}
        return {"step": self.step, "sums": self._sums, "windows": windows, "marks": self._marks}

    @property
    def means(self) -> dict[str, float]:
        """``<key>/mean`` so far."""
        return {mlflow_name(f"{key}/mean"): total / count for key, (total, count) in self._sums.items()}

    def _add(self, key: str, value: float) -> None:
        total, count = self._sums.get(key, (0.0, 0))
        self._sums[key] = [total + value, count + 1]
        self._windows.setdefault(key, deque(maxlen=_WINDOW)).append(value)

    def add_table(self, table: Lines) -> None:
        """Add rows that another process wrote to the run's table."""
        self.step += len(table.rows)
        for row in table.rows:
            own = dict(zip(table.columns, row, strict=True))
            self._marks["n_non_answers"] += gives_no_answer(own.get("answer"))
            for column, value in own.items():
                if isinstance(value, float) and own.get(f"{column}_measured") is not False:
                    self._add(column, value)
                elif column == DIAGNOSIS and value:
                    self._marks[cause_figure(value)] += 1
                elif column.endswith("_status") and value in ("error", "skipped"):
                    self._marks[f"{column.removesuffix('_status')}/n_{value}"] += 1

    def add(
        self, scores: Mapping[str, Score], time_ms: int, cause: str | None = None, is_non_answer: bool = False
    ) -> list[Metric]:
        """Add an answer; returns its metrics: ``<key>``, ``<key>/mean`` so far and ``<key>/rolling_mean`` (last 50).

        The other metrics are counts so far: ``<key>/n_error``, ``/n_skipped``, ``/n_no_context`` etc. for marks
        (``Score.marks``), ``n_non_answers`` for non-answers, and ``diagnosis/n_<cause>`` for failed parts of the chain.
        """
        from mlflow.entities import Metric

        found: dict[str, float] = {}
        self._marks.add(scores, cause, is_non_answer)
        for key, score in scores.items():
            if score.measurement is not None:
                self._add(key, score.measurement)
                total, count = self._sums[key]
                mean = fmean(self._windows[key])
                found |= {key: score.measurement, f"{key}/mean": total / count, f"{key}/rolling_mean": mean}
        found |= self._marks.figures
        self.step += 1
        return [Metric(mlflow_name(name), value, time_ms, self.step - 1) for name, value in found.items()]
