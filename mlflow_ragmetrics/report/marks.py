"""What a report says beside its figures: who judged, what failed, what was not measured, which rows are the worst."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from statistics import fmean

from mlflow_ragmetrics.core.score import DOUBTS, Better, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import AllJudgesFailedError, BudgetExceededError, JudgeError, JudgeReplyError
from mlflow_ragmetrics.text.messages import Text, render, say

SILENT = tuple(each.__name__ for each in (JudgeError, JudgeReplyError, AllJudgesFailedError, BudgetExceededError))
"""The errors of scores whose judge gave no answer that can be used."""

_MOST_CAUSES = 1000


@dataclass(frozen=True)
class Cause:
    """Why scores are in error: what was said, on how many rows, and the metrics that it left without a score."""

    text: str
    rows: int
    keys: tuple[str, ...]

    def line(self, total: int, said: str | None = None) -> Text:
        """The cause in one line; ``total`` is the number of all rows, ``said`` stands in place of the text."""
        return say("marks.failed", n=self.rows, total=total, keys=", ".join(self.keys), cause=said or self.text)


class Failures:
    """What went wrong in rows that are seen one after another; of a row itself nothing is kept."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._causes: dict[str, Cause] = {}
        self._general: dict[str, str] = {}  # the text of each cause without its first row's id
        self._unanswered: str | None = None
        self.rows = 0  # those with a score in error
        self._answered = False
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Take one more row."""
        found: dict[str, dict[str, None]] = {}
        for key, score in row.scores.items():
            self._answered |= score.scored and score.judge is not None
            if score.error:
                found.setdefault(score.error.replace(f": {key}: ", ": ", 1), {}).setdefault(key)
                if self._unanswered is None and score.error.partition(":")[0] in SILENT:
                    self._unanswered = score.error
        self.rows += bool(found)
        for text, keys in found.items():
            if text in self._causes or len(self._causes) < _MOST_CAUSES:
                self._general.setdefault(text, _without_id(text, row.sample.id))
                _count(self._causes, Cause(text, 1, tuple(keys)))

    @property
    def causes(self) -> list[Cause]:
        """Each different cause of errors once, the most frequent first.

        Texts of single rows that differ only by the row's id are one cause.
        """
        found: dict[str, Cause] = {}
        for cause in self._causes.values():
            _count(found, replace(cause, text=self._general[cause.text]) if cause.rows == 1 else cause)
        return sorted(found.values(), key=lambda cause: -cause.rows)

    @property
    def asked(self) -> bool:
        """Whether a judge was asked."""
        return self._answered or self._unanswered is not None

    @property
    def silence(self) -> Text | None:
        """Why no judge answered anything that can be used, where one was asked; ``None`` where one did."""
        return None if self._answered or self._unanswered is None else say("marks.silent", error=self._unanswered)


def _count(causes: dict[str, Cause], more: Cause) -> None:
    known = causes.get(more.text, more)
    keys = tuple(dict.fromkeys((*known.keys, *more.keys)))
    causes[more.text] = more if known is more else Cause(more.text, known.rows + more.rows, keys)


def _without_id(text: str, name: str | None) -> str:
    return re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", text) if name else text


def judge_lines(asked: bool, names: Sequence[str], language: str = "en") -> list[str]:
    """Who judged, and how far that can be trusted; nothing where no judge was ``asked``."""
    if not asked:
        return []
    lexical = list(names) == ["lexical"]
    known = ", ".join(names) or render(say("marks.unnamed"), language)
    return [render(say("marks.lexical") if lexical else say("marks.model", names=known), language)]


def failure_lines(causes: Sequence[Cause], rows: int, incomplete: str | None, language: str = "en") -> list[str]:
    """Why the evaluation of so many ``rows`` is ``incomplete``, where it is, and what failed."""
    lines = [] if incomplete is None else [say("marks.incomplete", why=incomplete)]
    for cause in causes:
        known = incomplete is not None and (cause.text in incomplete or incomplete in cause.text)
        lines.append(cause.line(rows, say("marks.above") if known else None))
    return [render(line, language) for line in lines]


def count_lines(keys: Sequence[str], figures: Mapping[str, float], rows: int, language: str = "en") -> list[str]:
    """The lines without which the ``figures`` of so many ``rows`` would look better than they are."""
    silent = int(figures.get("n_non_answers", 0))
    lines = [say("marks.n_non_answers", n=silent, total=rows)] if silent else []
    for name in ("n_no_context", "n_partial", *DOUBTS.values()):
        counts = {key: int(figures.get(f"{key}/{name}", 0)) for key in keys}
        for count in sorted({each for each in counts.values() if each}, reverse=True):
            named = ", ".join(key for key in keys if counts[key] == count)
            lines.append(say(f"marks.{name}", n=count, total=rows, keys=named))
    short = {key: int(figures.get(f"{key}/n_measured", 0)) for key in keys}
    parts = ", ".join(f"{key} {count}" for key, count in short.items() if count < rows)
    if parts:
        lines.append(say("marks.measured", total=rows, parts=parts))
    return [render(line, language) for line in lines]


_ABSENT = Score()


@dataclass(frozen=True)
class Ranking:
    """Which rows are the worst: those with the least quality of ``key``, else of the worst of each row's scores.

    ``keys`` are those of the scores, ``better`` says of which higher is not better.
    """

    keys: Sequence[str]
    better: Mapping[str, Better]
    key: str | None = None

    @property
    def by(self) -> str:
        """What the rows go by, in words."""
        return self.key or (f"the {self.word} of the row's scores" if self.keys[1:] else "".join(self.keys))

    @property
    def word(self) -> str:
        """What the worst rows are called: lowest, where higher is better throughout."""
        return "worst" if self.better else "lowest"

    def place(self, row: Row) -> tuple[float, str] | None:
        """How good the row is, and the metric that says so; ``None`` where it has no place among the worst.

        What has no better side ranks no row, unless it is ``key``.
        """
        if self.key is not None:
            score = row.scores.get(self.key, _ABSENT)
            quality = score.value if score.higher_is_better is None else score.quality
            return None if quality is None else (quality, self.key)
        scored = [(s.quality, name) for name, s in row.scores.items() if s.measured and s.quality is not None]
        return min(scored, default=None)

    def rank(self, row: Row) -> tuple[float, float] | None:
        """Where the row stands among the worst, the lowest first; of equals the one whose scores are lower."""
        place = self.place(row)
        qualities = [score.quality for score in row.scores.values() if score.quality is not None]
        return None if place is None else (place[0], fmean(qualities or [0.0]))

    def worst(self, rows: Sequence[Row], count: int) -> list[int]:
        """The places of the ``count`` worst rows, the worst first."""
        ranks = [(rank, place) for place, row in enumerate(rows) if (rank := self.rank(row))]
        return [place for _, place in nsmallest(count, ranks)]

    def order(self, rows: Sequence[Row]) -> list[int]:
        """The places of all rows, the worst first, and those that have no place among them last."""
        return list(dict.fromkeys([*self.worst(rows, len(rows)), *range(len(rows))]))
