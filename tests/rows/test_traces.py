"""Production traces are scored like any data, and the scores are written back to them."""

from __future__ import annotations

import json
from typing import Any

import mlflow
import pytest
from mlflow.entities import SpanType

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Chunk, Sample
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.rows.passages import hits_in
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.rows.trace_records import record_of_trace


@mlflow.trace(span_type=SpanType.RETRIEVER)
def search(text: str) -> list[dict[str, Any]]:
    return [{"page_content": f"it says {text}", "metadata": {"source": "wiki"}, "id": f"doc-{text}::chunk-1"}]


@mlflow.trace(span_type=SpanType.CHAIN)
def chain(question: str) -> str:
    search(question)
    return f"it says {question}. made up"


@pytest.fixture
def suite() -> rm.Suite:
    judge = rm.ScriptedJudge(facts=[{"text": "one", "ok": True}, {"text": "two", "ok": False}])
    return rm.Suite(["faithfulness", "fact_recall"], judge=judge)


@pytest.fixture
def traces() -> Any:
    for question in ("a", "b"):
        chain(question)
    mlflow.flush_trace_async_logging()
    return mlflow.search_traces()


@pytest.mark.parametrize("return_type", ["pandas", "list"])
def test_question_answer_and_chunks_of_a_trace(suite: rm.Suite, traces: Any, return_type: str) -> None:
    report = suite.evaluate(mlflow.search_traces(return_type=return_type))
    samples = {row.sample.question: row.sample for row in report.rows}
    assert samples["a"].answer == "it says a. made up"
    assert [(chunk.text, chunk.id) for chunk in samples["b"].contexts or ()] == [("it says b", "doc-b::chunk-1")]
    assert report.metrics["faithfulness/mean"] == 0.5
    assert set(report.table["trace_id"]) == set(traces["trace_id"])


def test_feedback_is_written_back_once_a_run(suite: rm.Suite, traces: Any) -> None:
    report = suite.evaluate(traces)
    run_id = report.log(feedback=True)
    report.log(run_id=run_id, feedback=True)
    found = mlflow.search_traces(run_id=run_id, return_type="list")
    assert {trace.info.trace_id for trace in found} == set(traces["trace_id"])
    assert [[(each.name, each.value) for each in trace.info.assessments] for trace in found] == [
        [("faithfulness", 0.5), ("fact_recall", 0.5)]
    ] * 2
    other = report.log(run_name="another", feedback=True)
    assert other != run_id
    assert len(mlflow.get_trace(traces["trace_id"][0]).info.assessments) == 4


def test_rows_that_are_no_traces_have_no_place_for_feedback(suite: rm.Suite) -> None:
    report = suite.evaluate([{"answer": "a", "contexts": ["a"]}])
    with pytest.raises(InvalidOptionError, match="rows that come from traces"):
        report.log(feedback=True)


def test_other_rows_are_left_alone() -> None:
    assert record_of_trace({"trace_id": "t", "question": "q?"}) is None
    assert record_of_trace("text") is None


def sample_of(trace_id: str) -> Sample:
    mlflow.flush_trace_async_logging()
    record = record_of_trace(mlflow.get_trace(trace_id))
    assert record is not None
    return to_sample(record)


def test_documents_among_the_attributes_of_openinference() -> None:
    with mlflow.start_span("ask") as root:
        root.set_inputs({"topic": "q"})
        with mlflow.start_span("search") as span:
            span.set_attributes(
                {
                    "openinference.span.kind": "RETRIEVER",
                    "output.value": "raw",
                    "retrieval.documents.1.document.content": "second",
                    "retrieval.documents.0.document.content": "first",
                    "retrieval.documents.0.document.id": "7",
                    "retrieval.documents.0.document.metadata": '{"page": 2}',
                }
            )
        root.set_outputs("a")
    sample = sample_of(root.trace_id)
    assert (sample.question, sample.answer) == ("q", "a")
    assert sample.contexts == (Chunk("first", "7", {"page": 2}), Chunk("second"))


