"""The parts of a report other than figures: the judge, failures, diagnoses, and the worst rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from heapq import nsmallest
from statistics import fmean
from textwrap import shorten
from typing import Literal, Union, get_args

from mlflow_ragmetrics.core.score import DOUBTS, Better, Item, Score, held_by, is_held, is_right
from mlflow_ragmetrics.engine.program import Row, is_judged, judge_failure
from mlflow_ragmetrics.results.tables import DIAGNOSIS, DIAGNOSIS_COLUMNS
from mlflow_ragmetrics.text.messages import Text, render, say

_MOST_CAUSES = 1000
_MOST_CAUSE_LINES = 5
_QUOTED_REPLY = re.compile(r"(?:; it began| refused to answer:) .*", re.DOTALL)


@dataclass(frozen=True)
class Cause:
    """Why scores failed: the error text, the number of rows, and the metrics without a score."""

    text: str
    rows: int
    keys: tuple[str, ...]


class Failures:
    """The errors of rows added one by one; the rows are not kept."""

    def __init__(self) -> None:
        self._causes: dict[str, Cause] = {}  # by text, without the quoted reply
        self._unanswered: str | None = None
        self.rows = 0  # rows with a failed score
        self.answered = False  # whether a judge gave a usable answer

    def add(self, row: Row) -> None:
        """Add a row."""
        keys_by_cause: dict[str, dict[str, None]] = {}
        for key, score in row.scores.items():
            if score.error:
                keys_by_cause.setdefault(score.error.replace(f": {key}: ", ": ", 1), {}).setdefault(key)
        self.answered = self.answered or is_judged(row)
        self._unanswered = self._unanswered or judge_failure(row)
        self.rows += bool(keys_by_cause)
        for text, keys in keys_by_cause.items():
            kind = _QUOTED_REPLY.sub("", text)
            known = self._causes.get(kind, Cause(text, 0, ()))
            if known.rows or len(self._causes) < _MOST_CAUSES:
                named = dict.fromkeys((*known.keys, *keys))
                self._causes[kind] = Cause(known.text, known.rows + 1, tuple(named))

    @property
    def causes(self) -> list[Cause]:
        """The distinct causes of errors, most frequent first.

        Texts that differ only in the judge's reply that they quote are one cause.
        """
        return sorted(self._causes.values(), key=lambda cause: -cause.rows)

    @property
    def silence(self) -> Text | None:
        """Why no judge gave a usable answer; ``None`` if one did, or none was asked."""
        return None if self.answered or self._unanswered is None else say("marks.silent", error=self._unanswered)


def failure_lines(causes: Sequence[Cause], rows: int, incomplete: str | None, language: str) -> list[str]:
    """Why the evaluation of ``rows`` (a number) is ``incomplete``, if it is, and the most frequent other failures."""
    lines = [] if incomplete is None else [say("marks.incomplete", why=incomplete)]
    known = incomplete or ""
    others = [cause for cause in causes if not known or (cause.text not in known and known not in cause.text)]
    for failure in others[:_MOST_CAUSE_LINES]:
        lines.append(say("marks.failed", n=failure.rows, total=rows, keys=", ".join(failure.keys), cause=failure.text))
    if left := len(others[_MOST_CAUSE_LINES:]):
        lines.append(say("marks.more_causes", n=left))
    return [render(line, language) for line in lines]


def count_lines(keys: Sequence[str], figures: Mapping[str, float], rows: int, language: str) -> list[str]:
    """Lines about doubtful rows, without which the ``figures`` of ``rows`` (a number) would mislead."""
    silent = int(figures.get("n_non_answers", 0))
    lines = [say("marks.n_non_answers", n=silent, total=rows)] if silent else []
    for name in ("n_no_context", "n_partial", *DOUBTS.values()):
        counts = {key: int(figures.get(f"{key}/{name}", 0)) for key in keys}
        for count in sorted({n for n in counts.values() if n}, reverse=True):
            named = ", ".join(key for key in keys if counts[key] == count)
            lines.append(say(f"marks.{name}", n=count, total=rows, keys=named))
    return [render(line, language) for line in lines]


_ABSENT = Score()
_FAITHFULNESS = "faithfulness"


@dataclass(frozen=True)
class Ranking:
    """The order of the worst rows: by the quality of ``key``, if given.

    Else rows with the most unsupported claims come first, and of equals the row with the least supported claim. Other
    rows, and suites without ``faithfulness``, are ordered by the composite, else by the worst score of each row.
    ``keys``: the keys of the scores. ``better``: those whose higher values are not better.
    """

    keys: Sequence[str]
    better: Mapping[str, Better]
    composite: str | None = None
    key: str | None = None

    @property
    def by(self) -> str:
        """The criterion in words."""
        if self.key is None and any(key.endswith(_FAITHFULNESS) for key in self.keys):
            return "unsupported claims"
        return self.key or self.composite or (f"{self.word} score" if self.keys[1:] else "".join(self.keys))

    @property
    def word(self) -> str:
        """The name of the worst rows: "lowest" if higher is better for all metrics, else "worst"."""
        return "worst" if self.better else "lowest"

    def place(self, row: Row) -> tuple[float, str] | None:
        """The quality of the row and the metric it comes from; ``None`` if the row cannot be ranked.

        Metrics without a better direction are ignored, except as ``key``.
        """
        key = self.key or self.composite
        if key is not None:
            score = row.scores.get(key, _ABSENT)
            quality = score.value if score.higher_is_better is None else score.quality
            return None if quality is None else (quality, key)
        scored = [(s.quality, name) for name, s in row.scores.items() if s.measured and s.quality is not None]
        return min(scored, default=None)

    def rank(self, row: Row) -> tuple[float, ...] | None:
        """The sort key of the row, lowest first; ties are broken by the mean quality."""
        place = self.place(row)
        claims = None if self.key else _named(row.scores, _FAITHFULNESS)
        lacking = [item.support or 0.0 for item in claims.items if not is_right(item)] if claims else []
        qualities = [score.quality for score in row.scores.values() if score.quality is not None]
        if place is None:
            return None
        return -len(lacking), min(lacking, default=1.0), place[0], fmean(qualities or [0.0])

    def worst(self, rows: Sequence[Row], count: int) -> list[int]:
        """The indices of the ``count`` worst rows, the worst first."""
        ranks = [(rank, place) for place, row in enumerate(rows) if (rank := self.rank(row))]
        return [place for _, place in nsmallest(count, ranks)]

    def order(self, rows: Sequence[Row]) -> list[int]:
        """The indices of all rows, the worst first; rows that cannot be ranked come last."""
        return list(dict.fromkeys([*self.worst(rows, len(rows)), *range(len(rows))]))


Fault = Literal["retrieval", "generation", "noise", "hallucination", "not answerable", "no fault", "not measured"]
CAUSES: tuple[Fault, ...] = get_args(Fault)

_FACTS, _CLAIMS = "context_utilization", "noise_sensitivity_relevant"
_SUFFICIENCY = "context_sufficiency"
_READ = ("judged", "nothing_held", "indistinct_answer", "no_claims", "unnamed_passages")
_LONGEST = 160


@dataclass(frozen=True)
class Diagnosis:
    """The part that failed on a row, and a sentence with the evidence."""

    cause: Fault
    reason: str


def diagnose(scores: Mapping[str, Score], language: str = "en") -> Diagnosis | None:
    """The part that failed in a row with these ``scores``; ``None`` without the metrics for a diagnosis.

    The metrics are ``context_utilization`` (for each fact of the reference: the passages that support it, and whether
    the answer states it) and ``noise_sensitivity_relevant`` (for each claim of the answer: the passages that support
    it, and whether the reference does), also under a prefix. The cause is the most frequent of these, of equals the
    first: facts missing from the answer and the passages (retrieval); facts missing from the answer only (generation);
    claims from the passages that the reference contradicts, or that come only from passages without a fact of the
    reference (noise); claims that neither the passages nor the reference support (hallucination). A question is not
    answerable if its reference is a non-answer or, without a reference, if ``context_sufficiency`` is below 0.5. A row
    that was not judged is not measured.
    """
    facts, claims = _named(scores, _FACTS), _named(scores, _CLAIMS)
    if facts is None or claims is None:
        return None
    cause, reason = _cause(facts, claims, _named(scores, _SUFFICIENCY))
    return Diagnosis(cause, render(reason, language))


def has_diagnoses(keys: Collection[str]) -> bool:
    """Whether rows with these score ``keys``, which may have a prefix, have the diagnosis columns."""
    return all(any(name.endswith(wanted) for name in keys) for wanted in (_FACTS, _CLAIMS))


def diagnoses_of(rows: Sequence[Mapping[str, Score]], language: str = "en") -> list[Diagnosis]:
    """The diagnosis of each row, given by its scores; empty without the metrics for a diagnosis."""
    diagnoses = [diagnose(scores, language) for scores in rows]
    return [diagnosis or Diagnosis("not measured", "") for diagnosis in diagnoses] if any(diagnoses) else []


def diagnosis_columns(diagnoses: Sequence[Diagnosis]) -> dict[str, list[str]]:
    """The table columns with the part that failed and the reason; empty without diagnoses."""
    columns = zip(*((diagnosis.cause, diagnosis.reason) for diagnosis in diagnoses), strict=True)
    return dict(zip(DIAGNOSIS_COLUMNS, map(list, columns), strict=False))


def count_causes(causes: Iterable[str]) -> dict[str, int]:
    """The number of rows with each cause, in the order of ``CAUSES``, zeros included."""
    counts = Counter(causes)
    return {cause: counts[cause] for cause in CAUSES}


def cause_figure(cause: str) -> str:
    """The name of the figure for the number of rows in which this part failed."""
    return f"{DIAGNOSIS}/n_{cause.replace(' ', '_')}"


def cause_figures(causes: Mapping[str, int]) -> dict[str, float]:
    """The run metrics for the causes: ``diagnosis/n_retrieval``, …."""
    return {cause_figure(cause): count for cause, count in causes.items()}


def causes_line(causes: Mapping[str, int]) -> Text:
    """The counts of the causes in a line, without zeros."""
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
    """The items of the first judge."""
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
    items_by_cause = {cause: items for cause, items in faults.items() if items}
    if not items_by_cause:
        return "no fault", say("diagnosis.no_fault", n=len(facts))
    cause = max(items_by_cause, key=lambda name: len(items_by_cause[name]))
    first, number = items_by_cause[cause][0], len(items_by_cause[cause])
    total = len(claims if cause in ("noise", "hallucination") else facts)
    passages = held_by(first.evidence)
    where = say("diagnosis.passages")
    if passages:
        where = say("diagnosis.passage", n=len(passages), passages=", ".join(map(str, passages)))
    text = shorten(first.text, _LONGEST, placeholder="…")
    reason = say(f"diagnosis.{cause}", n=number, total=total, first=text, where=where)
    rest = [say(f"diagnosis.also_{other}", n=len(items)) for other, items in items_by_cause.items() if other != cause]
    if not rest:
        return cause, reason
    also = reduce(lambda first, second: say("diagnosis.list", first=first, second=second), rest)
    return cause, say("joined", first=reason, second=say("diagnosis.also", rest=also))


def _misled(item: Item, relevant: set[int]) -> bool:
    """Whether a claim from the passages is a fault; a further detail from a passage with a reference's fact is not."""
    numbers = held_by(item.evidence)
    return item.verdict == "CONTRADICTED" or bool(numbers and not relevant.intersection(numbers))
