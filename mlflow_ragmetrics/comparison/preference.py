"""Pairwise preference: a judge reads both answers of a row, in both orders, and chooses the better one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlflow_ragmetrics.comparison.difference import Difference, Values, differences_of
from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.question import Finding, Prefer, Steps, ask, together
from mlflow_ragmetrics.core.score import Item, Message, Sample, Score
from mlflow_ragmetrics.display.document import Block, Folded, Heading, Line, Styled, number, shorten
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeReplyError
from mlflow_ragmetrics.judges.resolve import JudgeLike
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.figures import agreement_lines
from mlflow_ragmetrics.results.gates import Check
from mlflow_ragmetrics.results.pairing import Pairing, is_refused_rightly
from mlflow_ragmetrics.results.results import stored_samples
from mlflow_ragmetrics.suite import Suite
from mlflow_ragmetrics.text.messages import counted, percent
from mlflow_ragmetrics.text.non_answers import is_indistinct

_VALUES = {"A": 0.0, "tie": 0.5, "B": 1.0}
_KEY = "preferred"
_SIMILAR = 0.2
_FEWEST_SIMILAR = 30
_MOST_LONGER = 0.9
_MOST_FAILED = 0.05
_LONGEST = 300


@metric(name=_KEY, asks=("judge",))
def preferred(
    question: str,
    metadata: Mapping[str, Any],
    answer: str | None = None,
    contexts: Sequence[str] | None = None,
    history: Sequence[Message] | None = None,
    *,
    rubric: str | None = None,
) -> Steps[Score]:
    """1.0 if B's ``answer`` is preferred in both orders, 0.0 if A's is, otherwise 0.5 (a tie).

    ``metadata`` holds A's answer and the references. The items are the judge's choices in each order.
    """
    other, references = metadata["answer_a"], metadata["references"]
    ruled = _by_rule(other, answer, references)
    if ruled is not None:
        return ruled
    turns = tuple(f"{turn.role}: {turn.content}" for turn in history or ())
    about = {"references": references, "contexts": tuple(contexts or ()), "history": turns, "rubric": rubric}
    orders = Prefer(question, other, answer or "", **about), Prefer(question, answer or "", other, **about)
    choices = yield from together(*map(ask, orders))
    one, two = _run(choices[0], "A", "B"), _run(choices[1], "B", "A")
    chosen = zip((one, two), choices, strict=True)
    items = tuple(Item("sentence", run, reason=choice.reason, support=choice.support) for run, choice in chosen)
    if one == two:
        return Score(_VALUES[one], reason=choices[0].reason, items=items)
    explanation = f"the choice depends on the order: {one} with A's answer first, {two} with B's. {choices[0].reason}"
    return Score(0.5, reason=explanation, items=items)


def _run(found: Finding, first: str, second: str) -> str:
    """The run whose answer was chosen, or ``"tie"``."""
    chosen = {"first": first, "second": second, "tie": "tie"}.get(found.verdict.casefold())
    if chosen is None:
        raise JudgeReplyError(f"{_KEY}: the judge chose {found.verdict!r}, not first, second or tie", metric=_KEY)
    return chosen


def _by_rule(a: str | None, b: str | None, references: tuple[str, ...]) -> Score | None:
    """The score without a call: equal answers tie; a missing or non-answer loses, unless the reference is one too."""
    silent = is_indistinct(a), is_indistinct(b)
    if all(silent):
        return Score(0.5, reason="by rule: neither run answers", details={"rule": "no_answer"})
    if a is not None and b is not None and a.split() == b.split():
        return Score(0.5, reason="by rule: the answers are identical", details={"rule": "identical"})
    if not any(silent) or is_refused_rightly(a if silent[0] else b, references):
        return None
    loser = "A" if silent[0] else "B"
    return Score(float(silent[0]), reason=f"by rule: {loser} gives no answer", details={"rule": "no_answer"})


class Preference(dict[str, Any]):
    """The preferred version, as figures by name; figures without enough rows are ``None``.

    ``wins``: rows whose answer by B is preferred in both orders; ``losses``: by A; ``ties``: all other judged rows.
    ``win_rate``: (wins + ties / 2) / judged rows, 0 to 1, with its 95 % interval ``ci_low`` to ``ci_high`` over rows or
    groups. ``verdict``: as in ``Difference``, for B's share minus A's. ``flip_rate``: the share of rows sent to the
    judge whose choice changed with the order. ``n_by_rule``: rows decided without a call. ``n_error``: rows not judged.
    ``n_similar_length``: rows sent to the judge whose answers differ in length by less than 20 %;
    ``win_rate_similar_length``: their win rate. ``rows``: the most decisive rows, each with ``id``, ``question``, the
    ``preferred`` run (``"A"`` or ``"B"``) and the ``reason``.
    ``report`` has each row's score, reason, and choice in each order.
    """

    def __init__(self, report: Report, difference: Difference, outcomes: Values, most: int) -> None:
        self.report, self.difference, self.outcomes = report, difference, outcomes
        scores = [row.scores[_KEY] for row in report.rows]
        self._asked = np.array([bool(score.items) for score in scores], dtype=bool) & ~np.isnan(outcomes)
        chosen = [item.text for score in scores for item in score.items]  # each judge, both orders
        flips = [one != two for one, two in zip(chosen[::2], chosen[1::2], strict=True)]
        similar = outcomes[self._asked & (np.abs(self._longer_by) < _SIMILAR)]
        super().__init__(
            wins=difference.wins,
            losses=difference.losses,
            ties=difference.ties,
            win_rate=difference.paired_mean_b,
            ci_low=None if difference.low is None else (1 + difference.low) / 2,
            ci_high=None if difference.high is None else (1 + difference.high) / 2,
            verdict=difference.verdict,
            flip_rate=float(np.mean(flips)) if flips else None,
            n_by_rule=int((~np.isnan(outcomes) & ~self._asked).sum()),
            n_error=difference.unscored_both,
            n_similar_length=int(similar.size),
            win_rate_similar_length=float(similar.mean()) if similar.size else None,
            rows=self._decisive()[:most],
        )

    @property
    def _longer_by(self) -> Values:
        """How much longer B's answer is than A's, as a share of the longer one, -1 to 1."""
        texts = [(row.sample.metadata["answer_a"] or "", row.sample.answer or "") for row in self.report.rows]
        lengths = np.array([[len(a.strip()), len(b.strip())] for a, b in texts], dtype=float)
        longer_by: Values = (lengths[:, 1] - lengths[:, 0]) / np.maximum(lengths.max(axis=1), 1)
        return longer_by

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the win rate: answer length, failed judges, rows that were not judged."""
        messages = list(self.report.warnings)
        judged, rate = self.outcomes[self._asked], self["win_rate_similar_length"]
        decided = self._asked & (self.outcomes != 0.5) & (np.abs(self._longer_by) >= _SIMILAR)
        longer = int(((self.outcomes[decided] > 0.5) == (self._longer_by[decided] > 0)).sum())
        among = ""
        if self["n_similar_length"] < _FEWEST_SIMILAR:
            if longer > _MOST_LONGER * decided.sum() >= _MOST_LONGER * 6:
                rows = counted(int(decided.sum()), "decided row")
                among = f"the longer answer is preferred in {longer} of {rows}, and too few have similar length to tell"
        elif self["ci_low"] is not None and abs(rate - judged.mean()) > (self["ci_high"] - self["ci_low"]) / 2:
            among = f"the win rate is {judged.mean():.2f}, and {rate:.2f} among answers of similar length"
        messages += [f"preference: the judge may prefer by length: {among}"] if among else []
        causes = [row.scores[_KEY].cause for row in self.report.rows if row.scores[_KEY].measurement is None]
        if causes:
            messages.append(f"preference: {counted(len(causes), 'row')} could not be judged, first cause: {causes[0]}")
        return tuple(messages)

    @property
    def sentence(self) -> str:
        """Counts, win rate and verdict in one line."""
        rows, rate = counted(self.difference.rows, "row"), number(self["win_rate"], 2)
        interval = "" if self["ci_low"] is None else f" [{self['ci_low']:.2f}, {self['ci_high']:.2f}]"
        return (
            f"preference: B's answer is preferred in {self['wins']} of {rows}, A's in {self['losses']}, "
            f"{self['ties']} tied: win rate {rate}{interval}, {self['verdict']}"
        )

    def check(self, name: str, failing: set[str]) -> Check:
        """The gate. With "regressed" in ``failing``, it also fails if more than 5 % of the rows were not judged."""
        lost = "regressed" in failing and self["n_error"] > _MOST_FAILED * len(self.report)
        reason = f"{name}: {self.sentence}; rows: {self.difference.accounted}"
        return Check(f"{name}: preference", not (lost or self.difference.reaches(failing)), reason)

    @property
    def blocks(self) -> list[Block]:
        """The figures in words, and the most decisive rows with their reasons."""
        flips = "" if self["flip_rate"] is None else f": the order changed the choice in {percent(self['flip_rate'])}"
        about = f"Judged in both orders ({', '.join(self.report.description['judge'])}){flips}"
        similar, rate = self["n_similar_length"], self["win_rate_similar_length"]
        length = f"{counted(similar, 'judged row')} with answers of similar length (less than 20 % apart)"
        length_bias = "too few to detect a length bias" if similar < _FEWEST_SIMILAR else f"win rate {number(rate, 2)}"
        ruled = f"; {self['n_by_rule']} decided by rule (identical answers tie, no answer loses)"
        notes = [about + (ruled if self["n_by_rule"] else ""), f"{length}: {length_bias}"]
        notes += agreement_lines([_KEY], self.report.metrics)
        notes += [f"Rows: {self.difference.accounted}"]
        lines = [Line(self.sentence), *(Line(note, "faint") for note in notes)]
        rows = []
        for row in self["rows"]:
            title = f" {row['preferred']} preferred  {shorten(row['question'], _LONGEST)}"
            rows.append(Folded(Line([Styled(row["id"], "strong"), title]), [Line(shorten(row["reason"], _LONGEST))]))
        return [Heading("Which answer is better"), *lines, *rows]

    def _decisive(self) -> list[dict[str, str]]:
        """The rows that, by the judge's estimate, most readers would decide the same way."""
        rows = [self.report.rows[place] for place in np.flatnonzero(self._asked & (self.outcomes != 0.5)).tolist()]
        rows.sort(key=lambda row: min(item.support or 0.5 for item in row.scores[_KEY].items), reverse=True)
        return [
            {
                "id": row.sample.id,
                "question": row.sample.question or "",
                "preferred": "B" if self.outcomes[row.index] else "A",
                "reason": row.scores[_KEY].reason,
            }
            for row in rows
        ]


