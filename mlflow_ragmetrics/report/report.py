"""The outcome of one evaluation: rows, items, run metrics, and the way into MLflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.condition import condition_of
from mlflow_ragmetrics.core.json_text import as_json, plain
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.readers import digest
from mlflow_ragmetrics.readers.groups import Groups, sample_groups, sample_slices
from mlflow_ragmetrics.readers.labels import Labels
from mlflow_ragmetrics.readers.results import results_of
from mlflow_ragmetrics.report.anytime import AnytimeState
from mlflow_ragmetrics.report.gates import MinScored, check_figures, raise_failures
from mlflow_ragmetrics.report.marks import Failures, count_lines, failure_lines, judge_lines
from mlflow_ragmetrics.report.slices import slices_frame
from mlflow_ragmetrics.report.summary import agreement_lines, panel_figures, summarize_rows
from mlflow_ragmetrics.report.tables import items_frame, rows_frame
from mlflow_ragmetrics.report.true_score import Method, TrueScore, true_score
from mlflow_ragmetrics.shared.retrieval import retrieval_summary
from mlflow_ragmetrics.statistics.agreement import Agreement
from mlflow_ragmetrics.views.notebook import report_cell
from mlflow_ragmetrics.views.report_page import report_page

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Scores of every row, with what explains them.

    ``description`` says how it was made (suite, judges, weights, …), ``usage`` what it cost (calls, tokens, seconds),
    ``warnings`` what was left out, ``source`` the file the rows came from, ``repeats`` the figures of repeatability
    where the evaluation was repeated, ``true_scores`` what ``with_true_score`` found, ``anytime`` the state that
    ``with_anytime`` leaves for the next look. ``stopped`` says why it ended before every row was scored, where it did.
    ``ranges``: the lowest and the highest value of each key, where they are known.
    ``slices`` are the columns of ``with_slices``.
    """

    rows: Sequence[Row]
    description: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    usage: Mapping[str, float] = field(default_factory=dict)
    source: Union[str, Path, None] = None
    repeats: Mapping[str, float] = field(default_factory=dict)
    true_scores: tuple[TrueScore, ...] = ()
    anytime: AnytimeState | None = None
    stopped: Union[str, None] = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict, repr=False, compare=False)
    slices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def keys(self) -> list[str]:
        """The keys of the scores, in the suite's order."""
        return list(dict.fromkeys(key for row in self.rows for key in row.scores))

    def scores(self, key: str) -> list[Score]:
        """One score per row for this key."""
        return [row.scores[key] for row in self.rows]

    @property
    def table(self) -> pd.DataFrame:
        """One row per sample: id, question, answer, the scores (composites first), their reasons, then all else."""
        return self._table

    @cached_property
    def _table(self) -> pd.DataFrame:
        return rows_frame(self.rows)

    @property
    def items(self) -> pd.DataFrame:
        """One row per claim, token, sentence, chunk or document: verdict, reason, support and evidence."""
        return self._items

    @cached_property
    def _items(self) -> pd.DataFrame:
        return items_frame(self.rows)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """All figures of the evaluation: ``<key>/mean``, ``/ci_low``, ``/n_scored``, …, and ``retrieval_summary``."""
        scores = [row.scores for row in self.rows]
        figures = {**summarize_rows(scores, self._group_names()), **panel_figures(scores)}
        figures |= {**retrieval_summary(scores), **self.repeats}
        figures |= {name: value for each in self.true_scores for name, value in each.metrics.items()}
        return figures | (self.anytime.metrics if self.anytime is not None else {})

    @property
    def groups(self) -> str | None:
        """The column or metadata field whose values say which rows belong together, where the report has one."""
        return self.description.get("groups")

    def by(self, column: str) -> pd.DataFrame:
        """The figures of each slice, such as ``report.by("topic")``: one row per value of ``column`` and metric.

        ``column`` is a field or a metadata field; rows without a value are no slice. ``slice``, ``metric``, ``rows``
        (scored ones), ``mean``, ``ci_low``, ``ci_high``; ``p_holm`` tells whether the slice differs from all other rows
        (Welch's test, over groups where the report has them), adjusted by Holm over slices and metrics; ``mark`` is
        ``few rows`` or ``few groups`` below ten (effective) ones, and how many were measured where that are not all.
        ``InvalidOptionError`` where no row has the column.
        """
        samples = [row.sample for row in self.rows]
        return slices_frame(self.rows, sample_slices(samples, column), self._group_names())

    def with_slices(self, *columns: str) -> Report:
        """The report whose run also holds the figures ``by`` each of these columns, in ``rag_slices.json``.

        ``InvalidOptionError`` where no row has one of them.
        """
        samples = [row.sample for row in self.rows]
        for column in columns:
            sample_slices(samples, column)
        return replace(self, slices=(*self.slices, *columns))

    def true_score(
        self,
        key: str,
        labels: Labels | None = None,
        *,
        known: Agreement | None = None,
        column: str = "label",
        groups: Groups | None = None,
        method: Method = "ppi",
    ) -> TrueScore:
        """The mean that people would have given all rows, from labels of a few and the judge's scores of all.

        ``labels``: a mapping from id to label, one label per row (``None`` where there is none), the name of a column,
        a file or frame with ``id`` and ``column``, or traces with people's feedback; where rows were chosen with
        unequal probabilities, the column ``label_probability`` (``ragmetrics label`` writes it) keeps that unbiased.
        ``groups`` as in ``compare``. ``method``: ``"ppi"``, prediction-powered inference (Angelopoulos, Duchi and Zrnic
        2023, PPI++) made for few labels; ``"rogan-gladen"``, the share of good rows (1978) from binary verdicts, from
        labels or from ``known``, an ``Agreement`` with labels of other data (``calibration.at_default``).
        ``InvalidDataError`` where no row is labelled, ``InvalidOptionError`` for an unknown key.
        """
        results = results_of(self)
        return true_score(results, key, labels, known=known, column=column, groups=groups, method=method)

    def with_true_score(self, key: str, labels: Labels, **options: Any) -> Report:
        """The report with ``<key>/true_mean``, ``/true_low``, ``/true_high`` and ``/n_labelled`` among its metrics.

        So gates can look at them: ``report.with_true_score("faithfulness", labels).check(**{"faithfulness/true_low":
        0.8})``. ``options`` are those of ``true_score``.
        """
        return replace(self, true_scores=(*self.true_scores, self.true_score(key, labels, **options)))

    def with_anytime(self, before: AnytimeState | Mapping[str, Any] | None = None) -> Report:
        """The report with ``<key>/anytime_low`` and ``/anytime_high`` among its metrics, for scores from 0 to 1.

        These intervals stay valid however often one looks and decides (Waudby-Smith and Ramdas 2023), so that nightly
        gates and live runs raise false alarms in 5 % of cases ever, not each time. ``before`` is the ``anytime`` of the
        last look, or its ``to_dict``; rows, or groups, that were counted before are not counted again, which a warning
        says. ``InvalidDataError`` for another ``before``.
        """
        if not isinstance(before, AnytimeState):
            before = AnytimeState() if before is None else AnytimeState.from_dict(before)
        state = before.after(self.rows, self._group_names())
        warnings = self.warnings
        if state.repeated:
            unit = "rows" if self.groups is None else "groups"
            message = f"{state.repeated} {unit} were counted by an earlier look: the anytime intervals leave them out"
            warnings = (*warnings, message)
        return replace(self, anytime=state, warnings=warnings)

    def _group_names(self) -> list[str] | None:
        return None if self.groups is None else sample_groups((row.sample for row in self.rows), self.groups)

    @cached_property
    def data_digest(self) -> str:
        """16 hex digits that depend on the whole content of all samples."""
        return digest(row.sample for row in self.rows)

    @cached_property
    def incomplete(self) -> str | None:
        """Why the figures are not those of a whole evaluation: it was stopped, or no judge answered; else ``None``."""
        return self.stopped or self._failures.silence

    @cached_property
    def _failures(self) -> Failures:
        return Failures(self.rows)

    @property
    def language(self) -> str:
        """In which language the report explains itself."""
        return str(self.description.get("language", "en"))

    @property
    def failures(self) -> list[str]:
        """Why the figures are not those of a whole evaluation, and what failed on how many rows: the banner's head."""
        return failure_lines(self._failures.causes, len(self), self.incomplete, self.language)

    @property
    def banner(self) -> list[str]:
        """What must be read with the figures: why they are not complete, what failed, rows that were not measured."""
        counted = count_lines(self.keys, self.metrics, len(self), self.language)
        return [*self.failures, *counted, *agreement_lines(self.keys, self.metrics)]

    @property
    def judged_by(self) -> list[str]:
        """Who judged, and how far that can be trusted; nothing where no judge was asked."""
        return judge_lines(self._failures.asked, self.description.get("judge", []), self.language)

    @cached_property
    def composites(self) -> list[str]:
        """The keys of the weighted composites."""
        return [key for key in self.keys if any("coverage" in score.details for score in self.scores(key))]

    def __getitem__(self, row: str) -> Row:
        """The row with this id, which a notebook shows with its answer marked; ``InvalidDataError`` for another."""
        if row not in self._places:
            near = get_close_matches(str(row), self._places, n=1)
            raise InvalidDataError(f"there is no row {row!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return self.rows[self._places[row]]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {row.sample.id: place for place, row in enumerate(self.rows)}

    def where(self, *conditions: str) -> pd.DataFrame:
        """The rows of ``table`` for which all conditions hold, such as ``report.where("faithfulness < 0.5")``.

        A condition is a key, a sign (``>=``, ``>``, ``<=``, ``<``) and a number; it does not hold of a row without that
        score.
        ``InvalidOptionError`` for one that cannot be read, and for a key that is not there.
        """
        chosen = self.table
        for each in map(condition_of, conditions):
            key = each.name.removesuffix("_1to5")
            if key not in self.keys or each.name not in chosen:
                there = ", ".join(self.keys) or "none"
                raise InvalidOptionError(f"{each.name!r} is not a metric here; there are {there}", param="condition")
            values = chosen[each.name].to_numpy(dtype=float, na_value=float("nan")).tolist()
            chosen = chosen[[value == value and each.holds(value) for value in values]]
        return chosen

    def worst(self, count: int = 3, key: str | None = None) -> pd.DataFrame:
        """The ``count`` scored rows of ``table`` of lowest value, lowest first: by ``key``, else as ``worst_rows``."""
        return self.table.iloc[[self._places[row.sample.id] for row in self.worst_rows(count, key)]]

    def worst_rows(self, count: int = 3, key: str | None = None) -> list[Row]:
        """The ``count`` scored rows of lowest value: by ``key``, else by the composite, else by each row's lowest."""
        found = [(lowest, row) for row in self.rows if (lowest := self.lowest(row, key)) is not None]
        return [row for _, row in sorted(found, key=lambda each: (each[0][1], fmean(_values(each[1]))))[:count]]

    def lowest(self, row: Row, key: str | None = None) -> tuple[str, float] | None:
        """What ``worst`` goes by in this row: the metric and its value; ``None`` where that is not scored."""
        key = key or self._ranking
        values = {
            name: score.value for name, score in row.scores.items() if name == key or (key is None and score.measured)
        }
        scored = [(value, name) for name, value in values.items() if value is not None]
        return (min(scored)[1], min(scored)[0]) if scored else None

    @property
    def worst_by(self) -> str:
        """What ``worst`` goes by, in words."""
        return self._ranking or ("the lowest of the row's scores" if len(self.keys) > 1 else "".join(self.keys))

    @cached_property
    def _ranking(self) -> str | None:
        return next((key for key in self.composites if any(score.scored for score in self.scores(key))), None)

    def to_html(self, title: str | None = None) -> str:
        """A self-contained page: summary, distributions, a table of rows, and each row's claims and chunks.

        ``title`` stands above it; without one, the name of the file that was evaluated does.
        """
        named = f"RAG evaluation of {Path(self.source).name}" if self.source else "RAG evaluation"
        return report_page(
            self.rows,
            title=title or named,
            description=plain(self.description),
            metrics=self.metrics,
            usage=plain(self.usage),
            warnings=self.warnings,
            banner=[*self.banner, *self.judged_by],
        )

    def __repr__(self) -> str:
        means = (f"{key} {self.metrics[f'{key}/mean']:.3f}" for key in self.keys if f"{key}/mean" in self.metrics)
        return f"<Report of {len(self)} rows: {', '.join(means)}>"

    def _repr_html_(self) -> str:
        banner = [*self.banner, *self.judged_by]
        keys = [*self.composites, *(key for key in self.keys if key not in self.composites)]
        return report_cell(
            keys, self.metrics, self.warnings, len(self), self.worst_rows(), worst_by=self.worst_by, banner=banner
        )

    def check(self, *, min_scored: MinScored | None = None, **fail_under: float) -> None:
        """``GateError`` (an ``AssertionError``) when a mean is under its limit: ``report.check(faithfulness=0.8)``.

        ``min_scored``: the share of all rows that must be measured, not left out, failed or scored by the rule for rows
        without context (default 0.95); a mapping gives it by key, and under ``""`` for the others. Other figures than
        the mean are named in full: ``report.check(**{"faithfulness/pass_rate": 0.9})``.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        checks = check_figures(
            self.metrics, fail_under, min_scored, rows=len(self), incomplete=self.incomplete, ranges=self.ranges
        )
        raise_failures(checks)

    def log(self, *, plots: bool = True, **options: Any) -> str:
        """Write metrics, params, tags, tables, page and plots into the active MLflow run, or a new one; returns its id.

        Further options are those of ``tracking.log_report``: ``run_id``, ``run_name``, ``tags``, ``traces``, ….
        """
        from mlflow_ragmetrics.tracking import log_report
        from mlflow_ragmetrics.tracking.anytime import ANYTIME, ANYTIME_TAG, measurement_id

        drawn = self._plots() if plots else {}
        files = {"ragmetrics_report.html": self.to_html(), **drawn, **(options.pop("files", None) or {})}
        if self.slices:
            tables = [self.by(column).assign(by=column) for column in self.slices]
            records = [record for table in tables for record in table.to_dict("records")]
            files["rag_slices.json"] = as_json(plain(records), indent=2)
        if self.anytime is not None:
            files[ANYTIME] = as_json(self.anytime.to_dict())
            options["tags"] = {**(options.get("tags") or {}), ANYTIME_TAG: measurement_id(self.description)}
        return log_report(self, files=files, **options)

    def _plots(self) -> dict[str, bytes]:
        from mlflow_ragmetrics.views.plots import composite_plot, distribution_plot, png

        figures = {"ragmetrics_scores.png": distribution_plot({key: self.scores(key) for key in self.keys})}
        for key in self.description.get("weights", {}):
            if key in self.keys:
                figures[f"ragmetrics_{key}.png"] = composite_plot(key, self.scores(key))
        return {name: png(figure) for name, figure in figures.items() if figure is not None}


def _values(row: Row) -> list[float]:
    return [score.value for score in row.scores.values() if score.value is not None]
