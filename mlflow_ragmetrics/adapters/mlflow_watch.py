"""``Watch`` scores the new traces of an MLflow experiment in passes and writes the scores to the traces.

Progress is read from the store: a trace is done if it has an assessment for every metric of the suite. So the next pass
continues a killed one. A tag of the experiment stores the time before which all traces are done, and the sums of their
scores; the run's figures add the traces since then.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, Union

import mlflow
from mlflow.entities import Assessment, Trace, TraceInfo

from mlflow_ragmetrics.core.safe_text import as_json
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.threads import check_awaited
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError, RagMetricsError
from mlflow_ragmetrics.results.tables import KEY, score_in
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.rows.trace_records import (
    TraceSearch,
    experiment_named,
    is_answered,
    record_of_trace,
    state_of,
    whole_trace,
)
from mlflow_ragmetrics.suite import Suite
from mlflow_ragmetrics.tracking.run import COMPLETE, alone_in, new_run
from mlflow_ragmetrics.tracking.traces import SOURCE_RUN, feedback_of, link_traces, remove_assessment, write_assessment
from mlflow_ragmetrics.tracking.writer import (
    STATUS_TAG,
    RunWriter,
    explained,
    mlflow_name,
    named_failure,
    unless_absent,
)

_HOUR = 3_600_000
_DAY = 24 * _HOUR
_BATCH = 100
_ATTEMPTS = 3
_ATTEMPT = "ragmetrics.attempt"
_COUNTS = ("n_measured", "n_unmeasured", "n_skipped", "n_error")


@dataclass
class Pass:
    """The outcome of one pass.

    ``scored`` is the number of traces scored by this pass, ``waiting`` the number left for the next. ``figures`` are
    the run's figures. ``incomplete`` is the reason if the pass ended before all traces were scored.
    """

    run_id: str
    scored: int = 0
    waiting: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    incomplete: Union[str, None] = None


@dataclass
class _Sums:
    """The scores of the traces that began before ``until`` (milliseconds).

    ``keys`` has, for each metric, the sum of the measured values and the four ``_COUNTS``.
    """

    until: int
    traces: int = 0
    failed_calls: int = 0
    keys: dict[str, list[float]] = field(default_factory=dict)

    def add(self, info: TraceInfo, scores: Mapping[str, Score]) -> None:
        """Add a trace with its scores."""
        self.traces += bool(scores)
        self.failed_calls += state_of(info) == "ERROR"
        for key, score in scores.items():
            sums = self.keys.setdefault(key, [0.0, 0, 0, 0, 0])
            place = {"error": 4, "skipped": 3}.get(str(score.status), 1 if score.measured else 2)
            sums[place] += 1
            sums[0] += score.measurement or 0.0

    @property
    def figures(self) -> dict[str, float]:
        """The means and counts to log."""
        numbers = {"traces/scored": float(self.traces), "traces/failed_calls": float(self.failed_calls)}
        for key, (total, *counts) in self.keys.items():
            if counts[0]:
                numbers[f"{key}/mean"] = total / counts[0]
            numbers |= {f"{key}/{name}": float(count) for name, count in zip(_COUNTS, counts, strict=True)}
        return numbers


@dataclass(frozen=True)
class Watch:
    """Scores the traces of an experiment (name or id) with a suite.

    ``filter`` (a filter of MLflow's trace search) and ``sample`` (a share) select traces. The first pass starts at
    ``since`` (milliseconds since 1970). ``limit`` is the maximum number of traces per pass.
    """

    suite: Suite
    experiment: str
    filter: str = ""
    sample: float = 1.0
    since: int = 0
    limit: Union[int, None] = None

    def __post_init__(self) -> None:
        if not 0 < self.sample <= 1:
            raise InvalidOptionError(f"sample={self.sample:g} must be above 0 and at most 1", param="sample")

    def once(self) -> Pass:
        """Run one pass: score traces without scores, write the scores, and update the run's figures.

        Raises ``InvalidDataError`` if the experiment does not exist, and ``RagMetricsError`` if the store fails. A
        second process with the same watch waits for the first.
        """
        with named_failure("the pass ended early; the next pass continues"):
            experiment_id = experiment_named(self.experiment)
            mlflow.set_experiment(experiment_id=experiment_id)
            description = {**self.suite.describe(), "watch.filter": self.filter, "watch.sample": self.sample}
            watch_id = blake2b(as_json([experiment_id, description]).encode(), digest_size=8).hexdigest()
            while True:
                run_id = new_run(f"watch · {self.experiment}", watch_id)
                try:
                    with alone_in(run_id):
                        if new_run(f"watch · {self.experiment}", watch_id) == run_id:
                            return self._once(experiment_id, watch_id, run_id, description)
                except mlflow.exceptions.MlflowException:
                    if new_run(f"watch · {self.experiment}", watch_id) == run_id:
                        raise  # else several processes created the run at the same time, and this one was deleted

    def _once(self, experiment_id: str, watch_id: str, run_id: str, description: Mapping[str, Any]) -> Pass:
        reason: Union[str, None] = "interrupted"
        try:
            RunWriter(run_id).suite(description)
            outcome = self._pass(experiment_id, f"ragmetrics.watch.{watch_id}", Pass(run_id))
            reason = outcome.incomplete
        finally:
            with suppress(RagMetricsError), explained(run_id):
                RunWriter(run_id).end(reason)
        return outcome

    def _pass(self, experiment_id: str, cursor_tag: str, outcome: Pass) -> Pass:
        client = mlflow.MlflowClient()
        stored = client.get_experiment(experiment_id).tags.get(cursor_tag)
        before = _Sums(**json.loads(stored)) if stored else _Sums(self.since)
        search = TraceSearch(experiment_id, self.filter, before.until, sample=self.sample)
        newest, unreadable = self._score(search, outcome)
        since = self._add_up(search, before, newest, unreadable, outcome)
        outcome.figures = since.figures
        writer = RunWriter(outcome.run_id)
        known = client.get_run(outcome.run_id).data.metrics
        named = {mlflow_name(name): value for name, value in since.figures.items()}
        shown = {k: v for k, v in named.items() if v or k in known or k.endswith("/mean")}
        writer.figures({k: v for k, v in shown.items() if known.get(k) != v}, step=since.traces)
        client.set_experiment_tag(experiment_id, cursor_tag, as_json(vars(before)))
        if outcome.incomplete is None:
            writer.tags({STATUS_TAG: COMPLETE})
        return outcome

    def _score(self, search: TraceSearch, outcome: Pass) -> tuple[int, set[str]]:
        """Score traces without scores; returns the time of the newest trace and the traces without stored spans."""
        newest, unreadable = search.since, set[str]()

        def due() -> Iterator[TraceInfo]:
            nonlocal newest
            for info in search.infos():
                newest = max(newest, info.request_time)
                if is_answered(info) and self._missing(info):
                    yield info

        waiting = due()
        most = sys.maxsize if self.limit is None else self.limit
        while batch := list(islice(waiting, min(_BATCH, most - outcome.scored))):
            check_awaited()
            infos = {info.trace_id: info for info in batch}
            traces = {name: trace for name, info in infos.items() if (trace := whole_trace(info)) is not None}
            unreadable |= infos.keys() - traces.keys()
            if traces:
                self._score_batch(infos, traces, outcome)
            if outcome.incomplete is not None:
                break
        return newest, unreadable

    def _score_batch(self, infos: Mapping[str, TraceInfo], traces: Mapping[str, Trace], outcome: Pass) -> None:
        written: list[str] = []
        failed: list[Row] = []

        def write(row: Row) -> None:
            missing = self._missing(infos[row.sample.id])
            if unless_absent(partial(_write, row, missing, outcome.run_id)):
                written.append(row.sample.id)

        def take(row: Row) -> None:
            if any(score.status == "error" for score in row.scores.values()):
                failed.append(row)
            else:
                write(row)

        samples = list(map(_sample_of, traces.values()))
        try:
            report = self.suite.evaluate_samples(samples, checked=(self.suite.selection, ()), progress=False, each=take)
        except JudgeError as error:  # the judge stopped answering
            if error.report is None:
                raise
            report = error.report
        if report.stopped is None:  # if the judge stopped, this is not a failed attempt
            for row in failed:
                write(row)
        link_traces(written, outcome.run_id)
        outcome.scored += len(written)
        outcome.incomplete = report.incomplete

    def _missing(self, info: TraceInfo) -> dict[str, Union[Assessment, None]]:
        """The metrics without a final assessment, each with the failed attempt to replace, if there is one.

        An assessment without a value is final; an assessment with an error is final after three attempts.
        """
        missing: dict[str, Union[Assessment, None]] = dict.fromkeys(self.suite.keys)
        for key, assessment in _assessments_of(info):
            if score_in(assessment.metadata).status != "error" or _attempt(assessment) >= _ATTEMPTS:
                missing.pop(key, None)
            elif key in missing and _attempt(assessment):
                missing[key] = assessment
        return missing

    def _add_up(self, search: TraceSearch, before: _Sums, newest: int, unreadable: set[str], outcome: Pass) -> _Sums:
        """The sums of all traces; ``before`` advances to the first trace that a later pass must read again.

        A trace may reach the store up to an hour after its start. Unfinished traces and traces without spans are
        checked again for a day.
        """
        now = search.until
        since = _Sums(now, before.traces, before.failed_calls, {key: [*sums] for key, sums in before.keys.items()})
        settled = max(before.until, newest - _HOUR)
        for info in search.infos():
            is_recent = info.request_time > now - _DAY
            if state_of(info) == "IN_PROGRESS":
                is_open = is_recent
            else:
                is_lacking = is_answered(info) and bool(self._missing(info))
                is_open = is_lacking and (is_recent or info.trace_id not in unreadable)
                outcome.waiting += is_lacking
            if is_open:
                settled = min(settled, info.request_time)
            ours = ((k, assessment.metadata) for k, assessment in _assessments_of(info))
            scores = {k: score_in(metadata) for k, metadata in ours if metadata.get(SOURCE_RUN) == outcome.run_id}
            since.add(info, scores)
            if info.request_time < settled:
                before.add(info, scores)
        before.until = settled
        return since


def _assessments_of(info: TraceInfo) -> Iterator[tuple[str, Any]]:
    """The trace's assessments from this package, with the keys of their metrics."""
    for assessment in info.assessments or ():
        if (key := (assessment.metadata or {}).get(KEY)) is not None:
            yield key, assessment


def _attempt(assessment: Assessment) -> int:
    return int((assessment.metadata or {}).get(_ATTEMPT, 0))


def _sample_of(trace: Trace) -> Sample:
    """The sample of a trace, with the trace's id, because ids sent by callers may repeat."""
    sample = to_sample(record_of_trace(trace))
    invalid = {name: why for name, why in sample.invalid.items() if name != "id"}
    return replace(sample, id=trace.info.trace_id, invalid=invalid)


def _write(row: Row, missing: Mapping[str, Union[Assessment, None]], run_id: str) -> bool:
    """Write the missing scores to the trace, and return ``True``.

    An attempt has the same assessment id in all processes, so two processes write it only once.
    """
    for key, failed in missing.items():
        attempt = 1 if failed is None else _attempt(failed) + 1
        feedback = feedback_of(key, row.scores[key], run_id)
        feedback.metadata = {**(feedback.metadata or {}), _ATTEMPT: str(attempt)}
        if failed is not None:
            remove_assessment(row.sample.id, str(failed.assessment_id))
        write_assessment(row.sample.id, feedback, f"watch {key} {attempt}")
    return True
