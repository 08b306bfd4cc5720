"""Rows of a run that has scores on its traces only, such as a run of ``mlflow.genai.evaluate``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.score import Evidence, Item, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.rows.row_groups import with_ids
from mlflow_ragmetrics.rows.tables import BETTER
from mlflow_ragmetrics.rows.trace_records import record_of_trace
from mlflow_ragmetrics.rows.values import as_number

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Run, Trace

_SOURCE_RUN = "mlflow.assessment.sourceRunId"


def rows_of_traces(run: Run) -> list[Row]:
    """One row per trace that was evaluated in ``run``, in time order; empty without scores.

    A score that another row has and the trace lacks is an error: MLflow lost it, or the scorer failed.
    """
    import mlflow

    run_id, experiments = run.info.run_id, [run.info.experiment_id]
    traces: list[Trace] = mlflow.search_traces(locations=experiments, run_id=run_id, return_type="list")
    evaluated = {trace.info.trace_id: trace for trace in traces if _assessed(trace, run_id)}
    found = sorted(evaluated.values(), key=lambda trace: trace.info.request_time)
    scores = [_scores(trace, run_id) for trace in found]
    absent = {key: _ABSENT for row in scores for key in row}
    samples = with_ids(to_sample(record_of_trace(trace)) for trace in found)
    rows = enumerate(zip(samples, scores, strict=True))
    return [Row(sample, {**absent, **own}, place) for place, (sample, own) in rows] if absent else []


_ABSENT = Score(status="error", error="InvalidDataError: the trace has no score for this metric")


def _assessed(trace: Trace, run_id: str) -> list[Assessment]:
    """The valid assessments that ``run`` wrote, of any scorer."""
    valid = [each for each in trace.info.assessments if each.valid is not False]
    return [each for each in valid if (each.metadata or {}).get(_SOURCE_RUN, run_id) == run_id]


def _scores(trace: Trace, run_id: str) -> dict[str, Score]:
    found = [(each, each.metadata or {}) for each in _assessed(trace, run_id)]
    found.sort(key=lambda each: "ragmetrics.key" in each[1])  # of two scores with one name, this package's is kept
    scores = {data.get("ragmetrics.key", each.name): _score(each, data) for each, data in found}
    return {key: score for key, score in scores.items() if score is not None and "label" not in score.details}


def _score(given: Assessment, metadata: Mapping[str, Any]) -> Score | None:
    return _own_score(given, metadata) if "ragmetrics.key" in metadata else _score_of_others(given)


def _score_of_others(given: Assessment) -> Score | None:
    """The score of another package's scorer; ``None`` for human feedback and for words other than yes or no."""
    if given.feedback is None or given.source.source_type == "HUMAN":
        return None
    reason, judge = given.rationale or "", given.source.source_id
    if given.error is not None:
        error = f"{given.error.error_code}: {given.error.error_message}"
        return Score(status="error", error=error, reason=reason, judge=judge)
    try:
        value = as_number(given.feedback.value)
    except InvalidDataError:
        return None
    return Score(value=value, status="skipped" if value is None else "ok", reason=reason, judge=judge)


def _own_score(given: Assessment, metadata: Mapping[str, Any]) -> Score:
    def stored(name: str) -> Any:
        text = metadata.get(f"ragmetrics.{name}")
        return None if text is None else json.loads(text)

    source = given.source.source_id
    failure = given.error if metadata["ragmetrics.status"] == "error" else None
    better = metadata.get("ragmetrics.better")
    return Score(
        value=stored("value"),
        status=metadata["ragmetrics.status"],
        scaled=stored("scaled"),
        passed=stored("passed"),
        threshold=stored("threshold"),
        reason=metadata.get("ragmetrics.reason", ""),
        items=tuple(map(_item, stored("items") or ())),
        details=stored("details") or {},
        model_scores=stored("model_scores") or {},
        warnings=tuple(("", text) for text in stored("warnings") or ()),
        judge=None if source == metadata["ragmetrics.key"] else source,
        error=None if failure is None else f"{failure.error_code}: {failure.error_message}",
        higher_is_better=next((side for side, name in BETTER.items() if name == better), True),
    )


def _item(own: Mapping[str, Any]) -> Item:
    return Item(**{**own, "evidence": tuple(Evidence(**each) for each in own["evidence"])})
