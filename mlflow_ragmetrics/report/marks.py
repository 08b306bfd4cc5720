"""What a report says beside its figures: who judged, what and which part failed, and which rows are the worst."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from statistics import fmean
from textwrap import shorten
from typing import Literal, Union, get_args

from mlflow_ragmetrics.core.document import Line, Style, cell
from mlflow_ragmetrics.core.score import DOUBTS, Better, Item, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import AllJudgesFailedError, BudgetExceededError, JudgeError, JudgeReplyError
from mlflow_ragmetrics.metrics.claims import held_by, is_held, is_right
from mlflow_ragmetrics.rows.tables import TELLING
from mlflow_ragmetrics.text.messages import Text, render, say
from mlflow_ragmetrics.tracking.describe import DIAGNOSIS, cause_figure

SILENT = tuple(each.__name__ for each in (JudgeError, JudgeReplyError, AllJudgesFailedError, BudgetExceededError))
"""The errors of scores whose judge gave no answer that can be used."""

_MOST_CAUSES = 1000


@dataclass(frozen=True)
class Cause:
    """Why scores are in error: what was said, on how many rows, and the metrics that it left without a score."""

    text: str
    rows: int
    keys: tuple[str, ...]

    def line(self, total: int) -> Text:
        """The cause in one line; ``total`` is the number of all rows."""
        return say("marks.failed", n=self.rows, total=total, keys=", ".join(self.keys), cause=self.text)


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


def equal_lines(equal: Sequence[Sequence[str]], language: str = "en") -> list[str]:
    """Which metrics have the same values in every row."""
    return [render(say("marks.equal", keys=", ".join(keys)), language) for keys in equal]


def failure_lines(causes: Sequence[Cause], rows: int, incomplete: str | None, language: str = "en") -> list[str]:
    """Why the evaluation of so many ``rows`` is ``incomplete``, where it is, and what else failed."""
    lines = [] if incomplete is None else [say("marks.incomplete", why=incomplete)]
    known = incomplete or ""
    lines += [
        cause.line(rows) for cause in causes if not known or (cause.text not in known and known not in cause.text)
    ]
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


Fault = Literal["retrieval", "generation", "noise", "hallucination", "not answerable", "no fault", "not measured"]
CAUSES: tuple[Fault, ...] = get_args(Fault)

_FACTS, _CLAIMS = TELLING
_SUFFICIENCY = "context_sufficiency"
_READ = ("judged", "nothing_held", "indistinct_answer", "no_claims", "unnamed_passages")
_LONGEST = 160
_STYLES: dict[str, Style] = {"no fault": "good", "not answerable": "middling", "not measured": "faint"}


@dataclass(frozen=True)
class Diagnosis:
    """The part that failed on a row, and a sentence with the evidence."""

    cause: Fault
    reason: str

    def _repr_html_(self) -> str:
        return cell([Line(self.cause, _STYLES.get(self.cause, "bad")), Line(self.reason)])


def diagnose(scores: Mapping[str, Score], language: str = "en") -> Diagnosis | None:
    """What went wrong on a row with these ``scores``; ``None`` without the metrics that tell.

    These are ``context_utilization`` (each fact of the reference: which passages hold it, does the answer state it) and
    ``noise_sensitivity_relevant`` (each claim of the answer: which passages hold it, does the reference support it),
    also under a prefix. Counted are facts that the answer lacks and no passage holds (retrieval), facts that it lacks
    and a passage holds (generation), claims from the passages that the reference contradicts, or that come from
    passages without any fact of the reference alone (noise), and claims that neither passages nor reference support
    (hallucination); the most frequent is the cause, of equals the first in this order. A question whose reference is a
    non-answer, or without reference one whose passages do not suffice (``context_sufficiency`` below 0.5), is not
    answerable. What was not judged is not measured, never without fault.
    """
    facts, claims = _named(scores, _FACTS), _named(scores, _CLAIMS)
    if facts is None or claims is None:
        return None
    cause, reason = _cause(facts, claims, _named(scores, _SUFFICIENCY))
    return Diagnosis(cause, render(reason, language))


def diagnoses_of(rows: Sequence[Mapping[str, Score]], language: str = "en") -> list[Diagnosis]:
    """What went wrong on each row, given by its scores, whose metrics tell (``has_diagnoses``)."""
    return [diagnose(scores, language) or Diagnosis("not measured", "") for scores in rows]


def diagnosis_columns(diagnoses: Sequence[Diagnosis]) -> dict[str, list[str]]:
    """The columns of tables that say which part failed, and why; none where that is not known."""
    if not diagnoses:
        return {}
    return {
        DIAGNOSIS: [each.cause for each in diagnoses],
        f"{DIAGNOSIS}_reason": [each.reason for each in diagnoses],
    }


def count_causes(causes: Iterable[str]) -> dict[str, int]:
    """How often each cause occurs, all of them in their order, those that never occur too."""
    counts = Counter(causes)
    return {cause: counts[cause] for cause in CAUSES}


def cause_figures(causes: Mapping[str, int]) -> dict[str, float]:
    """The run's figures of how often each cause occurs: ``diagnosis/n_retrieval``, …."""
    return {cause_figure(cause): count for cause, count in causes.items()}


