"""One pass of a watch: the traces since the last one scored and written, figures and alarms brought up to date."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.monitoring.alert import check_alert, send
from mlflow_ragmetrics.monitoring.state import Alarm, AnchorScores, WatchState
from mlflow_ragmetrics.report.anytime import digest_of
from mlflow_ragmetrics.rows import digest
from mlflow_ragmetrics.rows.groups import SESSION
from mlflow_ragmetrics.rows.labels import Label, as_number
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.rows.trace_search import TraceSearch, whole_trace
from mlflow_ragmetrics.rows.traces import is_answered, record_of_trace, state_of
from mlflow_ragmetrics.suite import Suite
from mlflow_ragmetrics.text.messages import Text, render, say
from mlflow_ragmetrics.tracking.anytime import measurement_id
from mlflow_ragmetrics.tracking.feedback import SOURCE_RUN
from mlflow_ragmetrics.tracking.traces import add_scores, link_traces, scored_keys
from mlflow_ragmetrics.tracking.watch_run import WatchRun, watch_run
from mlflow_ragmetrics.tracking.writer import reason_of

if TYPE_CHECKING:
    from mlflow.entities import Trace, TraceInfo

__all__ = ["PassOutcome", "Watch"]

HOUR = 3_600_000
_DAY = 24 * HOUR
_BATCH = 100
_FETCHES = 8
_ATTEMPTS = 3
_FEW_ANCHORS = 10


@dataclass(frozen=True)
class PassOutcome:
    """What one pass did: how many traces it found new, scored, counted and left, and what is wrong.

    ``lines`` say how the keys stand that are watched, and what of them was not measured.
    """

    run_id: str
    number: int
    scored: int
    recovered: int
    failed: int
    left: int
    lines: Sequence[Text]
    figures: Mapping[str, float]
    new: Sequence[Alarm]
    standing: Sequence[Alarm]
    incomplete: Union[str, None] = None
    undelivered: Union[str, None] = None


@dataclass(frozen=True)
class Watch:
    """A suite over the traces of an experiment, pass by pass.

    ``filter``, ``sample`` and ``since`` (milliseconds, for the first pass) say which traces; ``late``: how long after
    its beginning a trace may still arrive in the store. ``limit``: how many are scored in a pass at most. ``anchors``:
    rows that stay the same and are scored with each pass that scores traces. ``alarm_on``: keys (default: the
    composites, else all metrics from 0 to 1 of which more or less is better), ``limits``: means that keys must keep.
    ``alert``: a command or a webhook. ``InvalidOptionError`` names what cannot be used.
    """

    suite: Suite
    experiment_id: str
    experiment: str
    filter: str = ""
    sample: float = 1.0
    since: int = 0
    late: int = HOUR
    limit: Union[int, None] = None
    anchors: Sequence[Sample] = ()
    alarm_on: Sequence[str] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    alert: Union[str, None] = None

    def __post_init__(self) -> None:
        if not 0 < self.sample <= 1:
            raise InvalidOptionError(f"sample={self.sample:g} must lie above 0 and not above 1", param="sample")
        if self.alert is not None:
            check_alert(self.alert)
        possible = self._possible_keys()
        for key in (*self.alarm_on, *self.limits):
            if key not in possible:
                message = f"no alarm can be raised on {key!r}; there are {', '.join(possible) or 'none'}"
                raise InvalidOptionError(message, param="alarm_on" if key in self.alarm_on else "limits")
        for key, limit in self.limits.items():
            if not 0 < limit < 1 or self.suite.better.get(key, True) is False:
                message = f"fail_under {key}={limit:g} must lie between 0 and 1, of a metric that is better the higher"
                raise InvalidOptionError(message, param="limits")
        if 0 < len(self.anchors) < _FEW_ANCHORS:
            message = (
                f"{len(self.anchors)} anchors cannot show whether the judge has changed: give {_FEW_ANCHORS} or more"
            )
            raise InvalidOptionError(message, param="anchors")
        for label in _labels(self.anchors):
            if label is not None and not 0 <= label <= 1:
                raise InvalidOptionError(f"the label {label:g} of an anchor does not lie in 0 to 1", param="anchors")

    def _possible_keys(self) -> list[str]:
        ranges, better = self.suite.ranges, self.suite.better
        return [k for k in self.suite.keys if ranges.get(k) == (0.0, 1.0) and better.get(k, True) is not None]

    @property
    def keys(self) -> list[str]:
        """The metrics that an alarm may be about."""
        if self.alarm_on or self.limits:
            return list(dict.fromkeys((*self.alarm_on, *self.limits)))
        composites = [self.suite.name_prefix + each.key for each in self.suite.composites]
        return composites or self._possible_keys()

    @property
    def watch_id(self) -> str:
        """What is watched and how: the same after a restart, and another for another suite, judge, filter or sample."""
        content = [measurement_id(self.suite.describe()), self.experiment_id, self.filter, self.sample]
        return blake2b(as_json(content).encode(), digest_size=8).hexdigest()

    def once(self, *, rebase: bool = False) -> PassOutcome:
        """One pass. ``rebase``: what quality is from now on is the new normal, and alarms are over.

        ``WatchBusyError`` where another process is at the same watch, ``RagMetricsError`` where the store fails.
        """
        import mlflow
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            mlflow.set_experiment(experiment_id=self.experiment_id)
            with watch_run(f"watch · {self.experiment}", self.watch_id) as run:
                return _Pass(self, run).outcome(rebase=rebase)
        except (MlflowException, SQLAlchemyError, OSError) as error:
            raise RagMetricsError(f"the pass ended early, the next one goes on: {reason_of(error)}") from error


class _Pass:
    """One pass while it goes on."""

    def __init__(self, watch: Watch, run: WatchRun) -> None:
        self.watch = watch
        self.run = run
        self.began = int(time.time() * 1000)
        self.state = self._state()
        self.scored = self.recovered = self.failed = self.left = 0
        self.incomplete: Union[str, None] = None
        self.last = 0
        """When the last trace began that was looked at; the clock of this machine may be wrong."""
        self.held = self.began
        """The first trace that has to be looked at again began then."""

    def _state(self) -> WatchState:
        known = self.run.load()
        anchors = digest(self.watch.anchors) if self.watch.anchors else ""
        if known is None:
            self.run.describe(
                {
                    **self.watch.suite.describe(),
                    "watch.filter": self.watch.filter,
                    "watch.sample": self.watch.sample,
                    "watch.anchors": len(self.watch.anchors),
                }
            )
            return WatchState(self.watch.keys, anchors=anchors, limits=self.watch.limits)
        state = WatchState.from_dict(known)
        if (state.keys, state.anchors, state.limits) != (self.watch.keys, anchors, dict(self.watch.limits)):
            state.keys, state.anchors, state.limits = self.watch.keys, anchors, dict(self.watch.limits)
            state.rebase()  # other keys, limits or anchors: what was known of them is of no use
        return state

    def outcome(self, *, rebase: bool) -> PassOutcome:
        """Do it."""
        if rebase:
            self.state.rebase()
        self.state.begin(self.began)
        start = max(self.state.cursor - self.watch.late, 0) if self.state.cursor else self.watch.since
        if self.state.cursor and start > self.began:
            ahead = (self.state.cursor - self.began) / HOUR
            raise RagMetricsError(f"the clock is {ahead:.1f} hours behind the last trace that was scored: set it right")
        self.last = start + self.watch.late
        due = self._due(start)
        while (room := self._room()) and (batch := list(islice(due, room))):
            self._take(batch)
            if self.incomplete is not None:
                break
        self._move_cursor()
        new = self._anchors_and_alarms()
        undelivered = self._tell()
        self.run.save(self.state.to_dict())
        figures = self.state.figures
        standing = self.state.alarms
        text = "; ".join(render(alarm.text, self.watch.suite.language) for alarm in standing)
        self.run.log(figures, self.state.passes, self._note(figures), text[:4000])
        return PassOutcome(
            run_id=self.run.run_id,
            number=self.state.passes,
            scored=self.scored,
            recovered=self.recovered,
            failed=self.failed,
            left=self.left,
            lines=self._lines(self.watch.keys, figures),
            figures=figures,
            new=new,
            standing=standing,
            incomplete=self.incomplete,
            undelivered=undelivered,
        )

    def _room(self) -> int:
        """How many traces are taken next."""
        return _BATCH if self.watch.limit is None else min(_BATCH, self.watch.limit - self.scored)

    def _due(self, start: int) -> Iterator[TraceInfo]:
        """What has to be scored or counted, in order of time; all else is noted on the way."""
        watch = self.watch
        search = TraceSearch(watch.experiment_id, watch.filter, start, self.began, watch.sample)
        for info in search.infos():
            self.last = max(self.last, info.request_time)
            if state_of(info) == "IN_PROGRESS" and info.request_time > self.began - _DAY:
                self.held = min(self.held, info.request_time)
            elif state_of(info) == "ERROR" and not self._is_counted(info):
                self.failed += 1
                self.state.seen[digest_of(info.trace_id)] = info.request_time
            elif is_answered(info) and not self._is_counted(info):
                yield info

    def _is_counted(self, info: TraceInfo) -> bool:
        return digest_of(info.trace_id) in self.state.seen

    def _move_cursor(self) -> None:
        self.state.cursor = max(self.state.cursor, min(self.last, self.held))
        self.state.forget_before(self.state.cursor - self.watch.late)

    def _take(self, infos: Sequence[TraceInfo]) -> None:
        """Score and write what is not scored, count all, keep the state."""
        rows: list[tuple[Row, TraceInfo]] = []
        missing: dict[str, list[str]] = {}
        for info in infos:
            there = scored_keys(info)
            missing[info.trace_id] = [key for key in self.watch.suite.keys if key not in there]
            if missing[info.trace_id]:
                continue
            mine = {key: a for key, a in there.items() if (a.metadata or {}).get(SOURCE_RUN) == self.run.run_id}
            if mine:  # written by a pass that ended before it had counted them
                rows.append((_stored_row(info, mine, self.watch.suite), info))
                self.recovered += 1
            else:  # scored by somebody else: not this watch's business
                self.state.seen[digest_of(info.trace_id)] = info.request_time
        due = [info for info in infos if missing[info.trace_id]]
        with ThreadPoolExecutor(_FETCHES, "ragmetrics-fetch") as pool:
            traces = list(pool.map(whole_trace, due))
        for info, trace in zip(due, traces, strict=True):
            if trace is None and info.request_time > self.began - _DAY:
                self.left += 1
                self.held = min(self.held, info.request_time)
        there_still = {
            info.trace_id: (info, trace) for info, trace in zip(due, traces, strict=True) if trace is not None
        }
        samples = [_sample_of(trace) for _, trace in there_still.values()]
        stream = self.watch.suite.stream(samples)
        written: list[str] = []
        for row in stream:
            info = there_still[row.sample.id][0]
            if any(score.status == "error" for score in row.scores.values()) and not self._gives_up(info, stream):
                self.left += 1
                self.held = min(self.held, info.request_time)
                continue
            if not _is_written(row, missing[row.sample.id], self.run.run_id):
                continue
            written.append(row.sample.id)
            self.state.attempts.pop(info.trace_id, None)
            self.scored += 1
            rows.append((row, info))
        self.incomplete = stream.summary.incomplete if samples else None
        if written:
            link_traces(written, self.run.run_id)
        self._count(rows)
        self._move_cursor()
        self.run.save(self.state.to_dict())

    def _gives_up(self, info: TraceInfo, stream: Any) -> bool:
        """Whether a trace that cannot be scored is written as such: not at once, and never where no judge answers."""
        if stream.summary.incomplete is not None:
            return False
        tried = self.state.attempts[info.trace_id] = self.state.attempts.get(info.trace_id, 0) + 1
        return tried >= _ATTEMPTS

    def _count(self, rows: Sequence[tuple[Row, TraceInfo]]) -> None:
        ordered = sorted(rows, key=lambda each: (each[1].request_time, each[1].trace_id))
        if not ordered:
            return
        sessions = [str(row.sample.metadata.get(SESSION) or row.sample.id) for row, _ in ordered]
        self.state.count([row for row, _ in ordered], [info.request_time for _, info in ordered], sessions)
        for row, info in ordered:  # of a conversation that is counted the trace itself is not looked at again either
            self.state.seen[digest_of(row.sample.id)] = info.request_time
        counts = self.state.counts
        counts["scored"] = counts.get("scored", 0) + len(ordered)
        for row, _ in ordered:
            for key, score in row.scores.items():
                for mark in score.marks:
                    counts[f"{key}/{mark}"] = counts.get(f"{key}/{mark}", 0) + 1

    def _anchors_and_alarms(self) -> list[Alarm]:
        self.state.counts["failed"] = self.state.counts.get("failed", 0) + self.failed
        if self.incomplete is not None:
            return []
        anchors = self.watch.anchors
        if not anchors:
            return self.state.new_alarms()
        asked_anew = self.watch.suite.replace(cache=None)

        def scores() -> AnchorScores:
            rows = list(asked_anew.score_samples(anchors))
            return {key: [_quality(row.scores.get(key)) for row in rows] for key in self.watch.keys}

        if self.scored or self.recovered:
            now = scores()
            self.state.observe_anchors(now)
            self.state.agreement |= _agreement(anchors, now)
        return self.state.new_alarms(scores)

    def _tell(self) -> Union[str, None]:
        """Send what was not delivered yet; why that failed."""
        if self.watch.alert is None:
            return None
        reason = None
        for place, alarm in enumerate(self.state.alarms):
            if alarm.delivered:
                continue
            about = {
                "experiment": self.watch.experiment,
                "run_id": self.run.run_id,
                "metric": alarm.key,
                "kind": alarm.kind,
                "cause": alarm.cause,
                "before": alarm.before,
                "after": alarm.after,
                "judge_shift": alarm.judge_shift,
                "since_ms": alarm.since_ms,
            }
            text = render(alarm.text, self.watch.suite.language)
            failure = send(self.watch.alert, f"ragmetrics watch, {self.watch.experiment}: {text}", about)
            reason = failure or reason
            if failure is None:
                self.state.alarms[place] = replace(alarm, delivered=True)
        return reason

    def _note(self, figures: Mapping[str, float]) -> str:
        said = [alarm.text for alarm in self.state.alarms] + self._lines(self.watch.suite.keys, figures)
        passes = say("watch.passes", n=self.state.passes, traces=self.state.counts.get("scored", 0))
        language = self.watch.suite.language
        return "\n".join([render(passes, language), "", *(f"- {render(each, language)}" for each in said)])

    def _lines(self, keys: Sequence[str], figures: Mapping[str, float]) -> list[Text]:
        """How these keys stand, and what was not measured."""
        lines = [line for key in keys if (line := _figure_line(key, figures)) is not None]
        if self.watch.anchors and (self.scored or self.recovered) and self.incomplete is None:
            silent = [key for key in self.watch.keys if f"anchors/{key}/mean" not in figures]
            lines += [say("watch.anchors", key=key, n=len(self.watch.anchors)) for key in silent]
        return lines


def _figure_line(key: str, figures: Mapping[str, float]) -> Union[Text, None]:
    """A key's live mean with its interval; where the values have no one mean, that they have changed."""
    total = int(figures.get("traces/scored", 0))
    unmeasured = sum(int(figures.get(f"traces/{key}/{mark}", 0)) for mark in ("n_error", "n_skipped", "n_unmeasured"))
    if f"{key}/mean" not in figures:
        return say("watch.none", key=key, total=total) if unmeasured else None
    mean = figures[f"{key}/mean"]
    if f"{key}/changed" in figures:
        line = say("watch.changed", key=key, mean=mean)
    else:
        low, high = (figures[f"{key}/anytime_{end}"] for end in ("low", "high"))
        line = say("watch.mean", key=key, mean=mean, low=low, high=high)
    return say("watch.unmeasured", line=line, n=unmeasured, total=total) if unmeasured else line


