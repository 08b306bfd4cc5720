"""Writes reports, comparisons and calibrations to MLflow runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.safe_text import as_json, redact
from mlflow_ragmetrics.text.messages import counted
from mlflow_ragmetrics.tracking.describe import (
    dataset_input,
    description_of,
    figures_of,
    package_version,
    run_metrics_of,
)
from mlflow_ragmetrics.tracking.home import unused_name
from mlflow_ragmetrics.tracking.run import COMPLETE, WRITING, alone_in, new_target, run_link, status_of, target_run
from mlflow_ragmetrics.tracking.traces import log_feedback, log_traces
from mlflow_ragmetrics.tracking.writer import (
    CLAIMS,
    FIGURES,
    PAGE,
    ROWS,
    STATUS_TAG,
    SUITE,
    WRITER_TAG,
    Content,
    RunWriter,
    table_json,
    this_process,
    write_errors,
    write_tables,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from mlflow_ragmetrics.report.report import Report


_NOTE_TAG = "mlflow.note.content"
_OWN_NOTE = "| metric | mean |"


def log_report(
    report: Report,
    *,
    data_digest: str,
    questions_digest: str,
    run_id: str | None = None,
    run_name: str | None = None,
    tags: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    model_id: str | None = None,
    step: int = 0,
    traces: bool = True,
    feedback: bool = False,
    dataset: Union[bool, str] = True,
    omit: Collection[str] = (),
    note: str = "",
    tables: Mapping[str, pd.DataFrame] | None = None,
    files: Mapping[str, Content] | None = None,
    page: Callable[[Path, Mapping[str, str]], object] | None = None,
) -> str:
    """Write ``report`` to the run ``run_id``, else the active run, else a new run; returns the run's id.

    Logging again, also after a failure, replaces tables, traces and metrics.

    Args:
        report: the report to write.
        data_digest: the digest of all samples.
        questions_digest: the digest of the questions and their references.
        run_id: the run to write to.
        run_name: the name of a new run.
        tags: more tags.
        params: more params.
        model_id: the logged model to link to run and metrics; by default the active one.
        step: the step of the metrics, so that one run can hold several versions.
        traces: write one trace per row with its scores as assessments, to compare runs row by row.
        feedback: write the scores to the traces that the rows come from instead.
        dataset: ``False`` logs no dataset; a text is its name.
        omit: metrics not to log, because the caller logs them.
        note: Markdown for the run's description; a description by a user is kept.
        tables: more tables by file name.
        files: more artifacts by file name.
        page: a function that writes the report's page, with a link to the run.

    If writing fails, a run created here ends FAILED, the tag ``ragmetrics.status`` has the reason, and a
    ``RagMetricsError`` is raised. An incomplete report (``report.incomplete``) is written in full, but a run created
    here ends FAILED. If more than 5 % of the rows failed, the tag is ``partial: …`` and the run ends FINISHED.
    """
    import mlflow
    from mlflow.entities import LoggedModelInput
    from mlflow.utils.uri import is_local_uri

    model = model_id or mlflow.get_active_model_id()
    name = dataset if isinstance(dataset, str) else "" if report.source is None else Path(report.source).stem
    described = {"suite": report.description.get("suite"), "judge": report.description.get("judge")}
    described |= {"data": name, "version": _version(model)}
    is_new = run_id is None and not run_name and mlflow.active_run() is None
    run_name = _run_name(described, len(report.rows)) if is_new else run_name
    with target_run(run_id, run_name) as target, alone_in(target) as info:
        writer = RunWriter(target)
        writer.tags({"ragmetrics.version": package_version(), STATUS_TAG: WRITING, WRITER_TAG: this_process()})
        about_rows = description_of(report, data_digest, questions_digest)
        writer.params({**described, **(params or {})})
        datasets = [dataset_input(report.rows, questions_digest, info.experiment_id, name)] if dataset else []
        writer.inputs(datasets, [] if model is None else [LoggedModelInput(model)])
        parts = write_tables(writer, {ROWS: report.table, CLAIMS: report.items, **(tables or {})})
        pages: dict[str, Content] = {} if page is None else {PAGE: lambda path: page(path, run_link(info))}
        writer.files({**pages, **(files or {}), **_own_files(report, about_rows, parts)})
        about: dict[str, Any] = {"model_id": model, "run_id": target}
        is_file_store = is_local_uri(mlflow.get_tracking_uri())  # type: ignore[no-untyped-call]
        for each in () if is_file_store else datasets:  # in a file store, a metric's dataset overwrites its step
            about |= {"dataset_name": each.dataset.name, "dataset_digest": each.dataset.digest}
        figures = {name: value for name, value in run_metrics_of(report).items() if name not in omit}
        writer.figures(figures, step=step, **about)
        if feedback:
            log_feedback(report.rows, target, report.diagnoses)
        elif traces:
            log_traces(report.rows, target, model, report.diagnoses)
        is_ours = _OWN_NOTE in writer.present_tags().get(_NOTE_TAG, _OWN_NOTE)
        said = {_NOTE_TAG: redact(note)} if note and is_ours else {}
        writer.tags({**said, **(tags or {}), STATUS_TAG: status_of(report.incomplete, report.partial)})
    return target


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
    judge = ", ".join(str(each).rpartition("/")[2] for each in ([judges] if isinstance(judges, str) else judges))
    about = [described["data"], described["version"]]
    about = about if any(about) else [counted(rows, "row")]
    suite = described["suite"] if described["suite"] != "custom" else ""
    name = redact(" · ".join(dict.fromkeys(each for each in (*about, suite, judge) if each)))[:240]
    with suppress(*write_errors()):
        return unused_name(mlflow.MlflowClient(), str(_get_experiment_id()), name)
    return name


def _own_files(report: Report, suite: Mapping[str, Any], parts: Mapping[str, int]) -> dict[str, Content]:
    about = {"suite": suite, "warnings": report.warnings, "usage": report.usage, "parts": parts}
    return {FIGURES: as_json(figures_of(report), indent=2), SUITE: redact(as_json(about, indent=2))}


def log_findings(
    run_id: str | None,
    run_name: str | None,
    *,
    texts: Mapping[str, Content] | None = None,
    tables: Mapping[str, pd.DataFrame] | None = None,
    plots: Mapping[str, Figure | None] | None = None,
    metrics: Mapping[str, float] | None = None,
    params: Mapping[str, Any] | None = None,
    status: str | None = None,
    own: bool = False,
) -> str:
    """Write a comparison, a calibration or similar to the run ``run_id``, else the active run, else a new run.

    Returns the run's id. With ``own``, a new run is nested in the active run. ``texts``, ``tables`` and ``plots`` are
    artifacts by file name and replace artifacts with the same name. ``status`` sets the run's status. Raises
    ``RagMetricsError`` if writing fails.
    """
    files: dict[str, Content] = {
        **(texts or {}),
        **{name: table_json(table) for name, table in (tables or {}).items()},
        **{name: figure.savefig for name, figure in (plots or {}).items() if figure is not None},
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
