"""Scored answers into MLflow runs and onto traces, on a thread of its own: what cannot be written yet waits."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from uuid import uuid4

from mlflow_ragmetrics.adapters.langchain.answer import Answer, Packed, packed, unpacked
from mlflow_ragmetrics.adapters.langchain.recorder import Exchange
from mlflow_ragmetrics.adapters.langchain.scoring import Counts, Scored
from mlflow_ragmetrics.adapters.langchain.spill import Spill, SpillOptions
from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.core.secrets import for_log
from mlflow_ragmetrics.engine.threads import ThreadTask, start_thread
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.report.diagnosis import diagnoses_of, diagnosis_columns
from mlflow_ragmetrics.report.marks import Failures
from mlflow_ragmetrics.report.tables import has_diagnoses, items_frame, rows_frame
from mlflow_ragmetrics.tracking.live import LiveRun, TraceAbsentError, add_feedback, end_run, live_run, new_run

__all__ = ["MLflowSink", "close_sinks", "shared_sink"]

_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_SHORTEST_PAUSE_AFTER_FAILURE = 0.1
_PATIENCE = 10.0
_IDLE_SECONDS = 5.0
_FEWEST_ROWS = 20
_LONGEST_WAIT = 30.0
_FEEDBACK_ATTEMPTS = 3
_LONGEST_LAST_WRITE = 3.0
_FATES = ("written", "unwritten", "lost", "withheld")
_CALLS = ("seen", "dropped", "failed", "skipped")
_logger = logging.getLogger(__name__)


class MLflowSink:
    """Writes into the run ``run_id``, else the one active at the call, else the one active before, else a new run.

    A run is active in one thread only: the calls that a server makes in its other threads belong to the run that the
    handler was made in, or saw last. ``feedback``: also onto the chain's trace. Handlers that write the same share one
    sink, and with it the run that it makes (``shared_sink``).

    An answer that was taken is in one of four places: it waits in ``_waiting``, oldest first; the thread is writing
    it (``_writing``), after which it is written or waits again; it is in ``spill``, on disk, because ``buffer_size``
    answers wait already; or it was dropped, because that is full too.

    Of each handler it counts ``written``, ``unwritten`` (the first three places) and ``lost`` (dropped) answers, which
    add up to those taken, and ``withheld`` answers whose trace is not known.
    """

    def __init__(
        self,
        description: Mapping[str, object],
        *,
        run_id: str | None = None,
        feedback: bool = True,
        anytime: bool = False,
        buffer_size: int = 5000,
        spill: Spill | None = None,
    ) -> None:
        self._description = description
        self._feedback = feedback
        self._anytime = anytime
        self._named_run = run_id
        self._buffer_size = buffer_size
        self._last_active_run = _active_run()
        self._creation_id = uuid4().hex
        self._users: weakref.WeakSet[object] = weakref.WeakSet()
        self._all = Counts(_FATES)
        self._spill = spill
        self._renew()
        if spill is not None:
            for entry in spill.left_behind():
                self._resume(entry)

    def _renew(self) -> None:
        """Begin with nothing: at first, and in a forked process, where what waits belongs to the parent."""
        self._own_run: str | None = None
        self._live_runs: dict[str, LiveRun] = {}
        self._changed = threading.Condition()
        self._waiting: list[Answer] = []
        self._writing: list[Answer] = []
        self._under_way: dict[str | None, threading.Event] = {}
        self._spilled_counts: dict[str, Counts] = {}
        self._on_disk = 0
        self._dropping = 0
        self._failure: str | None = None
        self._failures: dict[str | None, Failures] = {}
        self._calls: Counter[str] = Counter()
        self._received: Counter[str | None] = Counter()
        self._flushing = 0
        self._closed = False
        self._is_over = False  # what was being written when it closed is on disk
        self._thread: ThreadTask | None = None

    def after_fork(self) -> None:
        """Become the sink of a forked process; it goes on in the parent's run, in a part of its own."""
        self._renew()
        self._all.reset()
        if self._spill is not None:
            self._spill.after_fork()

    def use(self, handler: object, counts: Counts) -> None:
        """Count a handler among those that this sink serves."""
        counts.add_names(_FATES)
        self._users.add(handler)

    def prepare(self, exchange: Exchange) -> None:
        """Note the run that is active in the chain's thread; called there, when the chain ends."""
        self._last_active_run = _active_run() or self._last_active_run
        exchange.tracking_run = self._named_run or self._last_active_run
        with self._changed:
            self._received[exchange.tracking_run] += 1

    def take(self, scored: Scored, counts: Counts) -> None:
        """Take a scored answer, without waiting for the store."""
        exchange = scored.exchange
        feedback: dict[str, Score] = {}
        if self._feedback and exchange.trace_id is not None:
            feedback = {key: score for key, score in scored.row.scores.items() if score.status != "skipped"}
        if self._feedback and not exchange.traceable:
            counts.add("withheld")
        now = int(time.time() * 1000)
        answer = Answer(scored.row, exchange.tracking_run, exchange.trace_id, feedback, counts, now)
        with self._changed:
            if self._closed:
                self._count(answer, lost=1)
                return
            self._failures.setdefault(answer.run_id, Failures()).add(scored.row)
            self._keep(answer)
            self._start()

    def flush(self, timeout: float, counts: Counts | None = None) -> bool:
        """Write all that waits; False, and a warning that says how much is left, when the store did not take it."""
        counts = counts or self._all
        deadline = time.monotonic() + timeout
        with self._changed:
            if self._closed:  # that was said already
                return not counts.snapshot()["unwritten"]
            self._flushing += 1
            if self._unwritten:
                self._start()
            while counts.snapshot()["unwritten"] and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            self._flushing -= 1
            hangs = any(not ended.is_set() for ended in self._under_way.values())
            reason = self._failure or ("the store does not answer" if hangs else "there was not enough time")
        said = counts.snapshot()
        if said["unwritten"] or said["lost"]:
            message = "%d scored answers are not written into MLflow and wait, %d were given up: %s"
            _logger.warning(message, said["unwritten"], said["lost"], for_log(reason))
        if said["withheld"]:
            _logger.warning("the feedback on %d answers was withheld: their traces are not known", said["withheld"])
        return not said["unwritten"]

    def release(self, handler: object, counts: Counts) -> None:
        """A handler writes no more, and this became of its calls; close, unless there are others."""
        if handler in self._users:
            self._calls.update({name: number for name, number in counts.snapshot().items() if name in _CALLS})
        self._users.discard(handler)
        if not self._users:
            self.close()

    def close(self) -> None:
        """Put what still waits on disk, or give it up, and end the run that was made here: as failed where it lacks
        answers.
        """
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
            _forget(self)
            self._changed.wait_for(lambda: not self._writing, _LONGEST_LAST_WRITE)
            kept, given_up = self._put_aside()
        if kept and self._spill is not None:
            _logger.warning("%d scored answers wait in %s, to be written by the next handler", kept, self._spill.folder)
        if given_up:
            _logger.warning("%d scored answers were given up: they could not be written into MLflow", given_up)
        self._leave_runs(kept + self._all.snapshot()["lost"])

    def _leave_runs(self, absent: int) -> None:
        """End the run that was made here; a run in which no judge answered says so, whoever it belongs to."""
        silences = {run_id: failures.silence for run_id, failures in self._failures.items()}
        try:
            for live in self._live_runs.values():
                if live.lock.acquire(timeout=1):
                    try:
                        live.leave(silences.get(live.run_id), self._calls, is_whole=not absent)
                    finally:
                        live.lock.release()
        except RagMetricsError as error:
            _logger.warning("%s", for_log(str(error)))
        if self._own_run is None:
            return
        run_id, self._own_run, self._creation_id = self._own_run, None, uuid4().hex
        lacks = f"{absent} scored answers are not written" if absent else None
        try:
            end_run(run_id, lacks or silences.get(None))
        except RagMetricsError as error:
            _logger.warning("%s", for_log(str(error)))

    @property
    def _unwritten(self) -> int:
        return self._all.snapshot()["unwritten"]

    def _count(self, answer: Answer, **changes: int) -> None:
        for name, change in changes.items():
            answer.counts.add(name, change)
            self._all.add(name, change)

    def _start(self) -> None:
        """See that the thread runs; the caller holds the lock."""
        if self._thread is None or not self._thread.alive:  # it is not in a forked process
            self._thread = start_thread(self._run, name="ragmetrics-mlflow")
        self._changed.notify_all()

    def _keep(self, answer: Answer) -> None:
        """Let an answer wait: in memory, else on disk, else drop it; the caller holds the lock."""
        if len(self._waiting) + len(self._writing) < self._buffer_size and not self._on_disk:
            self._waiting.append(answer)
            self._count(answer, unwritten=1)
        elif self._spill is not None and self._put_on_disk(answer):
            self._count(answer, unwritten=1)
        else:
            if not self._dropping:
                _logger.warning("the buffer for MLflow is full: answers are dropped from now on (they are counted)")
            self._dropping += 1
            self._count(answer, lost=1)
            return
        if self._dropping:
            _logger.warning("answers are no longer dropped; %d were", self._dropping)
            self._dropping = 0

    def _put_on_disk(self, answer: Answer) -> bool:
        if self._spill is None:
            return False
        run_id = answer.run_id or self._own_run
        key = self._spill.append(packed(answer, run_id))
        if key is not None:
            self._spilled_counts[key] = answer.counts
            self._on_disk = len(self._spill)
        return key is not None

    def _put_aside(self) -> tuple[int, int]:
        """What waits when the sink closes goes to disk: how many are there now, and how many were given up."""
        given_up, self._is_over = 0, True
        left, self._waiting, self._writing = [*self._writing, *self._waiting], [], []
        for answer in left:
            if not answer.written and not self._put_on_disk(answer):
                given_up += 1
                self._count(answer, lost=1, unwritten=-1)
        if self._spill is None:
            return 0, given_up
        kept = len(self._spill)
        self._spill.close()
        return kept, given_up

    def _resume(self, entry: Packed) -> None:
        """Take an answer that a process before this one left on disk."""
        answer = unpacked(entry, Counts(_FATES))
        if answer is not None:
            with self._changed:
                self._keep(answer)
                self._start()

    def _refill(self) -> None:
        """Take answers from disk where there is room for them in memory; the caller holds the lock."""
        while self._on_disk and self._spill is not None and len(self._waiting) < self._buffer_size:
            found = self._spill.pop()
            self._on_disk = len(self._spill)
            if found is None:
                return
            key, entry = found
            counts = self._spilled_counts.pop(key, None)
            answer = unpacked(entry, counts or Counts(_FATES))
            if answer is not None:
                self._waiting.append(answer)

    def _run(self) -> None:
        """Write until nothing has come for a while; where the store fails, try again after longer and longer pauses."""
        pause = _PAUSE
        while self._begin_writing():
            try:
                self._write()
            finally:
                self._end_writing()
            pause = _PAUSE if self._failure is None else min(2 * pause, _LONGEST_PAUSE)
            self._rest(pause)

    def _begin_writing(self) -> bool:
        """Move what waits to what is being written, once there is something; False when the thread is to end.

        What a write that hangs has left of its run waits until that ends.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or any(map(self._is_free, self._waiting)), _IDLE_SECONDS)
            self._writing = [] if self._closed else [answer for answer in self._waiting if self._is_free(answer)]
            if not self._writing:
                self._thread = None
                return False
            self._waiting = [answer for answer in self._waiting if not self._is_free(answer)]
            return True

    def _is_free(self, answer: Answer) -> bool:
        ended = self._under_way.get(answer.run_id)
        return ended is None or ended.is_set()

    def _end_writing(self) -> None:
        """Put back what is not written."""
        with self._changed:
            for answer in self._writing:
                if answer.written:
                    self._count(answer, written=1, unwritten=-1, withheld=int(answer.withheld))
            self._waiting = [answer for answer in self._writing if not answer.written] + self._waiting
            self._writing = []
            if not self._closed:
                self._refill()
            self._changed.notify_all()

    def _rest(self, seconds: float) -> None:
        """Let answers gather, or the store recover; a flush cuts it short, but not to nothing where the store fails."""
        with self._changed:
            if self._failure is not None:
                self._changed.wait_for(lambda: self._closed, _SHORTEST_PAUSE_AFTER_FAILURE)
                seconds -= _SHORTEST_PAUSE_AFTER_FAILURE
            self._changed.wait_for(lambda: self._closed or self._flushing, seconds)

    def _write(self) -> None:
        """Write the answers into their runs: a run that cannot be written, or hangs, holds up no other."""
        by_run: dict[str | None, list[Answer]] = {}
        for answer in self._writing:
            by_run.setdefault(answer.run_id, []).append(answer)
        failures: list[str] = []
        for run_id, answers in by_run.items():
            ended = self._under_way[run_id] = threading.Event()
            start_thread(partial(self._write_run, run_id, answers, failures, ended), name="ragmetrics-mlflow")
            ended.wait(_PATIENCE)
        if failures and self._failure is None and not self._is_over:
            _logger.warning("%s; it will be tried again", for_log(failures[0]))
        self._failure = failures[0] if failures else None

    def _write_run(
        self, run_id: str | None, answers: Sequence[Answer], failures: list[str], ended: threading.Event
    ) -> None:
        try:
            live = self._live_run(run_id)
            with live.lock:
                if not live.begun:
                    live.begin(self._description)
                full = len(answers) >= self._buffer_size // 2
                self._write_into(live, answers, self._received[run_id], everything=self._flushing > 0 or full)
        except RagMetricsError as error:
            failures.append(str(error))
            if run_id is None and self._own_run in self._live_runs and not self._live_runs[self._own_run].begun:
                del self._live_runs[self._own_run]  # another process may have taken it back: it is looked for anew
                self._own_run = None
        finally:
            with self._changed:
                ended.set()
                if self._waiting and not self._closed:
                    self._start()

    def _write_into(self, live: LiveRun, answers: Sequence[Answer], received: int, *, everything: bool) -> None:
        """Write what is left of ``answers``: metrics, rows of the tables (in batches, unless ``everything``), feedback.

        Where it raises, the answers know how far it came, and it may be called again.
        """
        fresh = [answer for answer in answers if not answer.metrics_written]
        for answer in fresh:
            if answer.metrics is None:
                scores = answer.scored_row.scores
                cause = diagnoses_of([scores])[0].cause if has_diagnoses(scores) else None
                answer.metrics = live.next_metrics(scores, answer.time_ms, cause)
        live.write_metrics([metric for answer in fresh for metric in answer.metrics or ()], received)
        for answer in fresh:
            answer.metrics_written = True
        held = live.held(answer.left_at for answer in answers if answer.left_at is not None)
        for answer in answers:
            answer.place = answer.left_at if answer.left_at in held else answer.place
            answer.left_at = None
        unlisted = [answer for answer in answers if answer.place is None]
        if unlisted and (everything or _are_due(unlisted, live.rows)):
            rows = [answer.scored_row for answer in unlisted]
            told = has_diagnoses(key for row in rows for key in row.scores)
            causes = diagnosis_columns(diagnoses_of([row.scores for row in rows], live.language)) if told else None
            tables = rows_frame(rows, causes), items_frame(rows)
            with self._changed:
                if self._is_over:
                    return
                for answer, place in zip(unlisted, live.append(*tables), strict=True):
                    answer.place = place
        live.publish()
        for answer in answers:
            _give_feedback(answer, live)
            answer.written = answer.place is not None and not answer.feedback

    def _live_run(self, run_id: str | None) -> LiveRun:
        if run_id is None:
            run_id = self._own_run = self._own_run or new_run("ragmetrics live", self._creation_id)
        if run_id not in self._live_runs:
            self._live_runs[run_id] = live_run(run_id)
            self._live_runs[run_id].anytime |= self._anytime
        return self._live_runs[run_id]


_SINKS: dict[str, MLflowSink] = {}
_SINKS_LOCK = threading.Lock()


def shared_sink(
    description: Mapping[str, object],
    *,
    run_id: str | None,
    feedback: bool,
    anytime: bool,
    buffer_size: int,
    spill: SpillOptions,
) -> MLflowSink:
    """The sink of all handlers of this process that write the same, until it is closed."""
    import mlflow

    place = [mlflow.get_tracking_uri(), run_id, None if run_id else _active_run()]
    spilling = [spill.folder and str(spill.folder), spill.most_bytes]
    key = as_json([description, *place, feedback, anytime, buffer_size, *spilling])
    with _SINKS_LOCK:
        if key not in _SINKS:
            opened = None if spill.folder is None else Spill(spill, str(place[0]))
            _SINKS[key] = MLflowSink(
                description,
                run_id=run_id,
                feedback=feedback,
                anytime=anytime,
                buffer_size=buffer_size,
                spill=opened,
            )
        return _SINKS[key]


def _forget(sink: MLflowSink) -> None:
    for key in [key for key, each in list(_SINKS.items()) if each is sink]:
        _SINKS.pop(key, None)


def close_sinks(deadline: float) -> None:
    """Flush and close what handlers that nobody closed have left."""
    for sink in list(_SINKS.values()):
        sink.flush(max(0.0, deadline - time.monotonic()))
        sink.close()


def _after_fork() -> None:
    global _SINKS_LOCK
    _SINKS_LOCK = threading.Lock()
    for sink in list(_SINKS.values()):
        sink.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _are_due(unlisted: Sequence[Answer], listed: int) -> bool:
    """Whether rows go into the table now. It is rewritten as a whole: the longer it is, the more rows wait for it."""
    waited = time.monotonic() - unlisted[0].came
    return len(unlisted) >= max(_FEWEST_ROWS, listed // 10) or (
        waited >= _LONGEST_WAIT and listed < 100 * len(unlisted)
    )


def _give_feedback(answer: Answer, live: LiveRun) -> None:
    """Put the scores on the trace; give up after a few attempts where there is none, or the store takes no feedback."""
    try:
        while answer.feedback and answer.trace_id is not None:
            key = next(iter(answer.feedback))
            add_feedback(answer.trace_id, key, answer.feedback[key], live.run_id, answer.time_ms)
            del answer.feedback[key]
    except RagMetricsError as error:
        if not isinstance(error, TraceAbsentError):
            live.check()  # a store that does not answer at all is another matter: then all of it waits
        answer.feedback_attempts += 1
        if answer.feedback_attempts >= _FEEDBACK_ATTEMPTS:
            answer.feedback.clear()
            answer.withheld = True


def _active_run() -> str | None:
    import mlflow

    active = mlflow.active_run()
    return None if active is None else str(active.info.run_id)
