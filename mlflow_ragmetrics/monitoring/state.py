"""What a watch knows after each pass: live figures, whether quality has fallen, and whether the judge has changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Union

from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.report.anytime import AnytimeState, digest_of, unit_means
from mlflow_ragmetrics.statistics.falls import (
    FallDetector,
    Moments,
    Shift,
    cause_of,
    paired_shift,
    shift_between,
    since_when,
)
from mlflow_ragmetrics.text.messages import Text, say

__all__ = ["Alarm", "AnchorScores", "WatchState"]

_ERROR = 0.05
_OF_A_LENGTH = 8
_REPEATS = 3
_LIVE, _STRICTER, _LENIENT, _LIMIT = "live", "stricter", "lenient", "limit"

AnchorScores = Mapping[str, Sequence[float]]
"""By key, the quality of each anchor in their order, NaN where it was not scored."""


@dataclass(frozen=True)
class Alarm:
    """What a watch has noticed, once, and what is known of it.

    ``kind``: ``"quality fell"``, ``"below limit"`` or ``"judge changed"``; ``cause`` as ``cause_of`` gives it. The
    figures are of the score's quality, higher being better: means of the live traces before and since, how far the
    scores of the anchors have fallen with a 95 % interval. ``since`` is the first pass that is different.
    """

    key: str
    kind: str
    cause: str
    since: int
    since_ms: int
    before: Union[float, None] = None
    after: Union[float, None] = None
    judge_shift: Union[float, None] = None
    judge_low: Union[float, None] = None
    judge_high: Union[float, None] = None
    limit: Union[float, None] = None
    delivered: bool = False

    @property
    def text(self) -> Text:
        """What happened, in a sentence or three, without texts of the data; ``render`` says it in another language."""
        said = say(_CAUSES[self.cause])
        if self.judge_shift is not None and self.judge_low is not None and self.judge_high is not None:
            way, sign = ("fell", 1) if self.judge_shift >= 0 else ("rose", -1)
            low, high = sorted((sign * self.judge_low, sign * self.judge_high))
            shift = say(f"alarm.judge_{way}", shift=sign * self.judge_shift, low=low, high=high)
            said = say("alarm.more", first=shift, second=said)
        return say("alarm.more", first=self._what(), second=said)

    def _what(self) -> Text:
        if self.kind == "judge changed":
            return say("alarm.judge_changed", key=self.key, since=self.since)
        if self.after is None or self.before is None:
            change = "" if self.after is None else say("alarm.to", after=self.after)
        else:
            change = say("alarm.from_to", before=self.before, after=self.after)
        if self.kind == "below limit":
            return say("alarm.below", key=self.key, limit=self.limit, change=change)
        return say("alarm.fell", key=self.key, change=change, since=self.since)


_CAUSES = {
    "system": "alarm.system",
    "judge": "alarm.judge",
    "system and judge": "alarm.both",
    "not known": "alarm.not_known",
}


@dataclass
class _Stretch:
    """What one pass, or several in a row, saw: by key the moments of the live qualities, and of each anchor's."""

    number: int
    began_ms: int = 0
    passes: int = 1
    live: dict[str, Moments] = field(default_factory=dict)
    anchors: dict[str, list[Moments]] = field(default_factory=dict)

    def add(self, later: _Stretch) -> None:
        """Take in what came right after."""
        self.passes += later.passes
        for key, moments in later.live.items():
            self.live[key] = self.live.get(key, Moments()) + moments
        for key, each in later.anchors.items():
            self.anchors[key] = _sums(self.anchors.get(key), each)


def _sums(first: Union[Sequence[Moments], None], second: Sequence[Moments]) -> list[Moments]:
    return [a + b for a, b in zip(first, second, strict=True)] if first else list(second)


