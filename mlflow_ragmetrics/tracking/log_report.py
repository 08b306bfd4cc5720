"""Reports, comparisons and calibrations into MLflow runs; metrics come last, so a run with metrics is complete."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.safe_text import as_json, redact
from mlflow_ragmetrics.text.messages import counted
from mlflow_ragmetrics.tracking.describe import (
    Loggable,
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


_NOTE_TAG = "mlflow.note.content"
_OWN_NOTE = "| metric | mean |"


def log_report(
    report: Loggable,
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
    """Write ``report`` into the run ``run_id``, else the active run, else a new one; returns the run's id.

    The digests are those of all samples, and of what is asked of them. ``params`` are further params, ``tables`` and
    ``files`` further artifacts by name, ``note`` Markdown for the run's description (one that a user wrote stays);
    ``page`` writes the page, which names the run and links to it; ``model_id`` links run and metrics to a logged model
    (default: the active one). ``step`` is that of the metrics, so that one run can hold the history of several
    versions. ``traces`` writes one trace per row with its scores as assessments, for the row-by-row comparison of two
    runs; ``feedback`` writes the scores onto the traces that the rows come from instead. ``dataset=False`` logs no
    dataset, a text names it, and ``omit`` names metrics not to log, where somebody else logs them.
    Logging again, also after a failure, replaces tables and traces and sets the metrics anew. Where something cannot be
    written, a run made here ends FAILED, the tag ``ragmetrics.status`` says why, and a ``RagMetricsError`` is raised.
    A report that is not complete (``report.incomplete``) is written whole, but the tag is not ``complete``, and a run
    made here ends FAILED. If more than 5 % of the rows failed, the tag is ``partial: …`` and the run ends FINISHED.
    """
    import mlflow
    from mlflow.entities import LoggedModelInput

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
        for each in datasets if _takes_datasets_of_metrics() else ():
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


def _takes_datasets_of_metrics() -> bool:
    """Not a store of files: there a dataset takes the place of the step, and a space in its name breaks the run."""
    import mlflow
    from mlflow.utils.uri import is_local_uri

    return not is_local_uri(mlflow.get_tracking_uri())  # type: ignore[no-untyped-call]


def _version(model: str | None) -> str:
    import mlflow

    with suppress(*write_errors()):  # where the store is away, the run says so
        return "" if model is None else str(mlflow.get_logged_model(model).name)
    return ""


def _run_name(described: Mapping[str, Any], rows: int) -> str:
    """Data, version, suite and judge: ``answers · white_paper · lexical``, ``answers · my-chain · rag · gpt-4o-mini``.

    A suite without a name is not named. Without data and version, the number of rows is.
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


def _own_files(report: Loggable, suite: Mapping[str, Any], parts: Mapping[str, int]) -> dict[str, Content]:
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
    """Write a comparison, a calibration or the like into the run ``run_id``, else the active run, else a new one.

    With ``own`` it is a new one, nested in the active run. Returns the run's id. ``texts``, ``tables`` and ``plots``
    are artifacts by file name; those of the same name are replaced. ``status`` is that of the run, by default as it
    was. A ``RagMetricsError`` says why something could not be written.
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
    """``name`` as part of a file's or a metric's name: at most 60 letters, digits, ``_`` and ``-`` of ASCII."""
    return re.sub(r"[^\w\-]+", "_", name, flags=re.ASCII).strip("_")[:60] or "run"
