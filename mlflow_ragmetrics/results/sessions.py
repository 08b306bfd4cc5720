"""Conversations: which have no failing turn, and which turn fails first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, Union

from mlflow_ragmetrics.core.score import Better, Score, passes
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.statistics.intervals import bootstrap_intervals
from mlflow_ragmetrics.text.messages import Text, render, say

if TYPE_CHECKING:
    import pandas as pd

Outcome = Literal["passed", "failed", "not measured"]


@dataclass(frozen=True)
class Turn:
    """One answer of a conversation: its row's id, its measured value, and whether it passes.

    ``passed`` is ``None`` if unknown. A turn without claims has no value and passes.
    """

    id: str
    value: float | None
    passed: bool | None


@dataclass(frozen=True)
class Session:
    """A conversation scored by one metric: its turns in order, and its outcome."""

    name: str
    turns: tuple[Turn, ...]
    better: Better = True

    @property
    def outcome(self) -> Outcome:
        """Failed if a turn fails; passed if all turns pass and at least one was measured; otherwise not measured."""
        known = {turn.passed for turn in self.turns}
        if False in known:
            return "failed"
        return "not measured" if None in known or all(turn.value is None for turn in self.turns) else "passed"

    def record(self) -> dict[str, Any]:
        """The columns of ``Report.sessions``."""
        values = [(turn.value, turn.id) for turn in self.turns if turn.value is not None]
        worst = (max if self.better is False else min)(values, key=lambda each: each[0], default=(None, None))
        failed = [number for number, turn in enumerate(self.turns, 1) if turn.passed is False]
        return {
            "session": self.name,
            "turns": len(self.turns),
            "measured": len(values),
            "mean": fmean(value for value, _ in values) if values else None,
            "worst": worst[0],
            "worst_id": worst[1],
            "outcome": self.outcome,
            "first_failure": failed[0] if failed else None,
            "first_failure_id": self.turns[failed[0] - 1].id if failed else None,
        }


def limit_of(threshold: float | None, better: Better) -> float:
    """The value below which (above which, if lower is better) a turn fails: the threshold, else the perfect score."""
    return threshold if threshold is not None else 0.0 if better is False else 1.0


def turn_limit(rows: Sequence[Row], key: str, threshold: float | None) -> float:
    """``limit_of`` for the metric ``key`` of these rows; ``threshold`` defaults to the metric's own."""
    scores = [row.scores[key] for row in rows if key in row.scores]
    own = next((score.threshold for score in scores if score.threshold is not None), None)
    better = next((score.higher_is_better for score in scores), True)
    return limit_of(own if threshold is None else threshold, better)


def keys_of_turns(rows: Sequence[Row]) -> list[str]:
    """The metrics reported by conversation: those with a threshold, and faithfulness."""
    scores = [(key, score) for row in rows for key, score in row.scores.items()]
    limited = {key for key, score in scores if score.threshold is not None}
    return [key for key in dict(scores) if key in limited or key.endswith("faithfulness")]


def turn_of(name: str, score: Score | None, limit: float) -> Turn:
    """The turn of the row ``name``."""
    if score is not None and score.measurement is not None:
        return Turn(name, score.measurement, passes(score.measurement, limit, score.higher_is_better))
    claims_nothing = score is not None and score.status != "error" and score.details.get("rule") == "no_claims"
    return Turn(name, None, True if claims_nothing else None)


def in_order(rows: Sequence[Row]) -> list[Row]:
    """The turns of a conversation, sorted by the time of their traces, else by the length of their histories.

    Trace searches return the last turn first.
    """
    times = [row.sample.metadata.get("request_time") for row in rows]
    if all(isinstance(time, (int, float)) for time in times):
        return [rows[place] for place in sorted(range(len(rows)), key=lambda place: (times[place], place))]
    return sorted(rows, key=lambda row: len(row.sample.history or ()))


def sessions_of(rows: Sequence[Row], names: Sequence[Union[str, None]], key: str, limit: float) -> list[Session]:
    """The conversations, in order of first appearance; ``names`` assigns each row to one, or to none (``None``)."""
    turns: dict[str, list[Row]] = {}
    for row, name in zip(rows, names, strict=True):
        if name is not None:
            turns.setdefault(name, []).append(row)
    better = next((row.scores[key].higher_is_better for row in rows if key in row.scores), True)
    return [
        Session(name, tuple(turn_of(row.sample.id, row.scores.get(key), limit) for row in in_order(own)), better)
        for name, own in turns.items()
    ]


