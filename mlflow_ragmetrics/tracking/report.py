"""A report into an MLflow run: params, dataset, tables, then metrics, so that what has metrics is complete."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.tracking.describe import (
    Loggable,
    dataset_input,
    description_of,
    figures_of,
    package_version,
    run_metrics_of,
)
from mlflow_ragmetrics.tracking.feedback import (
    SOURCE_RUN,
    assessment_names,
    feedback_of,
    remove_assessment,
    repeated_keys,
    write_assessment,
)
from mlflow_ragmetrics.tracking.run import WRITING, status_of, target_run
from mlflow_ragmetrics.tracking.tables import write_tables
from mlflow_ragmetrics.tracking.trace_store import (
    TRACES_TAG,
    TraceTarget,
    can_write_directly,
    write_traces_directly,
    write_traces_publicly,
)
from mlflow_ragmetrics.tracking.writer import (
    CLAIMS,
    FIGURES,
    ROWS,
    STATUS_TAG,
    SUITE,
    WRITER_TAG,
    Content,
    RunWriter,
    this_process,
    write_errors,
)
from mlflow_ragmetrics.views.text import SUMMARY_HEAD

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["log_feedback", "log_report", "log_traces", "remove_traces"]

_TRACES_PER_BATCH = 100
_TRACES_PER_UPLOAD = 20
_UPLOADS = 8
_RUN_TYPE = "mlflow.runType"


def log_traces(rows: Sequence[Row], run_id: str, model_id: str | None = None) -> list[str]:
    """Write one trace per row into the experiment of ``run_id``, link it to the run, and return the traces' ids.

    A trace holds question, answer, retrieved chunks as a retriever span, the scores as feedback (by the names of
    ``assessment_names``) and the reference as expectation; its client request id is the sample's id, by which MLflow
    pairs the rows of two runs. Traces that an earlier call wrote for this run are replaced. A store without assessments
    gets no traces and a warning.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client = MlflowClient()
    run = client.get_run(run_id)
    experiment_id = run.info.experiment_id
    if _RUN_TYPE in run.data.tags:
        remove_traces(client, experiment_id, run_id)
    client.set_tag(run_id, _RUN_TYPE, "genai_evaluate")  # before the traces: whatever ends this, they are found again
    write = partial(_write_traces, target=TraceTarget(experiment_id, run_id, assessment_names(rows), model_id))
    ids: list[str] = []
    try:
        for written in write(rows):
            ids += written
    except (MlflowException, NotImplementedError) as error:
        if ids:
            raise
        remove_traces(client, experiment_id, run_id)
        client.delete_tag(run_id, _RUN_TYPE)
        warnings.warn(f"no traces were written, since this store does not take them: {error}", stacklevel=3)
        return []
    _link(client, ids, run_id)
    return ids


def _write_traces(rows: Sequence[Row], target: TraceTarget) -> Iterator[list[str]]:
    """The ids of the traces written for ``rows``, batch by batch; a server gets several at a time.

    Each trace has its id before it is sent, so that one sent twice is stored once.
    """
    import mlflow

    if not can_write_directly():
        yield from (write_traces_publicly(batch, target) for batch in _batches(rows))
    elif not mlflow.get_tracking_uri().startswith("http"):  # a database takes one writer at a time
        yield from (write_traces_directly(batch, target) for batch in _batches(rows))
    else:
        pool = ThreadPoolExecutor(_UPLOADS, "ragmetrics-upload")
        try:
            yield from pool.map(partial(write_traces_directly, target=target), _batches(rows, _TRACES_PER_UPLOAD))
        finally:
            pool.shutdown(cancel_futures=True)


def log_feedback(rows: Sequence[Row], run_id: str) -> list[str]:
    """Write the scores of ``rows`` onto the traces that they come from, in place of those that this run wrote before.

    They are called by the metrics' keys. Returns the traces' ids. ``InvalidOptionError`` when no row comes from one.
    """
    import mlflow

    traced = {str(row.sample.metadata["trace_id"]): row for row in rows if "trace_id" in row.sample.metadata}
    if not traced:
        message = "feedback=True writes scores back onto traces, and no row comes from one; evaluate search_traces(…)"
        raise InvalidOptionError(message, param="feedback")
    client = mlflow.MlflowClient()
    for trace_id, row in traced.items():
        for earlier in client.get_trace(trace_id).info.assessments:
            if earlier.name in row.scores and (earlier.metadata or {}).get(SOURCE_RUN) == run_id:
                remove_assessment(trace_id, str(earlier.assessment_id))
        for key, score in row.scores.items():
            _insistently(partial(write_assessment, trace_id, feedback_of(key, score, run_id), f"{run_id} {key}"))
    _link(client, list(traced), run_id)
    return list(traced)


def _insistently(action: Callable[[], None]) -> None:
    """Try again for some seconds where the store fails, as MLflow itself does with other requests."""
    from mlflow.exceptions import MlflowException

    for pause in (0.1, 0.3, 1, 3, 9, None):
        try:
            action()
        except MlflowException as error:
            status: int = error.get_http_status_code()  # type: ignore[no-untyped-call]
            if pause is None or status not in (408, 429, 500, 502, 503, 504):
                raise
            time.sleep(pause)
        else:
            return


