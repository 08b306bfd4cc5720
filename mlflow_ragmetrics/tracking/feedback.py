"""Converts scores to MLflow feedback, with their claims."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from mlflow_ragmetrics.core.safe_text import plain_text
from mlflow_ragmetrics.core.score import Score, passes
from mlflow_ragmetrics.display.document import escaped
from mlflow_ragmetrics.display.marked import rationale
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.results.marks import DIAGNOSIS, Diagnosis, diagnose
from mlflow_ragmetrics.results.tables import metadata_of
from mlflow_ragmetrics.tracking.writer import ABSENT, explained, few_attempts, mlflow_name, unless_absent

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Feedback


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
