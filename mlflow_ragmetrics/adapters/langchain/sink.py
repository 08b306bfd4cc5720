"""Scored answers into MLflow runs and onto traces, on a thread of its own: what cannot be written yet waits."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import partial
from uuid import uuid4

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange
from mlflow_ragmetrics.adapters.langchain.scoring import Answer, Counts, Scored, packed, unpacked
from mlflow_ragmetrics.adapters.langchain.spill import SpillOptions
from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.core.secrets import for_log
from mlflow_ragmetrics.engine.threads import ThreadTask, start_thread
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.report.diagnosis import diagnoses_of, diagnosis_columns
from mlflow_ragmetrics.report.marks import Failures
from mlflow_ragmetrics.report.tables import has_diagnoses, items_frame, rows_frame
from mlflow_ragmetrics.tracking.live import (
    Journal,
    LiveRun,
    TraceAbsentError,
    add_feedback,
    end_run,
    live_run,
    new_run,
    settle,
)
from mlflow_ragmetrics.tracking.writer import this_process

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
_LONGEST_JOURNAL = 2**20
_FATES = ("written", "unwritten", "lost", "withheld")
_CALLS = ("seen", "dropped", "failed", "skipped")
_logger = logging.getLogger(__name__)


class MLflowSink:
    """Writes into the run ``run_id``, else the one active at the call, else the one active before, else a new run.

    A run is active in one thread only: the calls that a server makes in its other threads belong to the run that the
    handler was made in, or saw last. ``feedback``: also onto the chain's trace. Handlers that write the same share one
    sink, and with it the run that it makes (``shared_sink``).

    An answer that was taken is in one of four places: it waits in ``_waiting``, oldest first; the thread is writing
    it (``_writing``), after which it is written or waits again; it is on disk only (``_on_disk``), because
    ``buffer_size`` answers wait already; or it was dropped, because that is full too.

    On disk, in journals where ``spill`` says, is each answer from when it is scored until it is written, and how many
    came and are not scored yet: what a killed process had, any other of the same store writes, and says what is lost.

    Of each handler it counts ``written``, ``unwritten`` (the first three places) and ``lost`` (dropped) answers, which
    add up to those taken, and ``withheld`` answers whose trace is not known.
    """

    def __init__(
        self,
        description: Mapping[str, object],
        *,
        run_id: str | None = None,
        feedback: bool = True,
        buffer_size: int = 5000,
        spill: SpillOptions | None = None,
    ) -> None:
        import mlflow

        self._description = description
        self._feedback = feedback
        self._named_run = run_id
        self._buffer_size = buffer_size
        self._last_active_run = _active_run()
        self._creation_id = uuid4().hex
        self._users: weakref.WeakSet[object] = weakref.WeakSet()
        self._all = Counts(_FATES)
        self._folder = spill.folder if spill is not None else None
        self._most_bytes = spill.most_bytes if spill is not None else 0
        self._store = mlflow.get_tracking_uri()
        self._renew()
        self._adopt()
        self._journal(run_id or self._last_active_run)

    def _renew(self) -> None:
        """Begin with nothing: at first, and in a forked process, where what waits belongs to the parent."""
        self._own_run: str | None = None
        self._live_runs: dict[str, LiveRun] = {}
        self._changed = threading.Condition()
        self._waiting: list[Answer] = []
        self._writing: list[Answer] = []
        self._on_disk: deque[tuple[Journal, int, str | None, Counts]] = deque()
        self._under_way: dict[str | None, threading.Event] = {}
        self._dropping = 0
        self._failure: str | None = None
        self._failures: dict[str | None, Failures] = {}
        self._calls: Counter[str] = Counter()
        self._received: Counter[str | None] = Counter()
        self._accepting = threading.Lock()
        self._journals: dict[str | None, Journal] = {}
        self._older: list[Journal] = []
        self._adopted: list[Journal] = []
        self._flushing = 0
        self._closed = False
        self._is_over = False  # what was being written when it closed is on disk
        self._thread: ThreadTask | None = None

    def after_fork(self) -> None:
        """Become the sink of a forked process; it goes on in the parent's run, in a part of its own."""
        for journal in self._all_journals():
            journal.forget()
        self._renew()
        self._all.reset()

    def use(self, handler: object, counts: Counts) -> None:
        """Count a handler among those that this sink serves."""
        counts.add_names(_FATES)
        self._users.add(handler)

    def prepare(self, exchange: Exchange) -> None:
        """Note the run that is active in the chain's thread; called there, when the chain ends."""
        self._last_active_run = _active_run() or self._last_active_run
        exchange.tracking_run = self._named_run or self._last_active_run
        with self._accepting:
            self._received[exchange.tracking_run] += 1
            exchange.journal = self._journal(exchange.tracking_run)
            if exchange.journal is not None:
                exchange.journal.accept()

    def withdraw(self, exchange: Exchange) -> None:
        """No score will come of an exchange, unless it was taken."""
        journal, exchange.journal = exchange.journal, None
        if journal is not None:
            journal.settle()

    def take(self, scored: Scored, counts: Counts) -> None:
        """Take a scored answer, without waiting for the store."""
        exchange = scored.exchange
        feedback: dict[str, Score] = {}
        if self._feedback and exchange.trace_id is not None:
            feedback = {key: score for key, score in scored.row.scores.items() if score.status != "skipped"}
        if self._feedback and not exchange.traceable:
            counts.add("withheld")
        now = int(time.time() * 1000)
        journal, exchange.journal = exchange.journal, None
        answer = Answer(scored.row, exchange.tracking_run, exchange.trace_id, feedback, counts, now, journal)
        if journal is not None:
            used = sum(each.size for each in self._all_journals()) - journal.size
            answer.number = journal.append(packed(answer), self._most_bytes - used)
        with self._changed:
            if self._closed:
                self._count(answer, **{"lost" if answer.number is None else "unwritten": 1})
                return
            self._failures.setdefault(answer.run_id, Failures()).add(scored.row)
            self._keep(answer)
            self._start()

    def flush(self, timeout: float, counts: Counts | None = None) -> bool:
        """Write all that waits; False, and a warning that says how much is left, when the store did not take it."""
        counts = counts or self._all
        deadline = time.monotonic() + timeout
        self._adopt()
        with self._changed:
            if self._closed:  # that was said already
                return not counts.snapshot()["unwritten"]
            self._flushing += 1
            if self._unwritten:
                self._start()
            while (counts.snapshot()["unwritten"] or self._is_settling) and (left := deadline - time.monotonic()) > 0:
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
        """Leave what still waits on disk, or give it up, and end the run that was made here: as failed where it lacks
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
        if kept:
            _logger.warning("%d scored answers wait in %s, to be written by the next handler", kept, self._folder)
        if given_up:
            _logger.warning("%d scored answers were given up: they could not be written into MLflow", given_up)
        own = [*self._older, *self._journals.values()]
        unscored, waiting = (sum(each) for each in ((j.unscored for j in own), (len(j.waiting) for j in own)))
        self._leave_runs(unscored + waiting + self._all.snapshot()["lost"])
        with self._accepting:
            for journal in self._all_journals():
                journal.close(keep=not journal.is_over)

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
        lacks = f"{absent} answers are not written" if absent else None
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
        elif answer.journal is not None and answer.number is not None:
            self._on_disk.append((answer.journal, answer.number, answer.run_id, answer.counts))
            self._count(answer, unwritten=1)
        else:
            if not self._dropping:
                _logger.warning("the buffer for MLflow is full: answers are dropped from now on (they are counted)")
            self._dropping += 1
            self._count(answer, lost=1)
            if answer.journal is not None:
                answer.journal.settle()
            return
        if self._dropping:
            _logger.warning("answers are no longer dropped; %d were", self._dropping)
            self._dropping = 0

    def _put_aside(self) -> tuple[int, int]:
        """Of what waits when the sink closes: how many answers are on disk, and how many are given up."""
        given_up, self._is_over = 0, True
        left, self._waiting, self._writing = [*self._writing, *self._waiting], [], []
        for answer in left:
            if not answer.written and answer.number is None:
                given_up += 1
                self._count(answer, lost=1, unwritten=-1)
                if answer.journal is not None:
                    answer.journal.settle()
        return sum(len(journal.waiting) for journal in self._all_journals()), given_up

    def _all_journals(self) -> list[Journal]:
        return [*self._adopted, *self._older, *self._journals.values()]

    def _journal(self, run_id: str | None) -> Journal | None:
        """The journal of what comes for a run now; the caller holds the lock for accepting."""
        if run_id not in self._journals and self._folder is not None and not self._closed:
            try:
                journal = Journal(self._folder, self._store)
            except OSError:
                return None
            run = run_id or self._own_run
            part = {"part": self._live_runs[run].part} if run in self._live_runs else {}
            journal.change({None: {"process": this_process(), "run": run, **part}})
            self._journals[run_id] = journal
        return self._journals.get(run_id)

    def _note_run(self, run_id: str | None, live: LiveRun) -> None:
        """See that the journals say which run it is that they belong to, and which part of it is this process's."""
        journal = self._journals.get(run_id)
        for each in [*([] if journal is None else [journal]), *self._older]:
            if (each is journal or each.about["run"] is None) and each.about.get("part") != live.part:
                each.change({None: {"run": live.run_id, "part": live.part}})

    def _adopt(self) -> None:
        """Take over what processes that ended left on disk."""
        if self._folder is None or self._closed:
            return
        for journal in Journal.left_in(self._folder, self._store):
            counts = Counts(_FATES)
            with self._changed:
                self._adopted.append(journal)
                waiting = [(journal, number, journal.about.get("run"), counts) for number in journal.waiting]
                self._on_disk.extend(waiting)
                self._all.add("unwritten", len(waiting))
                counts.add("unwritten", len(waiting))
                self._refill()
                self._start()

    def _refill(self) -> None:
        """Take answers from disk where there is room for them in memory; the caller holds the lock."""
        while self._on_disk and len(self._waiting) < self._buffer_size:
            journal, number, run_id, counts = self._on_disk.popleft()
            answer = unpacked(journal.answer(number) or {}, run_id, counts)
            if answer is None:
                journal.done([number])
                for each in (counts, self._all):
                    each.add("unwritten", -1)
                    each.add("lost")
            else:
                answer.journal, answer.number = journal, number
                self._waiting.append(answer)

    def _tidy(self) -> None:
        """Note which answers are written, begin anew what has grown long, and remove what is over; the caller holds
        the lock.
        """
        done: dict[Journal, list[int]] = {}
        for answer in self._writing:
            if answer.written and answer.journal is not None:
                if answer.number is None:
                    answer.journal.settle()
                else:
                    done.setdefault(answer.journal, []).append(answer.number)
        for journal, numbers in done.items():
            journal.done(numbers)
        longest = min(_LONGEST_JOURNAL, self._most_bytes // 4)
        with self._accepting:
            current = self._named_run or self._last_active_run
            for run_id, journal in list(self._journals.items()):
                if journal.size > longest or (run_id != current and journal.is_over):
                    self._older.append(self._journals.pop(run_id))
            for journal in [each for each in self._older if each.is_over]:
                self._older.remove(journal)
                journal.close(keep=False)

    @property
    def _is_settling(self) -> bool:
        """Whether what other processes left is still to be written and said, by a store that takes it."""
        return bool(self._adopted) and self._failure is None

    def _settle(self) -> None:
        """Say in their runs what processes that ended had accepted and is lost, once all else of it is written."""
        for journal in [each for each in self._adopted if not each.waiting]:
            lost = journal.unscored
            run_id = journal.about.get("run")
            if lost:
                process = for_log(str(journal.about.get("process")))
                _logger.warning("%d answers were lost: process %s was ended before they were scored", lost, process)
                run_id = run_id or self._live_run(None).run_id
            if run_id is not None and (lost or "part" in journal.about):
                settle(run_id, journal, lost)
            with self._changed:
                self._adopted.remove(journal)
                journal.close(keep=False)
                self._changed.notify_all()

    def _run(self) -> None:
        """Write until nothing has come for a while; where the store fails, try again after longer and longer pauses."""
        pause = _PAUSE
        self._adopt()
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
            self._changed.wait_for(lambda: self._closed or self._is_due, _IDLE_SECONDS)
            if self._closed or not self._is_due:
                self._thread = None
                return False
            self._writing = [answer for answer in self._waiting if self._is_free(answer)]
            self._waiting = [answer for answer in self._waiting if not self._is_free(answer)]
            return True

    @property
    def _is_due(self) -> bool:
        settled = any(not journal.waiting for journal in self._adopted)
        return settled or any(map(self._is_free, self._waiting))

    def _is_free(self, answer: Answer) -> bool:
        ended = self._under_way.get(answer.run_id)
        return ended is None or ended.is_set()

    def _end_writing(self) -> None:
        """Put back what is not written."""
        with self._changed:
            for answer in self._writing:
                if answer.written:
                    self._count(answer, written=1, unwritten=-1, withheld=int(answer.withheld))
            if not self._is_over:
                self._tidy()
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
        try:
            self._settle()
        except RagMetricsError as error:
            failures.append(str(error))
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
                self._note_run(run_id, live)
                full = len(answers) >= self._buffer_size // 2
                self._write_into(live, answers, self._received[run_id], everything=self._flushing > 0 or full)
        except Exception as error:  # whatever it is, the answers wait and the log says why
            failures.append(str(error) or type(error).__name__)
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
                points = [(each.key, each.value, each.timestamp, each.step) for each in answer.metrics]
                _note(answer, metrics=points)
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
                    _note(answer, place=place)
        live.publish()
        for answer in answers:
            _give_feedback(answer, live)
            answer.written = answer.place is not None and not answer.feedback

    def _live_run(self, run_id: str | None) -> LiveRun:
        if run_id is None:
            run_id = self._own_run = self._own_run or new_run("ragmetrics live", self._creation_id)
        if run_id not in self._live_runs:
            self._live_runs[run_id] = live_run(run_id)
        return self._live_runs[run_id]


_SINKS: dict[str, MLflowSink] = {}
_SINKS_LOCK = threading.Lock()


def shared_sink(
    description: Mapping[str, object],
    *,
    run_id: str | None,
    feedback: bool,
    buffer_size: int,
    spill: SpillOptions,
) -> MLflowSink:
    """The sink of all handlers of this process that write the same, until it is closed."""
    import mlflow

    place = [mlflow.get_tracking_uri(), run_id, None if run_id else _active_run()]
    spilling = [spill.folder and str(spill.folder), spill.most_bytes]
    key = as_json([description, *place, feedback, buffer_size, *spilling])
    with _SINKS_LOCK:
        if key not in _SINKS:
            _SINKS[key] = MLflowSink(
                description,
                run_id=run_id,
                feedback=feedback,
                buffer_size=buffer_size,
                spill=spill,
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


def _note(answer: Answer, **change: object) -> None:
    """Keep on disk how far an answer came, before the store hears of it."""
    if answer.journal is not None and answer.number is not None:
        answer.journal.change({answer.number: change})


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
