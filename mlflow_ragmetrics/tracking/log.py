"""Writes a report to an MLflow run: figures, tables, page, suite, dataset and traces; also other findings."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics import __version__
from mlflow_ragmetrics.core.safe_text import as_json, redact
from mlflow_ragmetrics.core.score import DOUBTS
from mlflow_ragmetrics.display.document import to_markdown
from mlflow_ragmetrics.display.page import write_page
from mlflow_ragmetrics.display.text import report_blocks
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.tables import DIAGNOSIS
from mlflow_ragmetrics.rows import digest
from mlflow_ragmetrics.text.messages import counted
from mlflow_ragmetrics.tracking.run import (
    COMPLETE,
    WRITING,
    alone_in,
    new_target,
    run_link,
    status_of,
    target_run,
    unused_name,
)
from mlflow_ragmetrics.tracking.traces import log_feedback, log_traces
from mlflow_ragmetrics.tracking.writer import (
    CLAIMS,
    FIGURES,
    PAGE,
    ROWS,
    STATUS_TAG,
    SUITE,
    Content,
    RunWriter,
    mlflow_name,
    table_json,
    write_errors,
    write_tables,
)

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import DatasetInput


_NOTE_TAG = "mlflow.note.content"
_OWN_NOTE = "| metric | mean |"
_MARKS = {"n_error", "n_no_context", "n_partial", "n_fewer_judges", "few_groups", *DOUBTS.values()}
_DIGITS = 6
_STATES = ("n_scored", "n_skipped", "n_error")


def log_report(
    self: Evaluation,
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
    """Write metrics, params, tags, tables and page into the active MLflow run or a new one; returns its id.

    ``run_id``: another run. ``run_name``: the name of a new run (default: data, version, suite, judge).
    ``model_id``: a logged model to link, with the figures and intervals (default: the active one). ``step``: the
    version, if one run has the history of several; tables, page and traces are those of the last call.
    ``texts=False`` writes only scores, verdicts and ids: no questions, answers, passages, reasons or quotes, and so
    no page and no traces. ``traces``: write one trace per row with its scores, so that MLflow can compare two runs
    row by row. ``feedback=True``: write the scores to the traces that the rows come from instead. ``dataset``: the
    name of the dataset of questions, shared by all versions that answer them; ``False`` logs none. ``files``:
    further artifacts by name. ``omit``: metrics not to log.

    Logging again writes to the same run, ``report.run_id``, and replaces tables, traces and metrics. Another run is
    used if one is named or active, and with ``texts=False``, because the first may have texts.

    If writing fails, a run created here ends FAILED, the tag ``ragmetrics.status`` has the reason, and a
    ``RagMetricsError`` is raised. An incomplete report (``report.incomplete``) is written in full, but a run created
    here ends FAILED. If more than 5 % of the rows failed, the tag is ``partial: …`` and the run ends FINISHED.
    """
    import mlflow
    from mlflow.entities import LoggedModelInput

    report = self if texts else self._without_texts()
    digest_of_questions = questions_digest(self.rows)
    model = model_id or mlflow.get_active_model_id()
    name = dataset if isinstance(dataset, str) else "" if report.source is None else Path(report.source).stem
    described = {"suite": report.description.get("suite"), "judge": report.description.get("judge")}
    described |= {"data": name, "version": _version(model)}
    if run_id is None and not run_name and mlflow.active_run() is None:
        run_id = self.run_id if texts else None
        run_name = _run_name(described, len(report.rows)) if run_id is None else None
    with target_run(run_id, run_name) as target, alone_in(target) as info:
        writer = RunWriter(target)
        writer.tags({"ragmetrics.version": __version__})
        writer.params({**described, **(params or {})})
        datasets = [_dataset(len(report.rows), digest_of_questions, name)] if dataset else []
        writer.inputs(datasets, [] if model is None else [LoggedModelInput(model)])
        large = write_tables(writer, {ROWS: report.table, CLAIMS: report.items})
        pages: dict[str, Content] = {PAGE: partial(write_page, self, run=run_link(info))} if texts else {}
        suite = {
            **report.description,
            "n_rows": len(report.rows),
            "data_digest": digest(row.sample for row in self.rows),
            "questions_digest": digest_of_questions,
            **({} if report.source is None else {"source": Path(report.source).name}),
            "ragmetrics_version": __version__,
            "mlflow_version": mlflow.__version__,
        }
        about_run = {"suite": suite, "warnings": report.warnings, "usage": report.usage, "large_tables": large}
        own_files = {FIGURES: as_json(figures_of(report), indent=2), SUITE: redact(as_json(about_run, indent=2))}
        writer.files({**pages, **(files or {}), **own_files})
        figures = {name: value for name, value in run_metrics_of(report).items() if name not in omit}
        writer.figures(figures, step=step, model_id=model, run_id=target)
        if feedback:
            log_feedback(report.rows, target, report._language)
        elif traces and texts:
            log_traces(report.rows, target, model, report._language)
        is_ours = _OWN_NOTE in writer.present_tags().get(_NOTE_TAG, _OWN_NOTE)
        note = {_NOTE_TAG: redact(to_markdown(report_blocks(report)))} if is_ours else {}
        status = {STATUS_TAG: status_of(report.incomplete, report.partial)}
        writer.tags({**note, **(tags or {}), **status})
    self.__dict__["_run_id"] = target  # a frozen report remembers only this
    return target


def figures_of(report: Evaluation) -> dict[str, float]:
    """All finite figures: the report's own and ``usage/*``."""
    figures = {**report.metrics, **{f"usage/{name}": value for name, value in report.usage.items()}}
    return {name: float(value) for name, value in figures.items() if value is not None and math.isfinite(value)}


