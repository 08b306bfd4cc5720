"""``Comparison``: the differences between two evaluations of the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mlflow_ragmetrics.comparison.changes import ChangedRow
from mlflow_ragmetrics.comparison.difference import (
    VERDICTS,
    Difference,
    Values,
    Verdict,
    adjust,
    differences_of,
    shared_keys,
)
from mlflow_ragmetrics.comparison.preference import Preference
from mlflow_ragmetrics.core.metric import SIDES
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.display.document import (
    Block,
    Cell,
    Document,
    Folded,
    Heading,
    Line,
    Piece,
    Style,
    Styled,
    Table,
    cell,
    number,
    page,
    shorten,
    to_markdown,
    to_text,
)
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.gates import Check, raise_failures
from mlflow_ragmetrics.results.marks import count_causes
from mlflow_ragmetrics.results.pairing import Pairing, metric_spans, without_suite
from mlflow_ragmetrics.rows.data import slices_of
from mlflow_ragmetrics.statistics.intervals import FEW_GROUPS
from mlflow_ragmetrics.statistics.significance import about
from mlflow_ragmetrics.text.messages import counted
from mlflow_ragmetrics.text.non_answers import gives_no_answer

_DROPPABLE = ("needed", "p (Holm)", "won/tied/lost", "rows", "groups")
_WORDS: dict[Verdict, str] = {
    "improved": "{b} is better on ",
    "regressed": "{b} is worse on ",
    "changed": "{b} differs from {a} on ",
    "unchanged": "{b} is within {tolerance:g} of {a} on ",
}
_STYLES: dict[Verdict, Style] = {
    "improved": "good",
    "regressed": "bad",
    "changed": "middling",
    "unchanged": "faint",
    "cannot be told": "middling",
}
_LONGEST = 300
_MOST_ITEMS, _FEW_ITEMS = 8, 3
_CHANGE = "Beside an id stands the row’s mean change over all metrics (above 0: better)."
_LEGEND = "A → B; “not in B” is a claim that only A makes. The page and Markdown also show answers and passages."
_METHOD = (
    "B minus A over the rows that both sides measured (paired). Intervals: 95 %, BCa bootstrap with {resamples:,} "
    "resamples (a closed form for scores of only 0 and 1, for few changed rows, and for very many rows), "
    "separate for each metric. p: the larger of the paired sign-flip test and Student's t corrected for skew, "
    "adjusted by Holm over the metrics of all candidates. "
    "Unchanged: the interval lies within ±{tolerance:g} (the grey band). A verdict "
    "is given only if rows missed by the sample and lost rows (no answer, no context, a failed judge) cannot "
    "change it, and if at most 5 % of the rows are not comparable (another question, reference or composite member). "
    "Needed: rows that would show a difference of {tolerance:g} in four of five comparisons, if the verdict "
    "is “cannot be told”."
)
_OVER_GROUPS = (
    "Rows of one group resemble each other, so intervals (cluster-robust t below 40 groups, else the bootstrap) and "
    "tests are over groups. With fewer than ten effective groups (few), intervals may be too narrow."
)


@dataclass(frozen=True, repr=False)
class Comparison(Document):
    """B compared with A: one of ``differences`` per metric, and the most changed ``rows``.

    ``a`` and ``b`` are the two evaluations. ``pairing`` describes how their rows were matched, ``warnings`` how the
    runs differ otherwise. Differences up to ``tolerance`` do not matter.

    Intervals: 95 %, BCa bootstrap of the paired differences, separate for each metric (``statistics.intervals`` lists
    the closed forms used instead). Tests: ``statistics.significance.paired_tests``, adjusted by Holm over the metrics.
    Both use ``resamples``. With ``groups``, one name per pair, both are over groups.

    ``preference``: the judge's preference, if one was asked for. ``candidates``: number of runs compared with A, over
    which p-values are adjusted too.
    """

    a: Evaluation = field(compare=False)
    b: Evaluation = field(compare=False)
    differences: tuple[Difference, ...]
    rows: tuple[ChangedRow, ...]
    pairing: Pairing
    warnings: tuple[str, ...] = ()
    tolerance: float = 0.05
    resamples: int = 10_000
    groups: tuple[str, ...] | None = None
    preference: Preference | None = None
    candidates: int = 1

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{key} {verdict}" for key, verdict in self.verdict.items())
        return f"<Comparison {self.name}, {counted(len(self.pairing), 'row')}: {verdicts}>"

    def __getitem__(self, key: str) -> Difference:
        """The difference of the metric ``key``."""
        return {difference.key: difference for difference in self.differences}[key]

    @property
    def name(self) -> str:
        """``<B> vs <A>``."""
        return f"{self.b.name} vs {self.a.name}"

    @property
    def title(self) -> str:
        """``<B> (B) against <A> (A)``."""
        a, b = (
            name if name == letter or name.endswith(f"({letter})") else f"{name} ({letter})"
            for name, letter in ((self.a.name, "A"), (self.b.name, "B"))
        )
        return f"{b} against {a}"

    @property
    def verdict(self) -> dict[str, Verdict]:
        """By metric: improved, regressed, changed (no better direction), unchanged or "cannot be told"."""
        return {difference.key: difference.verdict for difference in self.differences}

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per metric: means, difference, interval, p-values, wins, ties, losses, rows needed, …."""
        return pd.DataFrame([difference.record() for difference in self.differences])

    @property
    def plain(self) -> str:
        """The verdicts in a sentence: better, worse and unchanged metrics, and those without a verdict."""
        by_verdict: dict[Verdict, list[Difference]] = {}
        for difference in self.differences:
            by_verdict.setdefault(difference.verdict, []).append(difference)
        parts = []
        for verdict, words in _WORDS.items():
            if verdict in by_verdict:
                listed = ", ".join(difference.plain for difference in by_verdict[verdict])
                parts.append(words.format(b=self.b.name, a=self.a.name, tolerance=self.tolerance) + listed)
        parts += [difference.plain for difference in by_verdict.get("cannot be told", ())]
        return f"{'; '.join(parts)}."

    def pairs(self, key: str) -> tuple[Values, Values]:
        """A's and B's scores of ``key`` in the order of the pairs; NaN: not measured, or not comparable."""
        return self.pairing.scores(self.a, self.b, key)

    def by(self, column: str) -> pd.DataFrame:
        """The differences of each slice, such as ``comparison.by("topic")``: one row per value and metric.

        ``column``: a column or metadata field of A's rows; rows without a value are ignored. The columns are ``slice``,
        those of ``table``, and ``mark``: ``few rows`` or ``few groups`` with fewer than ten (effective) ones.
        ``p_holm``, and so ``verdict``, is adjusted over slices and metrics.
        """
        slices = self._slices(column)
        return pd.DataFrame([{"slice": name, **each.record(), "mark": _mark(each)} for name, each in slices])

    def _slices(self, column: str) -> list[tuple[str, Difference]]:
        names = slices_of(self.a.table, column)
        slices = np.array([names[row] or "" for row in self.pairing.rows_a], dtype=object)
        present = sorted(set(slices) - {""})
        named = [(name, each) for name in present for each in self.differences_in(slices == name, len(present))]
        return list(zip((name for name, _ in named), adjust([each for _, each in named]), strict=True))

    def differences_in(self, here: Values, tests: int) -> list[Difference]:
        """The difference of each shared metric over the pairs ``here``; call ``adjust`` if ``tests`` is above 1.

        ``tests``: the number of slices or candidates.
        """
        scores = {key: self.pairs(key) for key in shared_keys(self.a, self.b)}
        failed_a, failed_b = self.pairing.failed(self.a, self.b)
        return differences_of(
            {key: (before[here], after[here]) for key, (before, after) in scores.items()},
            tolerance=self.tolerance,
            resamples=self.resamples,
            groups=None if self.groups is None else np.array(self.groups)[here].tolist(),
            candidates=tests,
            better={key: self.b.better(key) for key in scores},
            spans=metric_spans(scores),
            failed=(failed_a[here], failed_b[here]),
            unlike={key: self.pairing.is_unlike(key)[here] for key in scores},
        )

    @property
    def causes(self) -> dict[str, tuple[int, int]]:
        """Number of paired rows with each diagnosis, in A and in B; empty if a side has no diagnoses."""
        sides = (self.a.table, self.pairing.rows_a), (self.b.table, self.pairing.rows_b)
        if any("diagnosis" not in table.columns for table, _ in sides):
            return {}
        a, b = (count_causes(map(str, table["diagnosis"].iloc[list(rows)])) for table, rows in sides)
        return {cause: (a[cause], b[cause]) for cause in a}

    @cached_property
    def non_answers(self) -> tuple[int, int]:
        """Number of non-answers in A and in B: blank, a refusal, an error text."""
        answers = (results.table.get("answer", ()) for results in (self.a, self.b))
        a, b = (sum(gives_no_answer(text) for text in texts if isinstance(text, str)) for texts in answers)
        return a, b

    @property
    def notes(self) -> list[str]:
        """Notes below the table of metrics: row counts, non-answers, equal metrics, diagnoses, better directions, and
        candidates."""
        accounts: dict[str, list[str]] = {}
        for difference in self.differences:
            accounts.setdefault(difference.accounted, []).append(difference.key)
        rows = [
            f"Rows of {', '.join(keys) if len(accounts) > 1 else 'all metrics'}: {accounted}"
            for accounted, keys in accounts.items()
        ]
        equal = [
            f"{difference.key} equals {difference.same_as} in every row: they count as one metric"
            for difference in self.differences
            if difference.same_as is not None
        ]
        silent = [f"{count} in {side}" for side, count in zip("AB", self.non_answers, strict=True) if count]
        answers = [f"Non-answers (blank, “I don't know”, an error text): {', '.join(silent)}"] if silent else []
        counts = [f"{cause} {a} → {b}" for cause, (a, b) in self.causes.items() if a or b]
        sides = [
            f"{words}: {', '.join(keys)}"
            for side, words in SIDES.items()
            if side is not True and (keys := [each.key for each in self.differences if each.higher_is_better is side])
        ]
        causes = [f"Diagnosis: {', '.join(counts)}"] if counts else []
        tests = f"p (Holm): adjusted over the metrics of all {self.candidates} candidates compared with {self.a.name}"
        return [*rows, *answers, *equal, *causes, *sides, *([tests] if self.candidates > 1 else [])]

    def checks(self, fail_on: Iterable[str] = ("regressed",)) -> list[Check]:
        """One check per metric, and one for the preference; a check fails if the verdict is in ``fail_on``.

        With ``"regressed"`` it also fails if B lost more than 5 % of the rows that A measured (``Difference.reaches``).
        Raises ``InvalidOptionError`` for an unknown verdict.
        """
        failing = {*fail_on}
        unknown = sorted(failing - {*VERDICTS})
        if unknown:
            raise InvalidOptionError(f"fail_on={unknown[0]!r} is not one of {', '.join(VERDICTS)}", param="fail_on")
        unknown = without_suite(self.a, self.b)
        options = f"; the options of {' and '.join(unknown)} are unknown" if unknown else ""
        checks = []
        for each in self.differences:
            is_passed = not each.reaches(failing)
            hardly = _hardly(each) if is_passed else ""
            reason = f"{self.name}: {each.verdict}: {each.plain}; rows: {each.accounted}{options}{hardly}"
            checks.append(Check(f"{self.name}: {each.key}", is_passed, reason))
        return checks if self.preference is None else [*checks, self.preference.check(self.name, failing)]

    def check(self, fail_on: Iterable[str] = ("regressed",)) -> None:
        """Raise ``GateError`` (an ``AssertionError``) if a verdict is in ``fail_on``."""
        raise_failures(self.checks(fail_on))

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data, for JSON."""
        return {
            "a": self.a.name,
            "b": self.b.name,
            "n_pairs": len(self.pairing),
            "paired_by": self.pairing.by,
            "rows_a": len(self.a.table),
            "rows_b": len(self.b.table),
            "non_answers_a": self.non_answers[0],
            "non_answers_b": self.non_answers[1],
            "only_a": list(self.pairing.only_a),
            "only_b": list(self.pairing.only_b),
            "tolerance": self.tolerance,
            "resamples": self.resamples,
            "candidates": self.candidates,
            "warnings": list(self.warnings),
            "metrics": [difference.record() for difference in self.differences],
            "plain": self.plain,
            "causes": {cause: list(pair) for cause, pair in self.causes.items()},
            "rows": [asdict(row) for row in self.rows],
            "preference": None if self.preference is None else dict(self.preference),
        }

    def _blocks(self, checks: Sequence[Check] = ()) -> list[Block]:
        """The summary sentence, failed gates, the figures, notes and warnings."""
        rows = counted(len(self.pairing), "row")
        failed = [check.reason for check in checks if not check.passed]
        return [
            Heading(f"{self.title}: {rows} paired by {self.pairing.by}, tolerance {self.tolerance:g}"),
            Line(self.too_few or self.plain),
            *(Line([Styled("Gate failed", "strong"), f": {reason}"], "bad") for reason in failed),
            self._figures_table([("", difference) for difference in self.differences]),
            *(Line(note, "faint") for note in self.notes),
            *self._warnings,
            *(() if self.preference is None else self.preference.blocks),
        ]

    @property
    def _warnings(self) -> list[Block]:
        return [Line(f"Note: {warning}", "middling") for warning in self.warnings]

    def slices_text(self, column: str, width: int | None = None) -> str:
        """The differences of each slice of ``column`` as a table, at most ``width`` columns wide; see ``by``."""
        return to_text([self._figures_table(self._slices(column), column)], width)

    def _figures_table(self, found: Sequence[tuple[str, Difference]], column: str = "") -> Table:
        """One line per difference, led by its slice of ``column``."""
        ends = [abs(end) for _, difference in found for end in (difference.low, difference.high) if end is not None]
        reach = 1.05 * max(self.tolerance, *ends, 1e-6)  # intervals are drawn from -reach to reach
        figures = [difference.figures(reach) for _, difference in found]
        columns: dict[str, Sequence[Cell]] = {column: [name for name, _ in found]} if column else {}
        columns["metric"] = [difference.key for _, difference in found]
        columns["verdict"] = [Styled(difference.verdict, _STYLES[difference.verdict]) for _, difference in found]
        columns |= {name: [figure[name] for figure in figures] for name in (figures[0] if figures else ())}
        columns |= {"mark": [_mark(difference) for _, difference in found]} if column else {}
        return Table(columns, left=[column, "metric", "verdict", "mark"], droppable=_DROPPABLE, flexible=column)

    def _changed_blocks(self, *, answers: bool = True) -> list[Block]:
        """The most changed rows: their score changes, both answers, and the items whose verdicts changed."""
        title = f"The {len(self.rows)} rows that changed most" if self.rows[1:] else "The row that changed most"
        legend = [Line(text, "faint") for text in ((_CHANGE,) if answers else (_CHANGE, _LEGEND))]
        return [Heading(title), *legend, *(self._changed_row(row, answers) for row in self.rows)] if self.rows else []

    def _changed_row(self, row: ChangedRow, answers: bool) -> Folded:
        moved: list[Piece] = []
        for key, (before, after) in row.scores.items():
            if before != after:
                change = np.nan if before is None or after is None else after - before
                side = self[key].higher_is_better
                style: Style = "" if side is None or np.isnan(change) else "good" if (change > 0) is side else "bad"
                moved += [", " if moved else "", Styled(f"{key} {number(before)} → {number(after)}", style)]
        lines = [Line(moved)]
        lines += [Line(f"diagnosis: {' → '.join(row.causes)}")] if row.causes is not None else []
        texts = {"A": row.answer_a, "B": row.answer_b} if answers else {}
        lines += [Line([Styled(side, "strong"), f": {text}"]) for side, text in texts.items() if text]
        items = [item for item in row.items if answers or item.kind != "chunk"]
        shown = items[: _MOST_ITEMS if answers else _FEW_ITEMS]
        lines += [Line([Styled(i.verdicts, "strong"), f" ({i.kind}): “{shorten(i.text, _LONGEST)}”"]) for i in shown]
        more = len(items) - len(shown)
        lines += [Line(f"… and {more} more", "faint")] if more > 0 else []
        title: list[Piece] = [Styled(row.id, "strong"), f" {row.change:+.3f}  {shorten(row.question, _LONGEST)}"]
        return Folded(Line(title), lines)

    @property
    def too_few(self) -> str | None:
        """One line that says so if fewer than ten rows (or groups) allow no verdict; else ``None``."""
        shown = next((difference for difference in self.differences if difference.difference is not None), None)
        is_told = any(
            each.verdict != "cannot be told" or each.unlike or each.lost_a or each.lost_b for each in self.differences
        )
        if shown is None or is_told or self.preference is not None:
            return None
        count, kind = (shown.rows, "row") if shown.groups is None else (shown.groups, "group")
        if count >= FEW_GROUPS:
            return None
        needed = "" if shown.needed is None else f", about {about(shown.needed)} rows would show {self.tolerance:g}"
        few = f"{counted(count, kind)} {'is' if count == 1 else 'are'} too few"
        return f"No verdict: {few}; {shown.key} {shown.difference:+.2f}{needed}"

    def to_text(self, width: int | None = None) -> str:
        """The summary sentence, a table of the metrics, notes and warnings, and the most changed rows.

        If fewer than ten rows allow no verdict, one line says so instead, above the warnings. A table wider than
        ``width`` columns drops its least important figures.
        """
        if self.too_few is not None:
            return to_text([Line(f"{self.title}: {self.too_few}"), *self._warnings], width).rstrip()
        return to_text([*self._blocks(), *self._changed_blocks(answers=False)], width).rstrip()

    def to_markdown(self, fail_on: Iterable[str] = ()) -> str:
        """The same as Markdown, with the most changed rows folded, for example for ``$GITHUB_STEP_SUMMARY``.

        ``fail_on``: the verdicts that fail a gate; failed gates are listed above the table.
        """
        text = to_markdown(self._blocks(self.checks(fail_on)))
        if self.rows:
            _, *rows = self._changed_blocks()
            summary = f"<summary>{counted(len(self.rows), 'row')} that changed most</summary>"
            text += f"\n\n<details>{summary}\n\n{to_markdown(rows)}\n\n</details>"
        return redact(text) + "\n"

    def _repr_html_(self) -> str:
        return cell([*self._blocks(), *self._changed_blocks()])

    def to_html(self, path: str | Path | None = None) -> str:
        """A self-contained HTML page; with a ``path``, it is written there, and the path is returned."""
        method = _METHOD.format(resamples=self.resamples, tolerance=self.tolerance)
        methods = [method, _OVER_GROUPS] if self.groups is not None else [method]
        changed = self._changed_blocks() or [Line("No score differs.")]
        text = page(self.title, [*self._blocks(), *(Line(method, "faint") for method in methods), *changed])
        if path is None:
            return text
        Path(path).write_text(text, encoding="utf-8")
        return str(path)

    def log(self, run_id: str | None = None, *, run_name: str | None = None) -> str:
        """Write page and table into a new run, or into the run ``run_id``; returns its id.

        The artifacts are ``compare_<A>.html`` and ``.json`` (a table); the only metrics of the run are
        ``preference/<figure>``.
        """
        from mlflow_ragmetrics.tracking.log import log_findings, safe_name

        name = safe_name(self.a.name)
        preferred: Mapping[str, Any] = self.preference or {}
        return log_findings(
            run_id,
            run_name or f"compare {self.name}",
            own=True,
            texts={f"compare_{name}.html": self.to_html()},
            tables={f"compare_{name}.json": self.table},
            metrics={f"preference/{name}": each for name, each in preferred.items() if isinstance(each, (int, float))},
            params={"a": self.a.run_id or self.a.name, "b": self.b.run_id or self.b.name},
        )


def _hardly(difference: Difference) -> str:
    is_weak = difference.verdict == "cannot be told" and (difference.needed or 0) > difference.rows
    return "; with so few rows, the gate could hardly have failed" if is_weak else ""


def _mark(difference: Difference) -> str:
    if difference.groups is not None:
        return "few groups" if difference.few_groups else ""
    return "few rows" if difference.rows < FEW_GROUPS else ""
