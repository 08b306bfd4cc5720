"""Writes answers from the outbox to the run: running figures, and scores on traces.

An answer's scores go to the chain's own trace, or to a new one if the chain made none. Several outboxes may write to
one run: each stores its sums in a tag of the run, and the figures come from their total. The data of an answer depends
only on the answers before it, and progress is stored after each step. So a step can be repeated after a failure.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import time
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.safe_text import as_json
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.results.marks import cause_figure, diagnose
from mlflow_ragmetrics.results.tables import record_of, row_of
from mlflow_ragmetrics.text.non_answers import gives_no_answer
from mlflow_ragmetrics.tracking.outbox import Outbox, Waiting
from mlflow_ragmetrics.tracking.run import COMPLETE, Home, new_run, status_of
from mlflow_ragmetrics.tracking.traces import SOURCE_RUN, add_feedback, feedback_on, write_live_traces
from mlflow_ragmetrics.tracking.writer import (
    STATUS_TAG,
    RunWriter,
    explained,
    mlflow_name,
    unless_absent,
    write_errors,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

_SUMS_TAG = "ragmetrics.sums."
_ATTEMPTS = 3
_TOLERATED = 0.05
_CALLS = ("seen", "dropped", "failed", "skipped", "withheld")
_WINDOW = 50
_ANSWERS, _SUM, _VALUES, _COVERAGE = "/answers", "/sum", "/values", "/coverage="  # no figure has these names
_INTERNAL = re.compile(rf"(?:{_ANSWERS}|{_SUM}|{_VALUES}|{_COVERAGE}.*)$")
WRITTEN, WITHHELD, UNREADABLE = range(3)
"""Outcomes of an answer."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """The outbox, the home of its runs, and the suite's description."""

    outbox: Outbox
    home: Home
    description: Mapping[str, Any]