def _is_written(row: Row, keys: Sequence[str], run_id: str) -> bool:
    """Put the scores of these keys onto the trace; ``False`` where it was deleted meanwhile."""
    from mlflow.exceptions import MlflowException

    try:
        add_scores(row.sample.id, {key: row.scores[key] for key in keys}, run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return False
        raise
    return True


def _sample_of(trace: Trace) -> Sample:
    """The sample of a trace, by the trace's id: ids that callers send may repeat."""
    record = record_of_trace(trace)
    if record is None:
        raise InvalidDataError(f"{trace!r} is not a trace")
    sample = to_sample(record)
    invalid = {name: why for name, why in sample.invalid.items() if name != "id"}
    return replace(sample, id=trace.info.trace_id, invalid=invalid)


def _stored_row(info: TraceInfo, feedback: Mapping[str, Any], suite: Suite) -> Row:
    """The row of a trace as far as its feedback tells it."""
    scores: dict[str, Score] = {}
    for key, each in feedback.items():
        metadata = each.metadata or {}
        status = metadata.get("ragmetrics.status")
        value = each.feedback.value if each.feedback is not None else None
        scores[key] = Score(
            value=value if isinstance(value, (int, float)) else None,
            error="Error: in an earlier pass" if status == "error" else None,
            details=json.loads(metadata.get("ragmetrics.details", "{}")),
            higher_is_better=suite.better.get(key, True),
        )
    session = (info.trace_metadata or {}).get(SESSION)
    return Row(Sample(id=info.trace_id, metadata={SESSION: session} if session else {}), scores)


def _quality(score: Union[Score, None]) -> float:
    quality = score.quality if score is not None and score.measured else None
    return math.nan if quality is None else quality


def _labels(anchors: Sequence[Sample]) -> list[Label]:
    return [as_number(sample.metadata.get("label")) for sample in anchors]


def _agreement(anchors: Sequence[Sample], scores: AnchorScores) -> dict[str, float]:
    """By key, the share of labelled anchors (column ``label``) on whose side of one half the judge is."""
    found: dict[str, float] = {}
    for key, values in scores.items():
        labelled = zip(values, _labels(anchors), strict=True)
        pairs = [(v, label) for v, label in labelled if label is not None and not math.isnan(v)]
        if pairs:
            found[key] = sum((v >= 0.5) == (label >= 0.5) for v, label in pairs) / len(pairs)
    return found