def test_documents_among_the_attributes_of_opentelemetry() -> None:
    documents = [{"id": "7", "score": 0.5, "content": "found"}]
    with mlflow.start_span("retrieval") as span:
        span.set_attributes({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps(documents)})
    assert sample_of(span.trace_id).texts == ("found",)


def test_messages_with_parts_of_opentelemetry() -> None:
    question = [{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}]
    answer = [
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm"}, {"type": "text", "content": "So."}]}
    ]
    with mlflow.start_span("chat") as span:
        span.set_attributes(
            {"gen_ai.input.messages": json.dumps(question), "gen_ai.output.messages": json.dumps(answer)}
        )
    sample = sample_of(span.trace_id)
    assert (sample.question, sample.answer, sample.contexts) == ("Why?", "So.", None)


def test_inputs_and_outputs_among_the_attributes_of_openinference() -> None:
    with mlflow.start_span("chain") as span:
        span.set_attributes({"input.value": '{"question": "Why?"}', "output.value": "So."})
    sample = sample_of(span.trace_id)
    assert (sample.question, sample.answer) == ("Why?", "So.")


@pytest.mark.parametrize(
    ("outputs", "texts"),
    [
        ([{"page_content": "It is red.", "metadata": {}}], ("It is red.",)),
        ({"content": "red", "type": "tool", "artifact": [{"page_content": "It is red."}]}, ("It is red.",)),
        ({"results": [{"text": "It is red.", "score": 0.5}]}, ("It is red.",)),
        ("It is 7 degrees in Rome.", None),
        ([{"temperature": 7}], None),
    ],
)
def test_tools_that_retrieve(outputs: Any, texts: tuple[str, ...] | None) -> None:
    with mlflow.start_span("ask") as root:
        root.set_inputs({"question": "Why?"})
        with mlflow.start_span("look_up", span_type="TOOL") as span:
            span.set_outputs(outputs)
        root.set_outputs("So.")
    assert sample_of(root.trace_id).texts == texts


def test_chat_completions_and_responses_of_openai() -> None:
    with mlflow.start_span("Completions", span_type="CHAT_MODEL") as span:
        span.set_inputs({"model": "m", "messages": [{"role": "user", "content": "Why?"}]})
        span.set_outputs({"choices": [{"index": 0, "message": {"role": "assistant", "content": "So."}}]})
    sample = sample_of(span.trace_id)
    assert (sample.question, sample.answer, sample.contexts) == ("Why?", "So.", None)

    found = {"type": "file_search_call", "results": [{"file_id": "f", "text": "It is red.", "score": 0.5}]}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Red."}]}
    with mlflow.start_span("Responses", span_type="CHAT_MODEL") as span:
        span.set_inputs({"model": "m", "input": "Which colour?"})
        span.set_outputs({"output": [found, said]})
    sample = sample_of(span.trace_id)
    assert (sample.question, sample.answer, sample.texts) == ("Which colour?", "Red.", ("It is red.",))


def test_traces_without_a_retriever_do_not_say_what_was_retrieved(suite: rm.Suite) -> None:
    with mlflow.start_span("ask") as root:
        root.set_inputs({"question": "Why?"})
        root.set_outputs("So.")
    mlflow.flush_trace_async_logging()
    found = mlflow.search_traces(["0"], return_type="list")
    with pytest.raises(MissingFieldError, match="'contexts' and no row has it"):
        rm.Suite(["faithfulness"]).evaluate(found, progress=False)
    (row,) = rm.Suite(["faithfulness", "coherence"]).stream(found)
    assert {key: score.status for key, score in row.scores.items()} == {"faithfulness": "skipped", "coherence": "ok"}


def test_only_mappings_with_a_text_are_hits_of_a_vector_store() -> None:
    assert hits_in({"matches": [{"score": 0.5}]}) == []
    assert hits_in({"matches": [{"score": 0.5, "text": "It is red."}]}) == [{"score": 0.5, "text": "It is red."}]
