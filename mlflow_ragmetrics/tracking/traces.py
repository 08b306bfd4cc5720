"""Converts scores to MLflow feedback, and writes one trace per row with it, like ``mlflow.genai.evaluate``.

Traces are written whole by ``TracingClient``, which is not public API: MLflow's public functions take eight times as
long.
"""

from __future__ import annotations

import base64
import hashlib
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tenacity import retry, retry_if_exception, stop_after_attempt, wait_exponential

from mlflow_ragmetrics.core.safe_text import as_json, plain, plain_text
from mlflow_ragmetrics.core.score import Sample, Score, passes
from mlflow_ragmetrics.display.document import escaped
from mlflow_ragmetrics.display.marked import rationale
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.results.marks import Diagnosis, diagnose
from mlflow_ragmetrics.results.tables import DIAGNOSIS, metadata_of
from mlflow_ragmetrics.rows.trace_records import SESSION, TRACE_TIMES, TRACES_TAG
from mlflow_ragmetrics.tracking.writer import ABSENT, explained, few_attempts, mlflow_name, unless_absent

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Assessment, Feedback, Span, Trace
    from mlflow.exceptions import MlflowException

SOURCE_RUN = "mlflow.assessment.sourceRunId"
_DIGITS = 4


def feedback_of(key: str, score: Score, run_id: str | None = None, *, required: bool = False) -> Feedback:
    """``score`` as feedback of ``run_id``, with the reason as Markdown and the claims as JSON in the metadata.

    The name is ``mlflow_name(key)``. The value is the ``label`` in the score's details, else the raw value rounded to
    four decimals, unless this would change whether it passes; the metadata have the unrounded value. An unmeasured
    score has the value ``None``, because MLflow averages all values, and the rationale ``"not measured: …"`` with the
    cause; with ``required`` it also has the error ``NOT_MEASURED``. A failed score has its error. The value is never
    NaN: one NaN would make all traces of an experiment unreadable.
    """
    from mlflow.entities import AssessmentError, AssessmentSource, Feedback

    why, error = rationale(score), None
    if score.status == "error":
        code, _, message = plain_text(score.error or f"Error: {score.reason}").partition(": ")
        error = AssessmentError(error_code=code, error_message=message or code)
    elif not score.measured:
        cause = plain_text(f"not measured: {score.cause}")
        why = cause if cause.endswith(score.reason) else f"{escaped(cause)}. {why}"
        if required:
            error = AssessmentError(error_code="NOT_MEASURED", error_message=cause)
    return Feedback(
        name=mlflow_name(key),
        value=score.details.get("label", _rounded(score)),
        error=error,
        rationale=why or None,
        source=AssessmentSource(
            source_type="CODE" if score.judge in (None, LexicalJudge.name) else "LLM_JUDGE",
            source_id=score.judge or key,
        ),
        metadata=metadata_of(key, score) | ({} if run_id is None else {SOURCE_RUN: run_id}),
    )


def _rounded(score: Score) -> float | None:
    """The measured value with four decimals, or unrounded if rounding would move it across the threshold."""
    whole, limit, better = score.measurement, score.threshold, score.higher_is_better
    if whole is None:
        return None
    rounded = round(whole, _DIGITS)
    same = limit is None or passes(rounded, limit, better) is passes(whole, limit, better)
    return rounded if same else whole


def diagnosis_feedback(diagnosis: Diagnosis, run_id: str | None = None) -> Feedback:
    """The diagnosis as feedback of ``run_id``. Its value is the failed part, so that MLflow can filter by it."""
    from mlflow.entities import AssessmentSource, Feedback

    return Feedback(
        name=DIAGNOSIS,
        value=diagnosis.cause,
        rationale=escaped(diagnosis.reason) or None,
        source=AssessmentSource(source_type="CODE", source_id=DIAGNOSIS),
        metadata={} if run_id is None else {SOURCE_RUN: run_id},
    )