def _link(client: MlflowClient, ids: Sequence[str], run_id: str) -> None:
    if hasattr(client, "link_traces_to_run"):
        for batch in _batches(ids):
            client.link_traces_to_run(trace_ids=batch, run_id=run_id)


def remove_traces(client: MlflowClient, experiment_id: str, run_id: str) -> None:
    """Remove the traces that were written for a run."""
    import mlflow

    mine = f"tags.`{TRACES_TAG}` = '{run_id}'"
    found = mlflow.search_traces([experiment_id], mine, return_type="list", include_spans=False)
    for batch in _batches([trace.info.trace_id for trace in found]):
        client.delete_traces(experiment_id, trace_ids=batch)


def _batches(entries: Sequence[Any], size: int = _TRACES_PER_BATCH) -> Iterator[list[Any]]:
    source = iter(entries)
    while batch := list(islice(source, size)):
        yield batch


_NOTE_TAG = "mlflow.note.content"


def log_report(
    report: Loggable,
    *,
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
    files: Mapping[str, Content] | None = None,
) -> str:
    """Write ``report`` into the run ``run_id``, else the active run, else a new one; returns the run's id.

    ``params`` are further params, ``files`` further artifacts by name, ``note`` Markdown for the run's description
    (one that a user wrote stays); ``model_id`` links run and metrics to a logged model (default: the active one).
    ``step`` is that of the metrics, so that one run can hold the history of several versions. ``traces`` writes one
    trace per row with its scores as assessments, for the row-by-row comparison of two runs; ``feedback`` writes the
    scores onto the traces that the rows come from instead. ``dataset=False`` logs no dataset, a text names it, and
    ``omit`` names metrics not to log, where somebody else logs them.
    Logging again, also after a failure, replaces tables and traces and sets the metrics anew. Where something cannot be
    written, a run made here ends FAILED, the tag ``ragmetrics.status`` says why, and a ``RagMetricsError`` is raised.
    A report that is not complete (``report.incomplete``) is written whole, but the tag is not ``complete``, and a run
    made here ends FAILED.
    """
    import mlflow
    from mlflow.entities import LoggedModelInput

    model = model_id or mlflow.get_active_model_id()
    with target_run(run_id, run_name or _run_name(report, model)) as target:
        writer = RunWriter(target)
        experiment_id = mlflow.get_run(target).info.experiment_id
        writer.tags({STATUS_TAG: WRITING, WRITER_TAG: this_process(), "ragmetrics.version": package_version()})
        writer.params({**description_of(report), **(params or {})})
        name = dataset if isinstance(dataset, str) else None
        datasets = [dataset_input(report.rows, report.questions_digest, experiment_id, name)] if dataset else []
        writer.inputs(datasets, [] if model is None else [LoggedModelInput(model)])
        parts = write_tables(writer, {ROWS: report.table, CLAIMS: report.items})
        writer.files({**(files or {}), **_own_files(report, parts)})
        about: dict[str, Any] = {"model_id": model, "run_id": target}
        for each in datasets:
            about |= {"dataset_name": each.dataset.name, "dataset_digest": each.dataset.digest}
        figures = {name: value for name, value in run_metrics_of(report).items() if name not in omit}
        writer.figures(figures, step=step, **about)
        if feedback:
            log_feedback(report.rows, target)
        elif traces:
            log_traces(report.rows, target, model)
        if note and SUMMARY_HEAD in writer.present_tags().get(_NOTE_TAG, SUMMARY_HEAD):  # nobody else's
            named = _names_on_traces(report) if traces and not feedback else ""
            writer.tags({_NOTE_TAG: redact(f"{note}{named}")})
        writer.tags({**(tags or {}), STATUS_TAG: status_of(report.incomplete)})
    return target


def _run_name(report: Loggable, model: str | None) -> str:
    """Data and version in a few words: ``answers · lexical``, ``answers · my-chain · gpt-4o-mini``."""
    import mlflow

    about = report.description
    data = Path(report.source).stem if report.source is not None else str(about.get("suite", ""))
    version = ""
    with suppress(*write_errors()):  # where the store is away, the run says so
        version = "" if model is None else str(mlflow.get_logged_model(model).name)
    judges = about.get("judge", [])
    judge = ", ".join(str(each).rpartition("/")[2] for each in ([judges] if isinstance(judges, str) else judges))
    return redact(" · ".join(each for each in (data, version, judge) if each))[:250]


def _names_on_traces(report: Loggable) -> str:
    """What scores are called on the traces, where that is not their key."""
    other = [f"`{name}`" for key, name in assessment_names(report.rows).items() if name != key]
    same = [f"`{key}` is that of `{first}` in every row" for key, first in repeated_keys(report.rows).items()]
    parts = [f"On the traces: {', '.join(other)}, so that they stand first."] if other else []
    parts += [f"Not shown twice: {'; '.join(same)}."] if same else []
    return "\n\n" + " ".join(parts) if parts else ""


def _own_files(report: Loggable, parts: Mapping[str, int]) -> dict[str, Content]:
    about = {"suite": description_of(report), "warnings": report.warnings, "usage": report.usage, "parts": parts}
    return {FIGURES: as_json(figures_of(report), indent=2), SUITE: redact(as_json(about, indent=2))}