def preference_of(
    a: Evaluation, b: Evaluation, pairing: Pairing, suite: Suite, rows: int, **options: Any
) -> Preference:
    """The preference of the judges of ``suite`` between the paired answers, with the ``rows`` most decisive rows;
    ``options`` as in ``differences_of``."""
    report = suite.evaluate_samples(answer_pairs(a, b, pairing))
    given = [row.scores[_KEY].measurement for row in report.rows]
    outcomes = np.array([np.nan if v is None else v if v in (0.0, 1.0) else 0.5 for v in given])  # 0.75: no majority
    (difference,) = differences_of({"preference": (1 - outcomes, outcomes)}, **options)
    difference = replace(difference, only_a=len(pairing.only_a), only_b=len(pairing.only_b))
    return Preference(report, difference, outcomes, rows)


def preference_suite(judge: JudgeLike | Sequence[JudgeLike] | Suite, rubric: str | None) -> Suite:
    """A suite that asks ``judge``, or a suite's judges, for the better answer by ``rubric``; the majority decides."""
    if rubric is not None and not (isinstance(rubric, str) and rubric.strip()):
        message = f"rubric={shown(rubric)} must be a text that says which answer is better"
        raise InvalidOptionError(message, param="rubric")
    suite = judge if isinstance(judge, Suite) else Suite([preferred], judge=judge)
    metrics = [preferred(rubric=rubric)]
    return suite.replace(metrics=metrics, weights=None, thresholds=None, name_prefix="", aggregate="median")


def answer_pairs(a: Evaluation, b: Evaluation, pairing: Pairing) -> list[Sample]:
    """One sample per pair: B's answer, A's as ``answer_a``, and the contexts and references that both runs share."""
    all_a, all_b = stored_samples(a), stored_samples(b)
    samples = []
    for name, place_a, place_b in zip(pairing.ids, pairing.rows_a, pairing.rows_b, strict=True):
        x, y = all_a[place_a], all_b[place_b]
        invalid = {**x.invalid, **y.invalid}
        if x.question != y.question:
            invalid["question"] = "the runs ask different questions in this row"
        both = x.references or y.references, y.references or x.references
        metadata = {"answer_a": x.answer, "references": both[1] or () if both[0] == both[1] else ()}
        contexts = y.contexts if x.texts == y.texts else None
        samples.append(replace(y, id=name, contexts=contexts, metadata=metadata, invalid=invalid))
    return samples
