"""One trace per row with its scores as assessments, as ``mlflow.genai.evaluate`` leaves them, for MLflow's pages."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.rows.traces import TRACES_TAG
from mlflow_ragmetrics.tracking.describe import DIAGNOSIS, Diagnosed
from mlflow_ragmetrics.tracking.feedback import (
    SOURCE_RUN,
    assessment_names,
    diagnosis_feedback,
    feedback_of,
    remove_assessment,
    write_assessment,
)
from mlflow_ragmetrics.tracking.trace_store import (
    TraceTarget,
    can_write_directly,
    write_traces_directly,
    write_traces_publicly,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Assessment, TraceInfo
    from mlflow.exceptions import MlflowException

    from mlflow_ragmetrics.core.score import Score

__all__ = ["RUN_TYPE", "add_scores", "link_traces", "log_feedback", "log_traces", "remove_traces", "scored_keys"]

_TRACES_PER_BATCH = 100
_TRACES_PER_UPLOAD = 20
_UPLOADS = 8
RUN_TYPE = "mlflow.runType"


def log_traces(
    rows: Sequence[Row], run_id: str, model_id: str | None = None, diagnoses: Sequence[Diagnosed] = ()
) -> list[str]:
    """Write one trace per row into the experiment of ``run_id``, link it to the run, and return the traces' ids.

    A trace holds question, answer, retrieved chunks as a retriever span, the scores as feedback (by the names of
    ``assessment_names``), its diagnosis (of ``diagnoses``, one for each row) and the reference as expectation; its
    client request id is the sample's id, by which MLflow pairs the rows of two runs. Traces that an earlier call
    wrote for this run are replaced. A store without assessments gets no traces and a warning.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client = MlflowClient()
    run = client.get_run(run_id)
    experiment_id = run.info.experiment_id
    if RUN_TYPE in run.data.tags:
        remove_traces(client, experiment_id, run_id)
    client.set_tag(run_id, RUN_TYPE, "genai_evaluate")  # before the traces: whatever ends this, they are found again
    found = {row.sample.id: diagnosis for row, diagnosis in zip(rows, diagnoses, strict=False)}
    target = TraceTarget(experiment_id, run_id, assessment_names(rows), found, model_id)
    write = partial(_write_traces, target=target)
    ids: list[str] = []
    try:
        for written in write(rows):
            ids += written
    except (MlflowException, NotImplementedError) as error:
        if ids or _is_down(error):
            raise
        remove_traces(client, experiment_id, run_id)
        client.delete_tag(run_id, RUN_TYPE)
        warnings.warn(f"no traces were written, since this store does not take them: {error}", stacklevel=3)
        return []
    link_traces(ids, run_id)
    return ids


def _is_down(error: MlflowException | NotImplementedError) -> bool:
    """Whether the connection broke or the database could not be reached, which says nothing of what the store takes."""
    unavailable = getattr(error, "error_code", None) == "TEMPORARILY_UNAVAILABLE"
    return unavailable or isinstance(error.__cause__ or error.__context__, OSError)


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


def log_feedback(rows: Sequence[Row], run_id: str, diagnoses: Sequence[Diagnosed] = ()) -> list[str]:
    """Write the scores of ``rows`` onto the traces that they come from, in place of those that this run wrote before.

    They are called by the metrics' keys, those of ``diagnoses``, one for each row, ``diagnosis``. Returns the traces'
    ids. ``InvalidOptionError`` when no row comes from one.
    """
    import mlflow

    traced = {str(row.sample.metadata["trace_id"]): row for row in rows if "trace_id" in row.sample.metadata}
    if not traced:
        message = "feedback=True writes scores back onto traces, and no row comes from one; evaluate search_traces(…)"
        raise InvalidOptionError(message, param="feedback")
    client = mlflow.MlflowClient()
    found = {str(row.sample.metadata.get("trace_id")): each for row, each in zip(rows, diagnoses, strict=False)}
    for trace_id, row in traced.items():
        for earlier in client.get_trace(trace_id).info.assessments:
            if earlier.name in (*row.scores, DIAGNOSIS) and (earlier.metadata or {}).get(SOURCE_RUN) == run_id:
                remove_assessment(trace_id, str(earlier.assessment_id))
        for key, score in row.scores.items():
            _insistently(partial(write_assessment, trace_id, feedback_of(key, score, run_id), f"{run_id} {key}"))
        if trace_id in found:
            feedback = diagnosis_feedback(found[trace_id], run_id)
            _insistently(partial(write_assessment, trace_id, feedback, f"{run_id} {DIAGNOSIS}"))
    link_traces(list(traced), run_id)
    return list(traced)


def scored_keys(info: TraceInfo) -> dict[str, Assessment]:
    """The scores that a trace carries as feedback of this package, by the metrics' keys; the last one of each."""
    return {
        (each.metadata or {}).get("ragmetrics.key", each.name): each
        for each in info.assessments or ()
        if "ragmetrics.status" in (each.metadata or {})
    }


def add_scores(trace_id: str, scores: Mapping[str, Score], run_id: str) -> None:
    """Put scores onto a trace as feedback by their keys: each once, whoever does it and however often."""
    for key, score in scores.items():
        _insistently(partial(write_assessment, trace_id, feedback_of(key, score, run_id), f"watch {key}"))


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


def link_traces(ids: Sequence[str], run_id: str) -> None:
    """Show these traces with the run, where this MLflow can."""
    from mlflow import MlflowClient

    client = MlflowClient()
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