class WatchState:
    """All that a watch has to remember, as plain numbers; ``to_dict`` and ``from_dict`` keep it between passes.

    ``keys``: the metrics that an alarm may be about. An alarm that should not be is raised with probability 0.05 at
    most, however many passes there are and however many keys: the keys share it. ``limits``: means that these keys must
    keep, beside what they were.
    """

    def __init__(
        self, keys: Sequence[str] = (), *, anchors: str = "", limits: Mapping[str, float] | None = None
    ) -> None:
        self.keys = list(keys)
        self.anchors = anchors
        """Digest of the anchors that the scores belong to; empty where there are none."""
        self.limits = dict(limits or {})
        self.cursor = 0
        """Traces that began before it, in milliseconds, have been looked at."""
        self.seen: dict[str, int] = {}
        """Of what was counted, a digest, and when it began."""
        self.attempts: dict[str, int] = {}
        """How often the scoring of a trace has failed."""
        self.counts: dict[str, int] = {}
        self.agreement: dict[str, float] = {}
        """By key, the share of labelled anchors on which the judge and the label agree."""
        self.live = AnytimeState()
        self.alarms: list[Alarm] = []
        self.passes = 0
        self._reset()

    def _reset(self) -> None:
        kinds = [_LIVE, *([_STRICTER, _LENIENT] if self.anchors else []), *([_LIMIT] if self.limits else [])]
        error = _ERROR / max(1, len(kinds) * len(self.keys))
        self._detectors: dict[str, dict[str, FallDetector]] = {}
        for key in self.keys:
            self._detectors[key] = {_LIVE: FallDetector(error=error)}
            if key in self.limits:
                self._detectors[key][_LIMIT] = FallDetector(error=error, floor=self.limits[key])
            if self.anchors:
                for kind in (_STRICTER, _LENIENT):
                    self._detectors[key][kind] = FallDetector(low=-1, high=1, error=error)
        self._told: set[tuple[str, str]] = set()
        self._past: list[_Stretch] = []
        """Single passes, then stretches that are the longer the longer ago they are."""
        self._first: dict[str, list[Union[float, None]]] = {}

    def rebase(self) -> None:
        """Forget what quality was: what comes from now on is the new normal, and the alarms are over."""
        self.alarms = []
        self.live = AnytimeState(seen=self.live.seen)
        self._reset()

    def begin(self, began_ms: int) -> None:
        """Begin a pass."""
        self.passes += 1
        self._past.append(_Stretch(self.passes, began_ms))
        length = 1
        while sum(each.passes == length for each in self._past) > _OF_A_LENGTH:
            place = next(number for number, each in enumerate(self._past) if each.passes == length)
            self._past[place].add(self._past.pop(place + 1))
            length *= 2

    def count(self, rows: Sequence[Row], times: Sequence[int], groups: Sequence[str] | None = None) -> int:
        """Take in rows that have been scored, each once however often it is given; how many were new.

        ``times``: when each began, in milliseconds; ``groups``: rows that belong together count once, by their mean.
        What was not measured (an answer without claims, nothing retrieved) is not of good quality, and does not count.
        """
        rows = [replace(row, scores={key: s for key, s in row.scores.items() if s.measured}) for row in rows]
        units = unit_means(rows, groups, self.seen.keys())
        self.live = AnytimeState(self.live.sequences, frozenset(self.seen)).after(rows, groups)
        for name, began in zip(groups or [row.sample.id for row in rows], times, strict=True):
            self.seen[digest_of(name)] = max(began, self.seen.get(digest_of(name), 0))
        self.observe({key: list(values.values()) for key, values in units.items()})
        return len({name for values in units.values() for name in values})

    def observe(self, qualities: Mapping[str, Sequence[float]]) -> None:
        """Take in live qualities by key (NaN does not count) as one look of the pass."""
        for key, values in qualities.items():
            if key not in self._detectors:
                continue
            for kind in (_LIVE, _LIMIT):
                if kind in self._detectors[key]:
                    self._detectors[key][kind].update(values)
            now = self._past[-1]
            now.live[key] = now.live.get(key, Moments()) + Moments.of(values)

    def observe_anchors(self, qualities: AnchorScores) -> None:
        """Take in the anchors' scores of this pass; the first ones are what later ones are held against."""
        for key, values in qualities.items():
            detectors = self._detectors.get(key, {})
            if _STRICTER not in detectors:
                continue
            given = [None if math.isnan(value) else value for value in values]
            known = self._first.setdefault(key, given)
            self._first[key] = known = [new if old is None else old for old, new in zip(known, given, strict=True)]
            changes = [math.nan if v is None or f is None else v - f for v, f in zip(given, known, strict=True)]
            if len(self._past) == 1:
                changes = []  # the first pass is the measure
            detectors[_STRICTER].update(changes)
            detectors[_LENIENT].update([-change for change in changes])
            values_now = [Moments() if value is None else Moments.of([value]) for value in given]
            self._past[-1].anchors[key] = _sums(self._past[-1].anchors.get(key), values_now)

    def forget_before(self, began_ms: int) -> None:
        """What was counted of before that time need not be known any more: it is not looked at again."""
        self.seen = {name: began for name, began in self.seen.items() if began >= began_ms}
        self.live = AnytimeState(self.live.sequences, frozenset(self.seen))

    def new_alarms(self, anchors: Callable[[], AnchorScores] | None = None) -> list[Alarm]:
        """Alarms that have not been raised yet; they are among ``alarms`` from now on.

        ``anchors`` scores the anchors anew: it is asked three times where there is something to explain.
        """
        due = [
            (key, kind)
            for key, detectors in self._detectors.items()
            for kind, detector in detectors.items()
            if detector.fallen and (key, kind) not in self._told
        ]
        if not due:
            return []
        again = [anchors() for _ in range(_REPEATS)] if anchors is not None and self.anchors else []
        made: list[Alarm] = []
        for key, kind in due:
            self._told.add((key, kind))
            alarm = self._alarm(key, kind, again)
            if not any(_says(each, alarm) for each in (*self.alarms, *made)):
                made.append(alarm)
        self.alarms += made
        return made

    def _alarm(self, key: str, kind: str, again: Sequence[AnchorScores]) -> Alarm:
        place = self._place(key, kind)
        before, after = Moments(), Moments()
        for each in self._past[:place]:
            before += each.live.get(key, Moments())
        for each in self._past[place:]:
            after += each.live.get(key, Moments())
        judge = self._judge_shift(key, place, again)
        cause = cause_of(shift_between(before, after), judge)
        if kind in (_STRICTER, _LENIENT) and cause in ("not known", "system"):
            cause = "judge"  # its own test has said so already
        first = self._past[place]
        return Alarm(
            key=key,
            kind=_KINDS[kind],
            cause=cause,
            since=first.number,
            since_ms=first.began_ms,
            before=before.mean if before.count else None,
            after=after.mean if after.count else None,
            judge_shift=None if judge is None else judge.size,
            judge_low=None if judge is None else judge.low,
            judge_high=None if judge is None else judge.high,
            limit=self.limits.get(key) if kind == _LIMIT else None,
        )

    def _place(self, key: str, kind: str) -> int:
        """From which stretch of the past on it is different."""
        if kind in (_LIVE, _LIMIT):
            looks = [each.live.get(key, Moments()) for each in self._past]
            return since_when(looks, self._detectors[key][_LIVE].floor)
        sign = 1 if kind == _STRICTER else -1
        looks = []
        for each in self._past:
            pairs = zip(each.anchors.get(key, []), self._first[key], strict=False)
            falls = [Moments(a.count, sign * (a.total - f * a.count)) for a, f in pairs if f is not None]
            looks.append(sum(falls, Moments()))
        return since_when(looks, self._detectors[key][kind].floor)

    def _judge_shift(self, key: str, place: int, again: Sequence[AnchorScores]) -> Union[Shift, None]:
        """How far the judge's scores of the anchors are lower now than before: now is asked anew for it."""
        now = [scores[key] for scores in again if key in scores]
        if not now:
            return None
        before: list[Moments] = []
        for each in self._past[:place]:
            before = _sums(before, each.anchors.get(key, [Moments()] * len(now[0])))
        if not any(each.count for each in before):  # different from the first pass on
            before = [Moments() if value is None else Moments.of([value]) for value in self._first.get(key, [])]
        after = [Moments.of(values) for values in zip(*now, strict=True)]
        if len(before) != len(after):
            return None
        return paired_shift([each.mean for each in before], [each.mean for each in after])

    @property
    def figures(self) -> dict[str, float]:
        """What is logged of a pass: counts, the mean of the pass, intervals that stay valid, the anchors' shift."""
        found: dict[str, float] = {f"traces/{name}": float(count) for name, count in self.counts.items()}
        for key, each in self.live.sequences.items():
            if each.mean is not None:
                found[f"{key}/mean"] = each.mean
        changed = {key for key, each in self.live.sequences.items() if each.drifted}
        found |= {name: value for name, value in self.live.metrics.items() if name.partition("/")[0] not in changed}
        found |= dict.fromkeys((f"{key}/changed" for key in changed), 1.0)
        found |= {f"anchors/{key}/agreement": share for key, share in self.agreement.items()}
        if not self._past:
            return found
        now = self._past[-1]
        found |= {f"{key}/pass_quality": moments.mean for key, moments in now.live.items() if moments.count}
        for key, each_anchor in now.anchors.items():
            pairs = [
                (a.mean, f) for a, f in zip(each_anchor, self._first[key], strict=True) if a.count and f is not None
            ]
            if pairs:
                found[f"anchors/{key}/mean"] = math.fsum(mean for mean, _ in pairs) / len(pairs)
                found[f"anchors/{key}/shift"] = math.fsum(mean - first for mean, first in pairs) / len(pairs)
        return found

    def to_dict(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {
            "keys": self.keys,
            "anchors": self.anchors,
            "limits": self.limits,
            "cursor": self.cursor,
            "seen": self.seen,
            "attempts": self.attempts,
            "counts": self.counts,
            "agreement": self.agreement,
            "live": {key: each.to_dict() for key, each in self.live.sequences.items()},
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "passes": self.passes,
            "detectors": {
                key: {kind: each.to_dict() for kind, each in found.items()} for key, found in self._detectors.items()
            },
            "told": sorted(self._told),
            "past": [_as_dict(each) for each in self._past],
            "first": self._first,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> WatchState:
        """The state of which ``to_dict`` gave the content; ``InvalidDataError`` for anything else."""
        try:
            made = cls(state["keys"], anchors=state["anchors"], limits=state["limits"])
            made.cursor, made.passes = int(state["cursor"]), int(state["passes"])
            made.seen, made.attempts = dict(state["seen"]), dict(state["attempts"])
            made.counts, made.agreement = dict(state["counts"]), dict(state["agreement"])
            made.live = AnytimeState.from_dict({"sequences": state["live"], "seen": list(made.seen)})
            made.alarms = [Alarm(**each) for each in state["alarms"]]
            made._detectors = {
                key: {kind: FallDetector.from_dict(each) for kind, each in found.items()}
                for key, found in state["detectors"].items()
            }
            made._told = {(key, kind) for key, kind in state["told"]}
            made._past = [_stretch_of(each) for each in state["past"]]
            made._first = dict(state["first"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidDataError(f"this is not the state of a watch: {error}") from error
        return made


_KINDS = {_LIVE: "quality fell", _LIMIT: "below limit", _STRICTER: "judge changed", _LENIENT: "judge changed"}


def _says(earlier: Alarm, alarm: Alarm) -> bool:
    """Whether it was said before: of a judge that has changed, and what comes of that, it is said once."""
    is_judge = alarm.cause == "judge" and "judge" in earlier.cause
    return earlier.key == alarm.key and (is_judge or earlier.kind == alarm.kind)


def _as_dict(stretch: _Stretch) -> dict[str, Any]:
    def plain(moments: Moments) -> list[float]:
        return [moments.count, moments.total, moments.squares]

    return {
        "number": stretch.number,
        "began_ms": stretch.began_ms,
        "passes": stretch.passes,
        "live": {key: plain(moments) for key, moments in stretch.live.items()},
        "anchors": {key: [plain(moments) for moments in each] for key, each in stretch.anchors.items()},
    }


def _stretch_of(state: Mapping[str, Any]) -> _Stretch:
    live = {key: Moments(*each) for key, each in state["live"].items()}
    anchors = {key: [Moments(*moments) for moments in each] for key, each in state["anchors"].items()}
    return _Stretch(state["number"], state["began_ms"], state["passes"], live, anchors)