def feedback_on(scores: Mapping[str, Score], run_id: str, language: str) -> list[Feedback]:
    """The scores and their diagnosis as feedback of ``run_id``; composites first."""
    ordered = sorted(scores.items(), key=lambda entry: "coverage" not in entry[1].details)
    diagnosis = diagnose(scores, language)
    feedback = [feedback_of(key, score, run_id) for key, score in ordered]
    return feedback if diagnosis is None else [*feedback, diagnosis_feedback(diagnosis, run_id)]


def write_assessment(trace_id: str, assessment: Assessment, identity: str) -> None:
    """Write an assessment to a trace; a second call with the same ``identity`` has no effect.

    The assessment's id is derived from ``identity``, so a request whose reply was lost can be repeated.
    """
    import mlflow

    assessment_id = assessment.assessment_id = _assessment_id(trace_id, identity)
    try:
        with few_attempts():  # a server's error for a duplicate makes MLflow retry for minutes
            mlflow.log_assessment(trace_id=trace_id, assessment=assessment)
    except mlflow.exceptions.MlflowException as error:
        if error.error_code == ABSENT:
            raise
        with suppress(mlflow.exceptions.MlflowException):
            if mlflow.get_assessment(trace_id, assessment_id) is not None:
                return
        raise


def add_feedback(trace_id: str, feedback: Feedback, run_id: str, time_ms: int = 0) -> None:
    """Write ``feedback`` of the run to the trace; a second call with the same name and ``time_ms`` has no effect.

    If the store has no such trace, MLflow first exports pending traces. Raises ``RagMetricsError`` if the store still
    has none, or if it fails.
    """
    import mlflow

    identity = f"{run_id} {feedback.name} {time_ms}"
    with explained(run_id):
        try:
            write_assessment(trace_id, feedback, identity)
        except mlflow.exceptions.MlflowException as error:
            if error.error_code != ABSENT:
                raise
            mlflow.flush_trace_async_logging()
            write_assessment(trace_id, feedback, identity)


def remove_assessment(trace_id: str, assessment_id: str) -> None:
    """Remove an assessment; does nothing if it does not exist, as after a lost reply."""
    import mlflow

    unless_absent(lambda: mlflow.delete_assessment(trace_id=trace_id, assessment_id=assessment_id))


def _assessment_id(trace_id: str, identity: str) -> str:
    return f"a-{hashlib.sha256(f'{trace_id} {identity}'.encode()).hexdigest()[:32]}"


def assessments_of(row: Row, run_id: str, trace_id: str, span_id: str, language: str = "en") -> list[Assessment]:
    """The row's scores and diagnosis as feedback, and its reference as an expectation, for a new trace.

    All have the same time, so that MLflow shows them in this order. Their ids depend on trace and run, so a store that
    receives the trace twice stores them once.
    """
    from mlflow.entities import AssessmentSource, Expectation

    assessments: list[Assessment] = [*feedback_on(row.scores, run_id, language)]
    if row.sample.reference is not None:
        source = AssessmentSource(source_type="HUMAN", source_id="dataset")
        value = plain_text(row.sample.reference)
        metadata = {SOURCE_RUN: run_id}
        assessments.append(Expectation(name="expected_response", value=value, source=source, metadata=metadata))
    for number, assessment in enumerate(assessments):
        assessment.create_time_ms = assessment.last_update_time_ms = assessments[0].create_time_ms
        assessment.assessment_id = _assessment_id(trace_id, f"{number} {run_id}")
        assessment.trace_id, assessment.span_id = trace_id, span_id
    return assessments


RUN_TYPE = "mlflow.runType"
_TRACES_PER_BATCH = 100
_TRACES_PER_UPLOAD = 20
_UPLOADS = 8
_PREVIEW = 1000
_METADATA = 250


