"""Puts rows into a review queue in MLflow. People's answers become feedback on the traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union

from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.tracking.traces import row_traces
from mlflow_ragmetrics.tracking.writer import explained, mlflow_name

if TYPE_CHECKING:
    import pandas as pd

Answers = Literal["words", "yes-no", "1-5"]
ANSWERS: Mapping[Answers, str] = {
    "words": "Supported, Partially supported or Not supported",
    "yes-no": "Good or Bad",
    "1-5": "a grade from 1 to 5",
}
_INSTRUCTION = (
    "Judge the answer by the retrieved passages, or by the reference if there is one. Both are under "
    "'View full trace' (the retriever span, and expected_response). Ignore the judge's scores."
)


@dataclass(frozen=True)
class ReviewQueue:
    """The queue's name and id (``None`` if MLflow has no queues), and a ``filter`` that finds its traces."""

    rows: int
    without_trace: int
    filter: str
    name: Union[str, None] = None
    queue_id: Union[str, None] = None


def queue_for_review(
    run_id: str, key: str, rows: pd.DataFrame, *, answers: Answers = "words", reviewers: Sequence[str] = ()
) -> ReviewQueue:
    """Put the traces of a run's ``rows`` (from ``rows_to_label``) into a review queue about ``key``.

    The queue asks one question: a label schema with the name of the metric's feedback. An existing schema or queue with
    this name is reused. Each trace gets a tag. Without MLflow's queues (in a file store, on Databricks), only the tag
    is set, and people add feedback with this name on MLflow's trace page.

    Raises:
        InvalidDataError: if no row has a trace.
        InvalidOptionError: if the existing schema asks for other answers.
        RagMetricsError: if the store fails.
    """
    import mlflow

    client = mlflow.MlflowClient()
    key = mlflow_name(key)
    tag = f"ragmetrics.to_label.{key}"
    with explained(run_id):
        run = client.get_run(run_id)
        traces = row_traces(run_id, rows)
        known = [trace for trace in traces if trace is not None]
        if not known:
            raise InvalidDataError(f"run {run_id} has no traces to review; log it with traces and texts")
        for trace in known:
            client.set_trace_tag(trace, tag, "1")
        name = f"{key} of {run.info.run_name}"[:200]
        queue_id = _queue(run.info.experiment_id, key, name, known, answers=answers, reviewers=reviewers)
    return ReviewQueue(
        rows=len(known),
        without_trace=len(traces) - len(known),
        filter=f"tags.`{tag}` != ''",
        name=None if queue_id is None else name,
        queue_id=queue_id,
    )


def _queue(
    experiment_id: str, key: str, name: str, traces: list[str], *, answers: Answers, reviewers: Sequence[str]
) -> Union[str, None]:
    import mlflow
    from mlflow.genai import label_schemas, review_queues

    if mlflow.get_tracking_uri().startswith("databricks"):  # Databricks has its own reviews
        return None
    try:
        known = label_schemas.list_label_schemas(experiment_id)
    except NotImplementedError:  # a file store
        return None
    schema, wanted = next((each for each in known if each.name == key), None), _input(label_schemas, answers)
    if schema is None:
        schema = label_schemas.create_label_schema(
            key,
            type="feedback",
            input=wanted,
            instruction=_INSTRUCTION,
            enable_comment=True,
            experiment_id=experiment_id,
        )
    elif type(schema.input) is not type(wanted):
        asks, would = (type(each).__name__.removeprefix("Input") for each in (schema.input, wanted))
        message = f"MLflow already has a question {key}, which asks for {asks}, not {would}: change --answers"
        raise InvalidOptionError(message, param="answers")
    there = review_queues.list_review_queues(experiment_id=experiment_id, max_results=1000)
    queue = next((each for each in there if each.name == name), None)
    if queue is None:
        queue = review_queues.create_review_queue(
            name,
            queue_type="custom",
            users=list(reviewers),
            schema_ids=[schema.schema_id],
            experiment_id=experiment_id,
        )
    for start in range(0, len(traces), 100):
        review_queues.add_items_to_review_queue(queue.queue_id, item_ids=traces[start : start + 100])
    return str(queue.queue_id)


def _input(label_schemas: Any, answers: Answers) -> Any:
    if answers == "yes-no":
        return label_schemas.InputPassFail(positive_label="Good", negative_label="Bad")
    if answers == "1-5":
        return label_schemas.InputNumeric(min_value=1, max_value=5)
    return label_schemas.InputCategorical(options=["Supported", "Partially supported", "Not supported"])