class LiveWriter:
    """Writes the answers of one run, which is created with ``name`` if it has no id yet or was deleted."""

    def __init__(self, service: Service, name: str, number: int) -> None:
        self._service = service
        self._home = service.home
        self._language = str(service.description.get("language", "en"))
        self._name = name
        self._outbox = service.outbox
        self._number = number
        self._tag = f"{_SUMS_TAG}{service.outbox.id}"

    def write(self) -> None:
        """Write figures, then traces, unless another process is writing."""
        if not self._outbox.take_lease(self._number):
            return
        try:
            run = self._present_run() or self._made_run()
            with explained(run.info.run_id):
                writer = RunWriter(run.info.run_id, self._home.uri)
                others = self._others(run)
                if self._outbox.figures(self._number) is None:
                    writer.suite(self._service.description)
                    self._outbox.note_measured(self._number, (), LiveFigures(None).state)
                while waiting := self._outbox.answers(self._number, measured=False):
                    self._measure(writer, waiting, others)
                self._share(writer, run, others)
                self._deliver(writer, run.info.experiment_id)
        except RagMetricsError:
            if self._outbox.run_id(self._number) is None or self._present_run() is not None:
                raise  # else the run was deleted meanwhile: its answers go to a new one
        finally:
            self._outbox.end_lease(self._number)

    @cached_property
    def _client(self) -> MlflowClient:
        from mlflow import MlflowClient

        return MlflowClient(self._home.uri)

    def _present_run(self) -> Run | None:
        """The run; ``None``, with a warning, if it was deleted, and ``None`` if it is not created yet."""
        run_id = self._outbox.run_id(self._number)
        if run_id is None:
            return None
        with explained(run_id):
            run = unless_absent(lambda: self._client.get_run(run_id))
        if run is not None and run.info.lifecycle_stage == "active":
            return run
        _logger.warning("run %s does not exist or was deleted: its waiting answers go to a new run", run_id)
        self._outbox.note_run(self._number, None)
        return None

    def _made_run(self) -> Run:
        run_id = new_run(f"ragmetrics live {self._name[:6]}", self._name, home=self._home)
        self._outbox.note_run(self._number, run_id)
        return self._client.get_run(run_id)

    def _others(self, run: Run) -> list[Mapping[str, Any]]:
        """The sums of other outboxes in the run.

        If the run has sums of this outbox that the outbox lacks, it continues from them. It lacks them if it has
        forgotten the run since, or after a power failure.
        """
        packed_sums = {name: text for name, text in run.data.tags.items() if name.startswith(_SUMS_TAG)}
        sums = {name: json.loads(zlib.decompress(base64.b85decode(text))) for name, text in packed_sums.items()}
        shared, state = sums.pop(self._tag, None), self._outbox.figures(self._number)
        if shared is not None and (state is None or state["sums"].get(_ANSWERS, 0) < shared["sums"].get(_ANSWERS, 0)):
            self._outbox.note_measured(self._number, (), {"sums": shared["sums"], "windows": {}})
            losses = {"damaged": 1} if shared["run"] == self._number else shared["losses"]
            for name, number in {**losses, "settled": losses.get("seen", 0)}.items():
                self._outbox.count(self._number, name, by=number)
        return list(sums.values())

    def _measure(self, writer: RunWriter, waiting: Sequence[Waiting], others: Sequence[Mapping[str, Any]]) -> None:
        is_damaged = self._outbox.counts(self._number)["damaged"] > 0
        figures = LiveFigures(self._outbox.figures(self._number), others)
        points: list[Metric] = []
        for answer in waiting:
            row = self._row_of(answer)
            if row is None or (is_damaged and self._is_delivered(answer, writer.run_id)):
                continue
            points += figures.add(row, answer.content["time_ms"])
        writer.metrics(points)
        self._outbox.note_measured(self._number, [answer.number for answer in waiting], figures.state)

    def _row_of(self, answer: Waiting) -> Row | None:
        try:
            return row_of(answer.content["row"])
        except (ValueError, KeyError):  # written by another version
            _logger.warning("a scored answer in the outbox cannot be read and is left out")
            self._outbox.count(self._number, "lost")
            self._outbox.note([answer.number], measured=1, outcome=UNREADABLE)
            return None

    def _is_delivered(self, answer: Waiting, run_id: str) -> bool:
        """Whether the answer's trace has scores of the run."""
        trace_id = answer.content["trace_id"]
        trace = trace_id and unless_absent(lambda: self._client.get_trace(trace_id, display=False))
        assessments = trace.info.assessments if trace else ()
        return any((assessment.metadata or {}).get(SOURCE_RUN) == run_id for assessment in assessments)

    def _share(self, writer: RunWriter, run: Run, others: Sequence[Mapping[str, Any]]) -> None:
        """Store the sums in the run, then add up those of all outboxes.

        Each outbox writes before it reads, so the last of several that write at once knows all sums.
        """
        state = self._outbox.figures(self._number) or LiveFigures(None).state
        losses = self._outbox.counts(self._number)
        sums = as_json({"sums": state["sums"], "losses": losses, "run": self._number})
        text = base64.b85encode(zlib.compress(sums.encode(), 9)).decode()  # fits into a tag
        if run.data.tags.get(self._tag) == text:
            return
        writer.tags({self._tag: text})
        present = self._others(self._client.get_run(writer.run_id))
        if present != list(others):
            figures = LiveFigures(state, present)
            writer.figures(figures.figures, step=figures.step)

    def _deliver(self, writer: RunWriter, experiment_id: str) -> None:
        """Write scores to traces; after a few failed attempts, withhold them."""
        last = 0
        while waiting := self._outbox.answers(self._number, measured=True, after=last):
            last = waiting[-1].number
            new = [answer for answer in waiting if answer.content["is_new"]]
            written = set(self._make_traces(new, writer, experiment_id))
            written |= {answer.number for answer in waiting if answer not in new and self._has_feedback(answer, writer)}
            ids = {answer.content["trace_id"] for answer in waiting if answer.number in written} - {None}
            self._client.link_traces_to_run(trace_ids=sorted(ids), run_id=writer.run_id)
            self._outbox.note(written, outcome=WRITTEN)
            for answer in waiting:
                if answer.number not in written:
                    is_last = answer.attempts + 1 >= _ATTEMPTS
                    outcome = {"outcome": WITHHELD} if is_last else {}
                    self._outbox.note([answer.number], attempts=answer.attempts + 1, **outcome)

    def _make_traces(self, answers: Sequence[Waiting], writer: RunWriter, experiment_id: str) -> Iterable[int]:
        """Write a trace for each answer; returns the numbers of those that the store accepts."""
        contents = [answer.content for answer in answers]
        rows = {str(content["trace_id"]): (row_of(content["row"]), int(content["time_ms"])) for content in contents}
        try:
            write_live_traces(rows, writer.run_id, experiment_id, self._home.uri, self._language)
            return [answer.number for answer in answers]
        except write_errors():
            writer.present_tags()  # raises if the store does not answer: then everything waits
            if len(answers) == 1:
                return []
        return [number for answer in answers for number in self._make_traces([answer], writer, experiment_id)]

    def _has_feedback(self, answer: Waiting, writer: RunWriter) -> bool:
        """Write the scores to the chain's own trace, if it is known; ``False`` if the store does not accept them."""
        trace_id, row = answer.content["trace_id"], row_of(answer.content["row"])
        answered = {key: score for key, score in row.scores.items() if score.status != "skipped"}
        feedback = feedback_on(answered, writer.run_id, self._language)
        try:
            for assessment in feedback if trace_id is not None else ():
                add_feedback(trace_id, assessment, writer.run_id, answer.content["time_ms"])
        except RagMetricsError:
            writer.present_tags()  # raises if the store does not answer: then everything waits
            return False
        return True

    def finish(self, silence: str | None) -> None:
        """Record losses in the run, and end it if it was created here; ``silence``: why no judge answered."""
        waiting = self._outbox.waiting(self._number)
        if waiting and self._outbox.is_in_memory:
            self._outbox.count(self._number, "lost", by=waiting)
            waiting = 0
        losses = self._outbox.counts(self._number)
        lacks = waiting or losses["damaged"] or _absent(losses)
        run = self._present_run() or (self._made_run() if lacks else None)
        if run is not None:
            with explained(run.info.run_id):
                writer = RunWriter(run.info.run_id, self._home.uri)
                others = self._others(run)
                self._share(writer, run, others)
                losses = self._outbox.counts(self._number)
                for sums in others:
                    losses.update(sums["losses"])
                self._write_status(writer, losses, waiting, silence)
        self._outbox.forget(self._number)

    def _write_status(self, writer: RunWriter, losses: Counter[str], waiting: int, silence: str | None) -> None:
        """Write the losses as ``calls/dropped``, … and ``ragmetrics.status``."""
        absent = _absent(losses)
        calls = {f"calls/{name}": losses[name] for name in _CALLS if losses[name]}
        # an outbox older than the run lacks answers that are in the run
        calls |= {} if losses["damaged"] else {"calls/lost": absent}
        if absent or waiting or calls.keys() - {"calls/seen", "calls/lost"}:
            writer.figures(calls)
            _logger.warning("run %s lacks answers: %s, %d unwritten", writer.run_id, calls, waiting)
        is_made_here = writer.run_id != self._name
        failure, status = None, COMPLETE if is_made_here else None
        if losses["damaged"]:
            failure = "the outbox was damaged: the number of missing answers is unknown"
        elif losses["killed"]:
            number = absent + waiting
            failure = f"answers lost because a process ended before they were written: at least {number}"
        elif absent or waiting:
            failure = f"answers not written: {absent + waiting}"
        elif losses["silent"] and not losses["judged"]:
            failure = silence or "no judge answered"
        elif losses["dropped"] + losses["failed"] > _TOLERATED * losses["seen"]:
            status = f"partial: {losses['dropped']} of {losses['seen']} answers dropped, {losses['failed']} failed"
        if failure is not None and not is_made_here:
            status = status_of(failure)
        if status is not None:
            writer.tags({STATUS_TAG: status})
        if is_made_here:
            writer.end(failure)