def log_traces(rows: Sequence[Row], run_id: str, model_id: str | None = None, language: str = "en") -> list[str]:
    """Write one trace per row into the experiment of ``run_id``, link it to the run, and return the traces' ids.

    A trace has the question, the answer, a retriever span with the contexts, the scores and the diagnosis as
    feedback, and the reference as an expectation. Its client request id is the sample's id,
    by which MLflow matches the rows of two runs. Traces from an earlier call for this run are replaced. If the store
    does not accept whole traces (Databricks), none are written and a warning is issued.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client = MlflowClient()
    run = client.get_run(run_id)
    experiment_id = run.info.experiment_id
    if RUN_TYPE in run.data.tags:
        remove_traces(client, experiment_id, run_id)
    client.set_tag(run_id, RUN_TYPE, "genai_evaluate")  # set first, so that the traces are found after an interruption
    target = _Target(experiment_id, run_id, language, model_id)
    ids: list[str] = []
    try:
        for written in _write_all(rows, target):
            ids += written
    except (MlflowException, NotImplementedError) as error:
        if ids or _is_down(error):
            raise
        remove_traces(client, experiment_id, run_id)
        client.delete_tag(run_id, RUN_TYPE)
        warnings.warn(f"no traces were written because this store does not accept them: {error}", stacklevel=3)
        return []
    link_traces(ids, run_id)
    return ids


def write_live_traces(
    rows: Mapping[str, tuple[Row, int]], run_id: str, experiment_id: str, uri: str, language: str
) -> None:
    """Write new traces with these ids for rows and their times (milliseconds) into the store ``uri``.

    A trace that exists is overwritten. Raises an error of ``write_errors()`` if the store does not accept the traces.
    """
    traces, target = [], _Target(experiment_id, run_id, language)
    for trace_id, (row, time_ms) in rows.items():
        took = round(1000 * float(row.sample.metadata.get("seconds", 0)))
        traces.append(_trace(row, target, trace_id, (time_ms - took, took)))
    if traces:
        _store(traces, experiment_id, uri)


def log_feedback(rows: Sequence[Row], run_id: str, language: str = "en") -> None:
    """Write scores and diagnosis of ``rows`` to the traces that the rows come from.

    They replace earlier scores from this run, and supersede those of earlier runs by the same source.
    ``InvalidOptionError`` if no row comes from a trace.
    """
    import mlflow

    traced = {str(row.sample.metadata["trace_id"]): row for row in rows if "trace_id" in row.sample.metadata}
    if not traced:
        message = "feedback needs rows that come from traces; evaluate search_traces(…) or traces:/EXPERIMENT"
        raise InvalidOptionError(message, param="feedback")
    client = mlflow.MlflowClient()
    for trace_id, row in traced.items():
        feedback = feedback_on(row.scores, run_id, language)
        for earlier in client.get_trace(trace_id).info.assessments:
            is_ours = (earlier.metadata or {}).get(SOURCE_RUN) == run_id
            if is_ours and earlier.name in [assessment.name for assessment in feedback]:
                remove_assessment(trace_id, str(earlier.assessment_id))
        valid = {
            (earlier.name, earlier.source.source_id): earlier.assessment_id
            for earlier in client.get_trace(trace_id).info.assessments  # a removal can make earlier ones valid
            if earlier.valid is not False and SOURCE_RUN in (earlier.metadata or {})
        }
        for assessment in feedback:
            assessment.overrides = valid.get((assessment.name, assessment.source.source_id))
            _write_insistently(trace_id, assessment, f"{run_id} {assessment.name}")
    link_traces(list(traced), run_id)


def _is_passing(error: BaseException) -> bool:
    from mlflow.exceptions import MlflowException

    return isinstance(error, MlflowException) and error.get_http_status_code() in (408, 429, 500, 502, 503, 504)  # type: ignore[no-untyped-call]


_write_insistently = retry(
    stop=stop_after_attempt(6),
    wait=wait_exponential(multiplier=0.1, exp_base=3),
    retry=retry_if_exception(_is_passing),
    reraise=True,
)(write_assessment)


def link_traces(ids: Sequence[str], run_id: str) -> None:
    """Link these traces to the run."""
    from mlflow import MlflowClient

    for batch in _batches(ids):
        MlflowClient().link_traces_to_run(trace_ids=batch, run_id=run_id)


def remove_traces(client: MlflowClient, experiment_id: str, run_id: str) -> None:
    """Remove the traces that were written for a run."""
    import mlflow

    of_run = f"tags.`{TRACES_TAG}` = '{run_id}'"
    traces = mlflow.search_traces([experiment_id], of_run, return_type="list", include_spans=False)
    for batch in _batches([trace.info.trace_id for trace in traces]):
        client.delete_traces(experiment_id, trace_ids=batch)


def trace_of(sample: Sample) -> Trace:
    """The sample as a trace that is not in a store, for functions that read traces."""
    return _trace(Row(sample, {}), _Target("0", ""))


@dataclass(frozen=True)
class _Target:
    """The experiment, run and model for the traces, and the language of diagnoses.

    MLflow lists the newest traces first, so rows without a time get decreasing times from ``began_ns``.
    """

    experiment_id: str
    run_id: str
    language: str = "en"
    model_id: str | None = None
    began_ns: int = field(default_factory=time.time_ns)


def _write_all(rows: Sequence[Row], target: _Target) -> Iterator[list[str]]:
    """Write traces in batches and yield their ids; a server receives several batches at a time."""
    import mlflow

    if not mlflow.get_tracking_uri().startswith("http"):  # a database has one writer at a time
        yield from (_write(batch, target) for batch in _batches(rows))
        return
    pool = ThreadPoolExecutor(_UPLOADS, "ragmetrics-upload")
    try:
        yield from pool.map(partial(_write, target=target), _batches(rows, _TRACES_PER_UPLOAD))
    finally:
        pool.shutdown(cancel_futures=True)


def _write(rows: Sequence[Row], target: _Target) -> list[str]:
    """Write one trace per row and return their ids. Ids are set before sending, so each trace is stored once."""
    traces = [_trace(row, target) for row in rows]
    _store(traces, target.experiment_id)
    return [trace.info.trace_id for trace in traces]


def _store(traces: Sequence[Trace], experiment_id: str, uri: str | None = None) -> None:
    import mlflow
    from mlflow.tracing.client import TracingClient

    if (uri or mlflow.get_tracking_uri()).startswith("databricks"):
        raise NotImplementedError("whole traces need a server or database that is not Databricks")
    client = TracingClient(uri)
    if not _write_in_one_transaction(client.store, experiment_id, traces):
        for trace in traces:
            client.start_trace(trace.info)
        client.log_spans(experiment_id, [span for trace in traces for span in trace.data.spans])


def _write_in_one_transaction(store: Any, experiment_id: str, traces: Sequence[Trace]) -> bool:
    """Write all traces to a database in one transaction; ``False``, with nothing written, if that is not possible.

    Otherwise each trace would be a transaction that reads the experiment again, which takes three times as long.
    """
    from mlflow.exceptions import MlflowException

    if not hasattr(store, "ManagedSessionMaker"):
        return False
    shared = copy(store)
    try:
        experiment = store.get_experiment(experiment_id)
        with store.ManagedSessionMaker(read_only=False) as session:
            shared.ManagedSessionMaker = lambda **_: nullcontext(session)
            shared.get_experiment = lambda _: experiment
            session.flush = lambda *_: None  # flush once, so that rows of a table are inserted together
            for trace in traces:
                shared.start_trace(trace.info)
            del session.flush
            session.flush()
            shared.log_spans(experiment_id, [span for trace in traces for span in trace.data.spans])
    except (MlflowException, AttributeError, TypeError):  # the store of another version differs
        return False
    return True


def _is_down(error: MlflowException | NotImplementedError) -> bool:
    """Whether the store could not be reached, so that it is unknown if it accepts whole traces."""
    unavailable = getattr(error, "error_code", None) == "TEMPORARILY_UNAVAILABLE"
    return unavailable or isinstance(error.__cause__ or error.__context__, OSError)


def _trace(
    row: Row, target: _Target, trace_id: str | None = None, times: tuple[int, int | None] | None = None
) -> Trace:
    from mlflow.entities import Trace, TraceData, TraceInfo, TraceLocation, TraceState

    sample, run_id = row.sample, target.run_id
    trace_id = trace_id or f"tr-{uuid.uuid4().hex}"
    root_id, contexts_id = trace_id[3:19], trace_id[-16:]
    began, took = times or _times(row, target)
    question = {"question": sample.question}
    session = {SESSION: str(sample.metadata[SESSION])} if took is not None and SESSION in sample.metadata else {}
    info = TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id(target.experiment_id),
        request_time=began,
        execution_duration=took,
        state=TraceState.OK,
        request_preview=plain_text(sample.question or "")[:_PREVIEW],
        response_preview=plain_text(sample.answer or "")[:_PREVIEW],
        client_request_id=plain(sample.id),
        trace_metadata={
            "mlflow.sourceRun": run_id,
            "mlflow.trace_schema.version": "3",
            "mlflow.traceInputs": as_json(question)[:_METADATA],
            "mlflow.traceOutputs": as_json(sample.answer)[:_METADATA],
            **({"mlflow.modelId": target.model_id} if target.model_id else {}),
            **session,
        },
        tags={"mlflow.traceName": "rag_eval", TRACES_TAG: run_id},
        assessments=assessments_of(row, run_id, trace_id, root_id, target.language),
    )
    start = 1_000_000 * began
    whole = (start, start + 1_000_000 * (took or 0))
    spans = [_span("rag_eval", "CHAIN", trace_id, root_id, "", whole, question, sample.answer)]
    if sample.contexts is not None:  # the time is unknown: a span without duration at the start
        found = [plain({"page_content": c.text, "metadata": dict(c.metadata), "id": c.id}) for c in sample.contexts]
        spans.append(_span("contexts", "RETRIEVER", trace_id, contexts_id, root_id, (start, start), question, found))
    return Trace(info, TraceData(spans))


def _span(
    name: str, kind: str, trace_id: str, own: str, parent: str, times: tuple[int, int], inputs: Any, outputs: Any
) -> Span:
    from mlflow.entities import Span

    return Span.from_dict(
        {
            "name": name,
            "trace_id": _encoded(trace_id.removeprefix("tr-")),
            "span_id": _encoded(own),
            "parent_span_id": _encoded(parent),
            "start_time_unix_nano": times[0],
            "end_time_unix_nano": times[1],
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "events": [],
            "attributes": {
                "mlflow.traceRequestId": as_json(trace_id),
                "mlflow.spanType": as_json(kind),
                "mlflow.spanInputs": as_json(inputs),
                "mlflow.spanOutputs": as_json(outputs),
            },
        }
    )


def _encoded(hexadecimal: str) -> str:
    return base64.b64encode(bytes.fromhex(hexadecimal)).decode("ascii")


def _times(row: Row, target: _Target) -> tuple[int, int | None]:
    """Start time and duration of the call in milliseconds, if the row comes from a trace.

    Otherwise the time of writing, one millisecond earlier per row, without a duration.
    """
    began, took = (row.sample.metadata.get(name) for name in TRACE_TIMES)
    if "trace_id" in row.sample.metadata and isinstance(began, int):
        return began, took if isinstance(took, int) else None
    return target.began_ns // 1_000_000 - row.index, None


def _batches(entries: Sequence[Any], size: int = _TRACES_PER_BATCH) -> Iterator[list[Any]]:
    return (list(entries[start : start + size]) for start in range(0, len(entries), size))
