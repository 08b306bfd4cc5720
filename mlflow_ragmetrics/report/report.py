"""The outcome of one evaluation: rows, items, run metrics, and the way into MLflow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.document import cell, to_markdown
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.report.gates import MinScored, check_figures, raise_failures
from mlflow_ragmetrics.report.marks import (
    Diagnosis,
    cause_figures,
    causes_line,
    count_causes,
    count_lines,
    diagnoses_of,
    diagnosis_columns,
    equal_lines,
    failure_lines,
    judge_lines,
)
from mlflow_ragmetrics.report.page import report_page, write_page
from mlflow_ragmetrics.report.sessions import (
    Session,
    keys_of_turns,
    session_figures,
    session_line,
    sessions_frame,
    sessions_of,
    turn_limit,
)
from mlflow_ragmetrics.report.summary import Totals, agreement_lines, panel_figures, slices_frame
from mlflow_ragmetrics.report.text import report_blocks, usage_line
from mlflow_ragmetrics.report.true_score import TrueScore, true_score
from mlflow_ragmetrics.rows import digest
from mlflow_ragmetrics.rows.labels import Labels
from mlflow_ragmetrics.rows.results import results_of
from mlflow_ragmetrics.rows.row_groups import SESSION_FIELDS, Groups, sample_groups, sample_slices, session_field
from mlflow_ragmetrics.rows.tables import has_diagnoses, items_frame, row_without_texts, rows_frame
from mlflow_ragmetrics.text.messages import counted, render
from mlflow_ragmetrics.tracking.describe import questions_digest

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Report:
    """Scores of every row, with what explains them.

    ``description`` says how it was made (suite, judges, weights, …), ``usage`` what it cost (calls, tokens, seconds),
    ``warnings`` what was left out, ``source`` the file the rows came from, ``figures`` what was found beyond the rows'
    scores, such as repeatability. ``stopped`` says why it ended before every row was scored, where it did. ``ranges``
    are the lowest and the highest value of each key, where they are known. ``totals``: what the figures follow from; of
    all rows that were scored, where ``rows`` are only the worst of these.
    """

    rows: Sequence[Row]
    description: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    usage: Mapping[str, float] = field(default_factory=dict)
    source: Union[str, Path, None] = None
    figures: Mapping[str, float] = field(default_factory=dict)
    stopped: Union[str, None] = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict, repr=False, compare=False)
    totals: Totals = field(default_factory=Totals, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.totals.kept_all and self.totals.rows != len(self.rows):
            object.__setattr__(self, "totals", Totals(self.rows))

    def __len__(self) -> int:
        return self.totals.rows

    def __getitem__(self, key: str) -> dict[str, float]:
        """The figures of one metric, such as ``report["faithfulness"]["mean"]``; ``InvalidOptionError`` for others."""
        if key not in self.keys:
            raise InvalidOptionError(f"{key!r} is not a metric here; there are {', '.join(self.keys)}", param="key")
        start = f"{key}/"
        return {name.removeprefix(start): value for name, value in self.metrics.items() if name.startswith(start)}

    @property
    def keys(self) -> list[str]:
        """The keys of the scores, in the suite's order."""
        return self.totals.keys

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per sample: id, question, answer, the scores (composites first), their reasons, then all else.

        ``diagnosis`` and ``diagnosis_reason`` say which part failed, where the suite has the metrics that tell.
        """
        return rows_frame(self.rows, diagnosis_columns(self.diagnoses) if self.diagnoses else None)

    @cached_property
    def items(self) -> pd.DataFrame:
        """One row per claim, token, sentence, chunk or document: verdict, reason, support and evidence."""
        return items_frame(self.rows)

    @cached_property
    def diagnoses(self) -> list[Diagnosis]:
        """Which part failed, row by row; empty where the suite lacks the metrics that tell."""
        return diagnoses_of([row.scores for row in self.rows], self._language) if has_diagnoses(self.keys) else []

    @property
    def _causes(self) -> dict[str, int]:
        return count_causes(each.cause for each in self.diagnoses) if self.diagnoses else {}

    @cached_property
    def metrics(self) -> dict[str, float]:
        """All figures of the evaluation: ``<key>/mean``, ``/ci_low``, ``/n_scored``, …, and those of retrieval."""
        scores = [row.scores for row in self.rows]
        figures = (
            self.totals.figures(self._group_names(), self.ranges) | panel_figures(scores) | cause_figures(self._causes)
        )
        for key, sessions in self._sessions.items():
            figures |= {f"{key}/{name}": value for name, value in session_figures(sessions).items()}
        return {**figures, **self.figures}

    def _group_names(self) -> list[str] | None:
        groups = self.description.get("groups")
        return None if groups is None else sample_groups((row.sample for row in self.rows), groups)

    def by(self, column: str) -> pd.DataFrame:
        """The figures of each slice, such as ``report.by("topic")``: one row per value of ``column`` and metric.

        ``column`` is a field or a metadata field; rows without a value are no slice. ``slice``, ``metric``, ``rows``
        (scored ones), ``mean``, ``ci_low``, ``ci_high``; ``p_holm`` tells whether the slice differs from all other rows
        (Welch's test, over groups where the report has them), adjusted by Holm over slices and metrics; ``mark`` is
        ``few rows`` or ``few groups`` below ten (effective) ones, and how many were measured where that are not all.
        ``InvalidOptionError`` where no row has the column.
        """
        samples = [row.sample for row in self.rows]
        return slices_frame(self.rows, self.totals, sample_slices(samples, column), self._group_names(), self.ranges)

    def sessions(self, key: str, threshold: float | None = None, *, by: str | None = None) -> pd.DataFrame:
        """The conversations by the metric ``key``: which have no failing turn, and where the first one failed.

        A turn fails below ``threshold`` (default: the metric's own, else 1; above it, else above 0, where lower is
        better). Rows of one conversation share ``by``, a field or a metadata field (default: the report's groups, else
        the session of traces, ``session_id``, ``conversation_id`` or ``thread_id``); rows without a value belong to
        none. Turns are in the order of their traces' times, else of their histories' lengths, else of the rows.

        ``session``, ``turns``, ``measured`` (how many turns were), ``mean`` and ``worst`` of these, ``worst_id``;
        ``outcome``: ``failed``, ``passed``, or ``not measured`` where no turn is known to fail and some, or all, were
        not measured (one that claims nothing fails nothing); ``first_failure`` (from 1) and ``first_failure_id``.
        ``InvalidOptionError`` for an unknown key, and where nothing says which rows belong together.
        """
        if key not in self.keys:
            raise InvalidOptionError(f"{key!r} is not a metric here; there are {', '.join(self.keys)}", param="key")
        column = by or self._session_column
        if column is None:
            names = ", ".join(SESSION_FIELDS)
            raise InvalidOptionError(f"by: no two rows share {names}; name the column of the conversation", param="by")
        return sessions_frame(self._sessions_of(key, column, threshold))

    @cached_property
    def _session_column(self) -> str | None:
        return self.description.get("groups") or session_field([row.sample for row in self.rows])

    def _sessions_of(self, key: str, column: str, threshold: float | None = None) -> list[Session]:
        names = sample_slices([row.sample for row in self.rows], column)
        return sessions_of(self.rows, names, key, turn_limit(self.rows, key, threshold))

    @cached_property
    def _sessions(self) -> dict[str, list[Session]]:
        """The conversations by each metric that has a threshold, and by faithfulness, where rows belong to some."""
        column = self._session_column if len(self.rows) == len(self) else None
        return {} if column is None else {key: self._sessions_of(key, column) for key in keys_of_turns(self.rows)}

    def true_score(
        self,
        key: str,
        labels: Labels,
        *,
        column: str = "label",
        groups: Groups | None = None,
    ) -> TrueScore:
        """The mean that people would have given all rows, from labels of a few and the judge's scores of all.

        ``labels``: a mapping from id to label, one label per row (``None`` where there is none), the name of a column,
        a file or frame with ``id`` and ``column``, or traces with people's feedback. The labelled rows must have been
        chosen at random (``ragmetrics label`` does). ``groups`` as in ``compare``. The method is prediction-powered
        inference (Angelopoulos, Duchi and Zrnic 2023, PPI++). ``InvalidDataError`` where no row is labelled,
        ``InvalidOptionError`` for an unknown key.
        """
        return true_score(results_of(self), key, labels, column=column, groups=groups)

    @cached_property
    def incomplete(self) -> str | None:
        """Why the figures are not those of a whole evaluation: it was stopped, or no judge answered; else ``None``."""
        return self.stopped or self.totals.failures.silence

    @property
    def partial(self) -> str | None:
        """How many rows failed, if they exceed 5 % of the rows; else ``None``."""
        return self.totals.partial

    @property
    def _language(self) -> str:
        return str(self.description.get("language", "en"))

    @property
    def banner(self) -> list[str]:
        """What must be read with the figures: why they are not complete, what failed, rows that were not measured."""
        failed = failure_lines(self.totals.failures.causes, len(self), self.incomplete, self._language)
        counts = count_lines(self.keys, self.metrics, len(self), self._language)
        equal = equal_lines(self.totals.equal, self._language)
        return [*failed, *counts, *equal, *agreement_lines(self.keys, self.metrics)]

    @property
    def notes(self) -> list[str]:
        """Which column each field was read from, how many rows have each diagnosis, how many conversations no fault."""
        lines = [session_line(key, self.metrics, str(self._session_column)) for key in self._sessions]
        lines = [causes_line(self._causes), *lines] if any(self._causes.values()) else lines
        read = [self.description["read"]] if "read" in self.description else []
        return [*read, *(render(line, self._language) for line in lines if line is not None)]

    @property
    def judged_by(self) -> list[str]:
        """Who judged, and how far that can be trusted; nothing where no judge was asked."""
        failures = self.totals.failures
        return judge_lines(
            failures.asked and failures.silence is None, self.description.get("judge", []), self._language
        )

    def worst_rows(self, count: int = 3, key: str | None = None) -> list[Row]:
        """The ``count`` worst rows: by ``key``, else by the composite, else by the worst of each row's scores.

        Worst is lowest, or highest where lower is better; what is neither ranks no row, unless it is ``key``.
        """
        ranking = self.totals.ranking if key is None else replace(self.totals.ranking, key=key)
        return [self.rows[place] for place in ranking.worst(self.rows, count)]

    def check(
        self,
        *,
        min_scored: MinScored | None = None,
        fail_over: Mapping[str, float] | None = None,
        **fail_under: float,
    ) -> None:
        """``GateError`` (an ``AssertionError``) when a mean is under its limit: ``report.check(faithfulness=0.8)``.

        ``fail_over``: limits that the means of metrics must not exceed that are better the lower, such as
        ``{"hallucination_rate": 0.1}``.
        ``min_scored``: the share of all rows that must be measured, not left out, failed or scored by the rule for rows
        without context (default 0.95); a mapping gives it by key, and under ``""`` for the others. Other figures than
        the mean are named in full: ``report.check(**{"faithfulness/pass_rate": 0.9})``.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        checks = check_figures(
            self.metrics,
            fail_under,
            min_scored,
            fail_over=fail_over,
            better=self.totals.ranking.better,
            rows=len(self),
            incomplete=self.incomplete,
            ranges=self.ranges,
        )
        raise_failures(checks)

    def __repr__(self) -> str:
        figures = self.metrics
        means = (f"{key} {figures[f'{key}/mean']:.3f}" for key in self.keys if f"{key}/mean" in figures)
        return f"<Report of {counted(len(self), 'row')}: {', '.join(means)}>"

    def _repr_html_(self) -> str:
        return cell([*report_blocks(self), usage_line(self)])

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """A self-contained page: summary, distributions, a table of rows, and each row's claims and passages.

        With ``path`` the page is written to that file as well.

        Of more than 20,000 rows it shows the 10,000 worst and as many others, and says so. ``title`` stands above it;
        without one, the name of the file that was evaluated does.
        """
        page = "".join(report_page(self, title))
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def log(
        self,
        *,
        run_id: str | None = None,
        run_name: str | None = None,
        tags: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        model_id: str | None = None,
        step: int = 0,
        texts: bool = True,
        traces: bool = True,
        feedback: bool = False,
        dataset: Union[bool, str] = True,
        omit: Collection[str] = (),
        files: Mapping[str, Union[str, bytes]] | None = None,
    ) -> str:
        """Write metrics, params, tags, tables and page into the active MLflow run, or a new one; returns its id.

        ``run_id`` names another run, ``run_name`` a new one (else data, version, suite, judge); ``model_id`` links a
        logged model (default: the active one), with the figures and their intervals. ``step``: where one run holds the
        history of several versions, which of them this is; tables, page and traces are those logged last.
        ``texts=False`` writes scores, verdicts and ids, and nothing of what is asked, answered, retrieved or said about
        it: no page, no traces, no reasons, no quotes. ``traces`` writes one trace per row with its scores, by which
        MLflow compares two runs row by row; ``feedback=True`` writes the scores onto the traces that the rows come from
        instead. ``dataset`` names the dataset of the questions, which all versions share that answer the same ones;
        ``False`` logs none. ``files`` are further artifacts by name, ``omit`` names of metrics not to log.
        ``RagMetricsError`` where something cannot be written.
        """
        import pandas as pd

        from mlflow_ragmetrics.tracking import log_report

        report = self if texts else self._without_texts()
        sessions = [self.sessions(key).assign(metric=key) for key in self._sessions] if texts else []
        return log_report(
            report,
            data_digest=digest(row.sample for row in self.rows),
            questions_digest=questions_digest(self.rows),
            run_id=run_id,
            run_name=run_name,
            tags=tags,
            params=params,
            model_id=model_id,
            step=step,
            traces=traces and texts,
            feedback=feedback,
            dataset=dataset,
            omit=omit,
            note=to_markdown(report_blocks(report)),
            tables={"rag_sessions.json": pd.concat(sessions)} if sessions else {},
            files=files,
            page=partial(write_page, self) if texts else None,
        )

    def _without_texts(self) -> Report:
        """The same figures, scores, verdicts and ids, and nothing of what is asked, answered, retrieved or reasoned."""
        rows = [row_without_texts(row) for row in self.rows]
        kept = replace(self, rows=rows, warnings=(), stopped=None, totals=Totals(rows))
        if self.warnings:
            kept = replace(kept, warnings=(f"{len(self.warnings)} warnings are left out, as they may quote texts",))
        incomplete = self.incomplete and "see what the program said that wrote this run"
        diagnoses = [replace(each, reason="") for each in self.diagnoses]
        vars(kept).update(metrics=self.metrics, incomplete=incomplete, diagnoses=diagnoses, _sessions=self._sessions)
        return kept