def _absent(losses: Mapping[str, int]) -> int:
    """The number of answers that were never scored or are not written."""
    return sum(losses.get(name, 0) for name in ("killed", "unscored", "lost"))


def packed(row: Row, trace_id: str | None, *, is_new: bool) -> dict[str, Any]:
    """A scored answer for the outbox: the row, the current time and the trace, which ``is_new`` or the chain's."""
    content = {"trace_id": trace_id, "is_new": is_new, "time_ms": int(time.time() * 1000)}
    return {**content, "row": record_of(row)}


class Sums(Counter[str]):
    """Sums over rows: the number of rows with each mark (``<key>/n_error``), and of each key the values."""

    def add(self, row: Row) -> None:
        """Add a row: its values and marks, the part of the chain that failed, and whether it is a non-answer."""
        diagnosis = diagnose(row.scores)
        self.update([_ANSWERS] if diagnosis is None else [_ANSWERS, cause_figure(diagnosis.cause)])
        self["n_non_answers"] += gives_no_answer(row.sample.answer)
        for key, score in row.scores.items():
            self.update(f"{key}/{mark}" for mark in score.marks)
            if score.measurement is not None:
                self.update({f"{key}{_SUM}": score.measurement, f"{key}{_VALUES}": 1})
                if "coverage" in score.details:
                    self[f"{key}{_COVERAGE}{score.details['coverage']:.9f}"] += 1

    @property
    def means(self) -> dict[str, float]:
        """``<key>/mean`` of the values."""
        keys = [name.removesuffix(_VALUES) for name in self if name.endswith(_VALUES)]
        return {f"{key}/mean": self[f"{key}{_SUM}"] / self[f"{key}{_VALUES}"] for key in keys}

    @property
    def marks(self) -> dict[str, float]:
        """The nonzero counts. For a composite, also the mean ``coverage`` if it is below 1, and ``n_partial``, the
        number of rows below the highest coverage.
        """
        coverages: dict[str, dict[float, int]] = {}
        for name, count in self.items():
            key, separator, coverage = name.partition(_COVERAGE)
            if separator:
                coverages.setdefault(key, {})[float(coverage)] = count
        figures: dict[str, float] = {name: count for name, count in self.items() if not _INTERNAL.search(name)}
        for key, counts in coverages.items():
            mean = sum(share * count for share, count in counts.items()) / sum(counts.values())
            figures[f"{key}/n_partial"] = sum(counts.values()) - counts[max(counts)]
            figures |= {f"{key}/coverage": mean} if mean < 1 else {}
        return {name: float(count) for name, count in figures.items() if count}


