"""``Comparison``: what two evaluations of the same rows say about the two versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mlflow_ragmetrics.comparison.changes import ChangedRow
from mlflow_ragmetrics.comparison.difference import Difference, Values, Verdict, adjust, differences_of
from mlflow_ragmetrics.comparison.forest_plot import forest_plot
from mlflow_ragmetrics.comparison.markdown import comparison_markdown
from mlflow_ragmetrics.comparison.pairing import Pairing, measured
from mlflow_ragmetrics.comparison.sessions import SessionPasses, session_passes
from mlflow_ragmetrics.core.html import render
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.report.gates import Check, check_comparison, raise_failures
from mlflow_ragmetrics.report.junit import Case
from mlflow_ragmetrics.report.notebook import Folded, Line, Table, cell
from mlflow_ragmetrics.report.text import text_table
from mlflow_ragmetrics.report.true_score import TrueScore, labelled_scores, true_difference
from mlflow_ragmetrics.rows.groups import table_slices
from mlflow_ragmetrics.rows.labels import Labels
from mlflow_ragmetrics.rows.results import Results
from mlflow_ragmetrics.statistics.groups import FEW_GROUPS
from mlflow_ragmetrics.text.messages import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Comparison"]

_FIGURES = {
    "difference": "difference",
    "ci_low": "low",
    "ci_high": "high",
    "p_value": "p_value",
    "p_holm": "p_holm",
    "effect_size": "effect",
    "wins": "wins",
    "ties": "ties",
    "losses": "losses",
    "n_pairs": "rows",
    "n_groups": "groups",
    "design_effect": "design_effect",
}

_DROPPABLE = ("d_z", "needed", "p (Holm)", "won/tied/lost", "rows")
_WORDS: dict[Verdict, str] = {
    "improved": "{b} is better on ",
    "regressed": "{b} is worse on ",
    "changed": "{b} differs from {a} on ",
    "unchanged": "{b} is within {tolerance:g} of {a} on ",
}


@dataclass(frozen=True)
class Comparison:
    """B against A: ``differences``, one for each metric, and the ``rows`` that changed most.

    ``name_a`` and ``name_b`` are the runs' names, ``run_a`` and ``run_b`` their ids in MLflow. ``pairing`` says how
    rows were matched and what could not be, ``warnings`` how the runs differ otherwise. Differences up to
    ``tolerance`` do not matter.

    Intervals: BCa bootstrap of the paired differences, 95 %, each metric for itself (``statistics.intervals`` says when
    a closed form takes its place). Tests: sign-flip permutation, adjusted by Holm over the metrics. Both from
    ``resamples`` draws. With ``groups``, a name for each pair, both are those over groups (``statistics.clusters``):
    cluster-robust t below 40 of them, else bootstrap and sign flips of whole groups.

    ``unit`` is what the rows are called: questions, where each asks another. ``sides`` are the evaluations themselves.
    ``seed``: of the resamples.
    """

    name_a: str
    name_b: str
    differences: tuple[Difference, ...]
    rows: tuple[ChangedRow, ...]
    pairing: Pairing
    warnings: tuple[str, ...] = ()
    tolerance: float = 0.05
    resamples: int = 10_000
    run_a: str | None = None
    run_b: str | None = None
    groups: tuple[str, ...] | None = field(default=None, repr=False)
    unit: Literal["questions", "rows"] = "rows"
    seed: int = 0
    sides: tuple[Results, Results] | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, key: str) -> Difference:
        """The difference of the metric ``key``."""
        return {each.key: each for each in self.differences}[key]

    @property
    def name(self) -> str:
        """``B vs A``."""
        return f"{self.name_b} vs {self.name_a}"

    @property
    def title(self) -> str:
        """B against A, both by name and letter."""
        a, b = (
            name if name == letter or name.endswith(f"({letter})") else f"{name} ({letter})"
            for name, letter in ((self.name_a, "A"), (self.name_b, "B"))
        )
        return f"{b} against {a}"

    @property
    def heading(self) -> str:
        """What was compared, and over how many rows."""
        rows = counted(len(self.pairing), "row")
        return f"{self.title}: {rows} paired by {self.pairing.by}, tolerance {self.tolerance:g}"

    @property
    def verdict(self) -> dict[str, Verdict]:
        """By metric: improved, regressed, changed (where neither side is better), unchanged or too few rows to tell."""
        return {each.key: each.verdict for each in self.differences}

    @cached_property
    def metrics(self) -> dict[str, float]:
        """What is logged as run metrics: ``<key>/difference``, ``/ci_low``, ``/p_holm``, …; nothing that is unknown."""
        figures = {
            f"{each.key}/{name}": getattr(each, attribute)
            for each in self.differences
            for name, attribute in _FIGURES.items()
        }
        marks = {f"{each.key}/few_groups": 1.0 for each in self.differences if each.few_groups}
        return {name: float(value) for name, value in figures.items() if value is not None} | marks

    @property
    def plain(self) -> str:
        """What was found in plain words: what B is better and worse on, what is the same, and what cannot be told."""
        found: dict[Verdict, list[Difference]] = {}
        for each in self.differences:
            found.setdefault(each.verdict, []).append(each)
        parts = []
        for verdict, words in _WORDS.items():
            if verdict in found:
                listed = ", ".join(each.plain(self.unit) for each in found[verdict])
                parts.append(words.format(b=self.name_b, a=self.name_a, tolerance=self.tolerance) + listed)
        parts += [each.plain(self.unit) for each in found.get("too few rows to tell", ())]
        return f"{'; '.join(parts)}."

    def by(self, column: str) -> pd.DataFrame:
        """The differences of each slice, such as ``comparison.by("topic")``: one row per value and metric.

        ``column`` is a column, or an entry of the metadata, of A's rows; rows without a value are no slice. The columns
        are ``slice`` and those of ``table``; ``p_holm``, and with it ``verdict``, is adjusted over slices and metrics.
        ``mark`` is ``few rows`` or ``few groups`` below ten (effective) ones.
        """
        import pandas as pd

        return pd.DataFrame(
            [{"slice": name, **_record(each), "mark": _mark(each)} for name, each in self._slices(column)]
        )

    def true_score(
        self, key: str, labels: Labels, labels_b: Labels | None = None, *, column: str = "label"
    ) -> TrueScore:
        """The difference that people would have seen between all paired rows, B's less A's, from labels of a few.

        ``labels`` are those of A's answers and ``labels_b`` those of B's, as ``Report.true_score`` takes them; a column
        that both evaluations have is given once. Where the same rows are labelled for both, their differences are
        what is estimated, which takes the fewest. Groups are those of the comparison. ``InvalidOptionError`` for an
        unknown key, and where ``labels_b`` is wanting.
        """
        a, b = self._both("true_score")
        if labels_b is None and not (isinstance(labels, str) and all(labels in each.table.columns for each in (a, b))):
            message = "labels_b: give the labels of B's answers as well, or a column that both evaluations have"
            raise InvalidOptionError(message, param="labels_b")
        own = labelled_scores(a, key, labels, column=column)
        other = labelled_scores(b, key, labels if labels_b is None else labels_b, column=column)
        names = None if self.groups is None else list(self.groups)
        rows_a, rows_b = (np.array(rows, dtype=int) for rows in (self.pairing.rows_a, self.pairing.rows_b))
        return true_difference(key, own.select(rows_a, names), other.select(rows_b, names))

    @property
    def causes(self) -> dict[str, tuple[int, int]]:
        """How many of the paired rows have each diagnosis, in A and in B; empty where one side has none."""
        if self.sides is None or any("diagnosis" not in side.table.columns for side in self.sides):
            return {}
        from mlflow_ragmetrics.report.diagnosis import count_causes

        found = [side.table["diagnosis"].tolist() for side in self.sides]
        a = count_causes(str(found[0][row]) for row in self.pairing.rows_a)
        b = count_causes(str(found[1][row]) for row in self.pairing.rows_b)
        return {cause: (a[cause], b[cause]) for cause in a}

    @cached_property
    def sessions(self) -> tuple[SessionPasses, ...]:
        """How many conversations have no failing turn, in A and in B; empty where the rows of A belong to none."""
        return () if self.sides is None else session_passes(*self.sides, self.pairing)

    @property
    def notes(self) -> list[str]:
        """What the table of the metrics does not say: causes, thresholds and conversations, before and after."""
        counted = [f"{cause} {a} → {b}" for cause, (a, b) in self.causes.items() if a or b]
        passes = [f"{each.key}: {each.passes}" for each in self.differences if each.passes is not None]
        return [*([f"Diagnosis: {', '.join(counted)}"] if counted else []), *passes, *map(str, self.sessions)]

    def pairs(self, key: str) -> tuple[Values, Values]:
        """A's and B's scores of ``key`` in the order of the pairs; NaN where there is none."""
        a, b = self._both("pairs")
        return self.pairing.select(measured(a, key), measured(b, key))

    def scores_before(self) -> dict[str, dict[str, float]]:
        """For each metric A's score by the id of B's row, where there is one: what a page of B is held against."""
        if "id" not in self._both("scores_before")[1].table.columns:
            return {}
        ids = self._both("scores_before")[1].table["id"].tolist()
        names = [str(ids[row]) for row in self.pairing.rows_b]
        before = {each.key: self.pairs(each.key)[0] for each in self.differences}
        return {
            key: {name: float(value) for name, value in zip(names, values, strict=True) if value == value}
            for key, values in before.items()
        }

    def _both(self, method: str) -> tuple[Results, Results]:
        if self.sides is None:
            message = f"{method}: the comparison was made without its evaluations; use compare"
            raise InvalidOptionError(message, param=method)
        return self.sides

    def slices_text(self, column: str, width: int | None = None) -> str:
        """The differences of each slice of ``column`` as a table, at most ``width`` columns wide; see ``by``."""
        found = self._slices(column)
        figures = [each.figures for _, each in found]
        columns: dict[str, Sequence[str]] = {
            column: [name for name, _ in found],
            "metric": [each.key for _, each in found],
            **{name: [each[name] for each in figures] for name in figures[0]},
            "verdict": [each.verdict for _, each in found],
            "mark": [_mark(each) for _, each in found],
        }
        return text_table(columns, width, left=(column, "metric", "verdict", "mark"), droppable=_DROPPABLE)

    def _slices(self, column: str) -> list[tuple[str, Difference]]:
        names = table_slices(self._both("by")[0].table, column)
        slices = np.array([names[row] or "" for row in self.pairing.rows_a], dtype=object)
        scores = {each.key: self.pairs(each.key) for each in self.differences}
        groups = None if self.groups is None else np.array(self.groups)
        owners: list[str] = []
        found: list[Difference] = []
        for name in sorted(set(slices) - {""}):
            here = slices == name
            found += differences_of(
                {key: (before[here], after[here]) for key, (before, after) in scores.items()},
                tolerance=self.tolerance,
                resamples=self.resamples,
                seed=self.seed,
                groups=None if groups is None else groups[here].tolist(),
                adjusted=False,
                better={each.key: each.higher_is_better for each in self.differences},
            )
            owners += [name] * len(scores)
        return list(zip(owners, adjust(found), strict=True))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per metric: means, difference, interval, p-values, wins, ties, losses, effect, rows needed, …."""
        import pandas as pd

        return pd.DataFrame([_record(each) for each in self.differences])

    def changed(self) -> pd.DataFrame:
        """One row for each of the rows that changed most: id, texts, ``<key>_a``, ``<key>_b``, and changed items."""
        import pandas as pd

        return pd.DataFrame([_flat(row) for row in self.rows])

    def checks(self, fail_on: Iterable[str] = ("regressed",)) -> list[Check]:
        """One check per metric, failed where its verdict is one of ``fail_on``; for JUnit and the like."""
        return check_comparison(self.differences, fail_on, self.name)

    def check(self, fail_on: Iterable[str] = ("regressed",)) -> None:
        """``GateError`` (an ``AssertionError``) when a metric's verdict is one of ``fail_on``."""
        raise_failures(self.checks(fail_on))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, for JSON."""
        return {
            "a": self.name_a,
            "b": self.name_b,
            "n_pairs": len(self.pairing),
            "paired_by": self.pairing.by,
            "only_a": list(self.pairing.only_a),
            "only_b": list(self.pairing.only_b),
            "tolerance": self.tolerance,
            "resamples": self.resamples,
            "warnings": list(self.warnings),
            "metrics": [_record(each) for each in self.differences],
            "plain": self.plain,
            "causes": {cause: list(pair) for cause, pair in self.causes.items()},
            "sessions": list(map(asdict, self.sessions)),
            "rows": [asdict(row) for row in self.rows],
        }

    def to_html(self, path: str | Path | None = None) -> str:
        """A self-contained page; written to ``path`` as well where one is given."""
        ends = [abs(end) for each in self.differences for end in (each.low, each.high) if end is not None]
        page = render(
            "report/comparison.html",
            comparison=self,
            columns=list(self.differences[0].figures),
            cluster_robust=any(each.groups is not None for each in self.differences),
            causes={cause: pair for cause, pair in self.causes.items() if any(pair)},
            reach=1.05 * max(self.tolerance, *ends, 1e-6),  # the interval plots go from -reach to reach
        )
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def to_text(self, width: int | None = None) -> str:
        """A table of the metrics, then causes, thresholds, conversations and warnings.

        Where the table is wider than ``width`` columns, it goes without the figures that a reader misses least.
        """
        figures = [each.figures for each in self.differences]
        columns: dict[str, Sequence[str]] = {
            "metric": [each.key for each in self.differences],
            **{name: [each[name] for each in figures] for name in figures[0]},
            "verdict": [each.verdict for each in self.differences],
        }
        table = text_table(columns, width, left=("metric", "verdict"), droppable=_DROPPABLE)
        notes = (*self.notes, *(f"Note: {warning}" for warning in self.warnings))
        return "\n".join([self.heading, "", self.plain, "", table, "", *notes]).rstrip()

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        figures = [each.figures for each in self.differences]
        names = list(figures[0])
        rows = [
            (each.key, *(shown[name] for name in names), each.verdict)
            for each, shown in zip(self.differences, figures, strict=True)
        ]
        styles = {"improved": "good", "regressed": "bad", "too few rows to tell": "middling"}
        folded = [
            Folded(
                f"{row.id} {row.change:+.3f} {row.question}",
                [
                    f"A: {row.answer_a}",
                    f"B: {row.answer_b}",
                    *(f"{item.verdicts}: {item.text}" for item in row.items),
                ],
            )
            for row in self.rows
        ]
        table = Table(("metric", *names, "verdict"), rows, numbers=names, styles=styles)
        notes = [self.heading, *self.notes]
        lines = [Line(self.plain), *(Line(f"Note: {warning}", "middling") for warning in self.warnings)]
        return cell(self.title, lines, [table], notes=notes, folded=folded)

    def to_markdown(self, fail_on: Iterable[str] = ()) -> str:
        """The same as Markdown, with the rows that changed most, such as for ``$GITHUB_STEP_SUMMARY``.

        ``fail_on``: the verdicts at which a gate fails, which then stands above the table.
        """
        return comparison_markdown(self, self.checks(fail_on))

    def row_cases(self, fail_on: Iterable[str] = ("regressed",)) -> list[Case]:
        """A JUnit case for each pair of rows: it fails where a metric that regressed is worse in it beyond tolerance.

        ``fail_on``: the verdicts at which a gate fails. Where no gate fails no row does; ``report.junit.to_junit``
        writes the XML.
        """
        failed = {
            each.key: 1 if each.higher_is_better is False else -1
            for each in self.differences
            if each.verdict == "regressed" and "regressed" in fail_on
        }
        scores = {each.key: self.pairs(each.key) for each in self.differences}
        cases = []
        for row, name in enumerate(self.pairing.ids):
            pairs = {key: (before[row], after[row]) for key, (before, after) in scores.items()}
            faults = [
                f"{key} {'fell' if sign < 0 else 'rose'} from {pairs[key][0]:.3f} to {pairs[key][1]:.3f}"
                for key, sign in failed.items()
                if sign * (pairs[key][1] - pairs[key][0]) > self.tolerance
            ]
            sides = {
                f"{key}_{side}": value for key, pair in pairs.items() for side, value in zip("ab", pair, strict=True)
            }
            shown = {name: f"{value:.6g}" for name, value in sides.items() if not np.isnan(value)}
            cases.append(Case(name, failure="; ".join(faults) or None, properties=shown))
        return cases

    def plot(self) -> Figure | None:
        """A forest plot: one line per metric with its interval; ``None`` when no metric has one."""
        return forest_plot(self.differences, self.tolerance, self.title)

    def causes_plot(self) -> Figure | None:
        """How many rows have each diagnosis in A and in B; ``None`` where one side has none."""
        from mlflow_ragmetrics.report.plots import causes_plot

        names = f"{self.name_a} (A)", f"{self.name_b} (B)"
        counts = {name: {cause: pair[side] for cause, pair in self.causes.items()} for side, name in enumerate(names)}
        return causes_plot(counts) if self.causes else None

    def log(self, run_id: str | None = None, *, run_name: str | None = None) -> str:
        """Write page, table, plot and metrics into the run of B, or into another one; returns the run's id.

        ``run_id`` names another run. Where B is not a run: the active run, else a new one. The artifacts are
        ``compare_<A>.html``, ``.json`` (a table) and ``.png``, the metrics ``vs_<A>/<key>/difference``, ….
        """
        from mlflow_ragmetrics.tracking.report import Findings, log_findings, safe_name

        name = safe_name(self.name_a)
        findings = Findings(
            texts={f"compare_{name}.html": self.to_html()},
            tables={f"compare_{name}.json": self.table},
            plots={f"compare_{name}.png": self.plot(), f"compare_{name}_diagnosis.png": self.causes_plot()},
            metrics={f"vs_{name}/{figure}": value for figure, value in self.metrics.items()},
            params={f"compared_with_{name}": self.run_a or self.name_a},
        )
        return log_findings(findings, run_id or self.run_b, run_name or f"compare {self.name}")


def _mark(difference: Difference) -> str:
    if difference.groups is not None:
        return "few groups" if difference.few_groups else ""
    return "few rows" if difference.rows < FEW_GROUPS else ""


def _record(difference: Difference) -> dict[str, Any]:
    passes = asdict(difference.passes) if difference.passes else {}
    plain = {name: value for name, value in asdict(difference).items() if name not in ("passes", "tolerance")}
    return {
        "metric": plain.pop("key"),
        "verdict": difference.verdict,
        **plain,
        "pass_rate_a": passes.get("rate_a"),
        "pass_rate_b": passes.get("rate_b"),
        "newly_passed": passes.get("newly_passed"),
        "newly_failed": passes.get("newly_failed"),
        "mcnemar_p": passes.get("p_value"),
    }


def _flat(row: ChangedRow) -> dict[str, Any]:
    scores = {
        f"{key}_{side}": value for key, pair in row.scores.items() for side, value in zip("ab", pair, strict=True)
    }
    texts = {"id": row.id, "question": row.question, "answer_a": row.answer_a, "answer_b": row.answer_b}
    items: Mapping[str, Any] = {"items": [asdict(item) for item in row.items]}
    return {**texts, "change": row.change, **scores, **items}