def run_metrics_of(report: Evaluation) -> dict[str, float]:
    """The figures that are logged as MLflow metrics, with six decimals, by their names in MLflow; composites first.

    Logged are, for each key, ``mean`` and, with a threshold, ``pass_rate``; ``<composite>_1to5/mean``; retrieval
    figures; ``n_measured`` if not all rows were measured; nonzero counts (``n_error``, ``n_no_context``,
    ``n_non_answers``, ``n_unclaimed``, ``n_fewer_judges``, ``few_groups``, ``diagnosis/*``); and a
    composite's ``n_partial`` and its ``coverage`` if below 1. The artifact ``rag_figures.json`` has all figures.
    """
    figures = figures_of(report)
    logged = [name for name, value in figures.items() if _is_logged(name, value, figures)]
    logged.sort(key=lambda name: f"{name.partition('/')[0].removesuffix('_1to5')}/coverage" not in figures)
    return {mlflow_name(name): round(figures[name], _DIGITS) for name in logged}


def _is_logged(name: str, value: float, figures: Mapping[str, float]) -> bool:
    key, _, figure = name.partition("/")
    base_key = key.removesuffix("_1to5")
    if base_key != key and f"{key}/n_scored" not in figures:
        return f"{base_key}/coverage" in figures
    if figure == "n_measured":
        return value < sum(figures.get(f"{key}/{name}", 0.0) for name in _STATES)
    if figure in _MARKS or key == DIAGNOSIS:
        return value != 0
    return figure in ("", "mean", "pass_rate") or (figure == "coverage" and value < 1)


_FIELDS = ("question", "history", "references", "gold_doc_ids")


def questions_digest(rows: Sequence[Row]) -> str:
    """16 hex digits over questions, history, references and gold ids, independent of the order of rows.

    Answers, contexts and row ids have no effect. Runs with the same questions have datasets with this digest.
    """
    asked = ({name: getattr(row.sample, name) for name in _FIELDS} for row in rows)
    return digest(sorted(digest([fields]) for fields in asked))


def _dataset(n_rows: int, questions: str, name: str) -> DatasetInput:
    """The questions as a run's input; ``name`` is by default their number."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    about = {"source_type": "code", "source": as_json({"tags": {}}), "profile": as_json({"num_rows": n_rows})}
    dataset = Dataset(name or counted(n_rows, "question"), questions, **about)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])


def _version(model: str | None) -> str:
    import mlflow

    with suppress(*write_errors()):  # the run reports an unavailable store
        return "" if model is None else str(mlflow.get_logged_model(model).name)
    return ""


def _run_name(described: Mapping[str, Any], rows: int) -> str:
    """Data, version, suite and judge: ``answers · white_paper · lexical``, ``answers · my-chain · rag · gpt-4o-mini``.

    A suite without a name is left out. Without data and version, the name starts with the number of rows.
    """
    import mlflow
    from mlflow.tracking.fluent import _get_experiment_id

    judges = described["judge"] or ()
    judge = ", ".join(str(name).rpartition("/")[2] for name in ([judges] if isinstance(judges, str) else judges))
    about = [described["data"], described["version"]]
    about = about if any(about) else [counted(rows, "row")]
    suite = described["suite"] if described["suite"] != "custom" else ""
    name = redact(" · ".join(dict.fromkeys(part for part in (*about, suite, judge) if part)))[:240]
    with suppress(*write_errors()):
        return unused_name(mlflow.MlflowClient(), str(_get_experiment_id()), name)
    return name


def log_findings(
    run_id: str | None,
    run_name: str | None,
    *,
    texts: Mapping[str, Content] | None = None,
    tables: Mapping[str, pd.DataFrame] | None = None,
    metrics: Mapping[str, float] | None = None,
    params: Mapping[str, Any] | None = None,
    status: str | None = None,
    own: bool = False,
) -> str:
    """Write a comparison, a calibration or similar to the run ``run_id``, else the active run, else a new run.

    Returns the run's id. With ``own``, a new run is nested in the active run. ``texts`` and ``tables`` are artifacts by
    file name and replace artifacts with the same name. ``status`` sets the run's status. Raises ``RagMetricsError`` if
    writing fails.
    """
    files: dict[str, Content] = {
        **(texts or {}),
        **{name: table_json(table) for name, table in (tables or {}).items()},
    }
    with new_target(run_name) if own and run_id is None else target_run(run_id, run_name) as target:
        writer = RunWriter(target)
        writer.files(files, tables=list(tables or ()))
        writer.params(params or {})
        writer.figures(metrics or {})
        is_new = writer.present_tags().get(STATUS_TAG) == WRITING
        if status is not None or is_new:
            writer.tags({STATUS_TAG: status or (f"{COMPLETE}: no rows" if own else COMPLETE)})
    return target


def safe_name(name: str) -> str:
    """``name`` as part of a file's or metric's name: at most 60 ASCII letters, digits, ``_`` and ``-``."""
    return re.sub(r"[^\w\-]+", "_", name, flags=re.ASCII).strip("_")[:60] or "run"