class LiveFigures:
    """The sums of a run so far: those of one outbox, in ``state``, and of ``others`` that write to the same run."""

    def __init__(self, state: Mapping[str, Any] | None, others: Iterable[Mapping[str, Any]] = ()) -> None:
        state = state or {"sums": {}, "windows": {}}
        self._windows = {key: deque(values, _WINDOW) for key, values in state["windows"].items()}
        self._own = Sums(state["sums"])
        self._total = Sums(self._own)
        for other in others:
            self._total.update(other["sums"])

    @property
    def state(self) -> dict[str, Any]:
        """The sums of the outbox, as JSON-compatible values."""
        return {"sums": self._own, "windows": {key: list(values) for key, values in self._windows.items()}}

    @property
    def step(self) -> int:
        """The number of answers before the last one."""
        return self._total[_ANSWERS] - 1

    @property
    def figures(self) -> dict[str, float]:
        """``<key>/mean`` and the counts, under MLflow's names."""
        return {mlflow_name(name): value for name, value in {**self._total.means, **self._total.marks}.items()}

    def add(self, row: Row, time_ms: int) -> list[Metric]:
        """Add an answer; returns its metrics: ``<key>``, ``<key>/mean`` so far and ``<key>/rolling_mean`` (last 50).

        The other metrics are counts so far: ``<key>/n_error``, ``/n_skipped``, ``/n_no_context`` etc. for marks
        (``Score.marks``), ``n_non_answers`` for non-answers, and ``diagnosis/n_<cause>`` for failed parts of the chain.
        """
        from mlflow.entities import Metric

        self._own.add(row)
        self._total.add(row)
        points, means = dict[str, float](), self._total.means
        for key, score in row.scores.items():
            if score.measurement is not None:
                window = self._windows.setdefault(key, deque(maxlen=_WINDOW))
                window.append(score.measurement)
                mean = f"{key}/mean"
                points |= {key: score.measurement, mean: means[mean], f"{key}/rolling_mean": fmean(window)}
        points |= self._total.marks
        return [Metric(mlflow_name(name), value, time_ms, self.step) for name, value in points.items()]