def causes_line(causes: Mapping[str, int]) -> Text:
    """How often each cause occurs, in a line, without those that never do."""
    return say("diagnosis.counts", counts=", ".join(f"{cause} {count}" for cause, count in causes.items() if count))


def _named(scores: Mapping[str, Score], key: str) -> Score | None:
    return next((score for name, score in scores.items() if name.endswith(key)), None)


def _cause(facts: Score, claims: Score, sufficiency: Score | None) -> tuple[Fault, Union[Text, str]]:
    rule = facts.details.get("rule")
    if rule == "no_context":
        return "retrieval", say("diagnosis.nothing_retrieved")
    if rule == "indistinct_reference":
        declined = facts.details.get("answer_state") == "indistinct"
        return ("no fault", say("diagnosis.declined")) if declined else ("not answerable", say("diagnosis.answered"))
    if rule not in _READ and sufficiency is not None and sufficiency.value is not None and sufficiency.value < 0.5:
        return "not answerable", say("diagnosis.insufficient")
    unread = next((score for score in (facts, claims) if score.details.get("rule") not in _READ), None)
    if unread is not None:
        return "not measured", say("diagnosis.not_measured", why=unread.error or unread.reason)
    return _weighed(_of_one_judge(facts.items), _of_one_judge(claims.items))


def _of_one_judge(items: Sequence[Item]) -> list[Item]:
    """Of several judges, what the first one says."""
    return [item for item in items if item.judge == items[0].judge]


def _weighed(facts: Sequence[Item], claims: Sequence[Item]) -> tuple[Fault, Text]:
    relevant = {number for item in facts for number in held_by(item.evidence)}
    lacking = [item for item in facts if not is_right(item)]
    wrong = [item for item in claims if not is_right(item)]
    faults: dict[Fault, list[Item]] = {
        "retrieval": [item for item in lacking if not is_held(item)],
        "generation": [item for item in lacking if is_held(item)],
        "noise": [item for item in wrong if is_held(item) and _misled(item, relevant)],
        "hallucination": [item for item in wrong if not is_held(item)],
    }
    found = {cause: items for cause, items in faults.items() if items}
    if not found:
        return "no fault", say("diagnosis.no_fault", n=len(facts))
    cause = max(found, key=lambda each: len(found[each]))
    first, number = found[cause][0], len(found[cause])
    total = len(claims if cause in ("noise", "hallucination") else facts)
    passages = held_by(first.evidence)
    where = say("diagnosis.passage", n=len(passages), passages=", ".join(map(str, passages)))
    text = shorten(first.text, _LONGEST, placeholder="…")
    reason = say(
        f"diagnosis.{cause}", n=number, total=total, first=text, where=where if passages else say("diagnosis.passages")
    )
    rest = [say(f"diagnosis.also_{each}", n=len(items)) for each, items in found.items() if each != cause]
    if not rest:
        return cause, reason
    also = rest[0]
    for each in rest[1:]:
        also = say("diagnosis.list", first=also, second=each)
    return cause, say("joined", first=reason, second=say("diagnosis.also", rest=also))


def _misled(item: Item, relevant: set[int]) -> bool:
    """Whether a claim from the passages is a fault: a true detail beside the reference's facts is none."""
    numbers = held_by(item.evidence)
    return item.verdict == "CONTRADICTED" or bool(numbers and not relevant.intersection(numbers))