def sessions_frame(sessions: Sequence[Session]) -> pd.DataFrame:
    """One row per conversation; see ``Report.sessions``."""
    import pandas as pd

    kinds = {"mean": "Float64", "worst": "Float64", "turns": "Int64", "measured": "Int64", "first_failure": "Int64"}
    columns = list(Session("", ()).record())
    return pd.DataFrame([each.record() for each in sessions], columns=columns, dtype=object).astype(kinds)


def session_score(rows: Sequence[Row], key: str, threshold: float | None = None, language: str = "en") -> Score:
    """The score of a conversation with the turns ``rows``: 1.0 if it passed, 0.0 if it failed, else no value.

    The items are those of the first failing turn.
    """
    scores = {row.sample.id: row.scores[key] for row in rows if key in row.scores}
    (session,) = sessions_of(rows, [""] * len(rows), key, turn_limit(rows, key, threshold)) or [Session("", ())]
    number, unknown = len(session.turns), sum(turn.passed is None for turn in session.turns)
    details = {name: value for name, value in session.record().items() if name != "session" and value is not None}
    if session.outcome == "failed":
        first = scores[details["first_failure_id"]]
        reason = say("sessions.failed", turn=details["first_failure"], n=number, why=first.reason)
        return Score(0.0, reason=render(reason, language), items=first.items, details=details, judge=first.judge)
    if session.outcome == "passed":
        return Score(1.0, reason=render(say("sessions.passed", n=number), language), details=details)
    reason = say("sessions.unknown", m=unknown, n=number) if unknown else say("sessions.nothing", n=number)
    return Score(reason=render(reason, language), details=details)


def session_figures(sessions: Sequence[Session]) -> dict[str, float]:
    """``session_pass_rate``: the share of measured conversations without a failing turn.

    ``session_ci_low`` and ``session_ci_high``: its 95 % interval. ``n_sessions``, ``n_sessions_unmeasured``: numbers of
    measured and other conversations. ``session_worst``: the mean value of their worst turns. ``session_first_failure``:
    the mean number (from 1) of the first failing turn.
    """
    known = [session.record() for session in sessions if session.outcome != "not measured"]
    figures = {"n_sessions": float(len(known)), "n_sessions_unmeasured": float(len(sessions) - len(known))}
    passed = [float(record["outcome"] == "passed") for record in known]
    means = {
        "session_pass_rate": passed,
        "session_worst": [record["worst"] for record in known if record["worst"] is not None],
        "session_first_failure": [record["first_failure"] for record in known if record["first_failure"] is not None],
    }
    figures |= {name: fmean(values) for name, values in means.items() if values}
    interval = bootstrap_intervals([passed])[0] if passed else None
    return figures | ({} if interval is None else {"session_ci_low": interval[0], "session_ci_high": interval[1]})


def session_line(key: str, figures: Mapping[str, float], column: str) -> Text | None:
    """One line on the conversations of a metric; ``None`` if there are none."""
    known, unknown = (int(figures.get(f"{key}/{name}", 0)) for name in ("n_sessions", "n_sessions_unmeasured"))
    if not known and not unknown:
        return None
    rate = figures.get(f"{key}/session_pass_rate")
    if rate is None:
        return say("sessions.none", key=key, column=column, n=unknown)
    passed: dict[str, Any] = {"key": key, "column": column, "n": round(rate * known), "total": known, "share": rate}
    low, high = (figures.get(f"{key}/session_{name}") for name in ("ci_low", "ci_high"))
    text = say("sessions.rate", **passed) if low is None else say("sessions.rate_between", **passed, low=low, high=high)
    first = figures.get(f"{key}/session_first_failure")
    more = [] if first is None else [say("sessions.first_failure", turn=first)]
    more += [say("sessions.unmeasured", n=unknown)] if unknown else []
    for each in more:
        text = say("sessions.more", first=text, second=each)
    return text
