"""Chains of every kind, called in every way, are scored with the right question, contexts and answer."""

from __future__ import annotations

import asyncio
import gc
import logging
import pickle
import sys
import threading
import time
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.langchain import handler as handler_module
from mlflow_ragmetrics.adapters.langchain.exchange import Exchange
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError

QUESTIONS = ["question 1", "question 2", "question 3"]


def test_every_mode_and_kind(
    ask: Any, handler: Any, collected: Any, shelves: tuple[str, ...], kind: str, mode: str
) -> None:
    if kind == "nested" and mode.startswith("a") and sys.version_info < (3, 11):
        pytest.skip("below Python 3.11 an async call hands its callbacks to inner chains only with the config")
    ask(QUESTIONS, {"callbacks": [handler]})

    assert handler.flush(10)
    assert [sample.question for sample in collected.samples] == QUESTIONS
    for sample in collected.samples:
        assert sample.answer == f"answer to {sample.question}"
        expected = [f"{shelf}: {word} {sample.question}" for shelf in shelves for word in ("on", "more on")]
        found = [chunk.text for chunk in sample.contexts]
        assert sorted(found) == sorted(expected) if kind == "parallel" else found == expected[: len(found)]
        assert (sample.contexts[0].id, sample.contexts[0].metadata) == (f"{sample.retrieved_doc_ids[0]}", {"page": 7})
    assert handler.counts == {"seen": 3, "scored": 3, "dropped": 0, "failed": 0, "skipped": 0}
    assert handler.open_runs == {}


def test_each_retriever_keeps_its_ranks(handler: Any, collected: Any, library: Any) -> None:
    near, far = library(shelf="near"), library(shelf="far")
    chain = RunnablePassthrough.assign(near=lambda state: near.invoke(state["question"])) | RunnableLambda(
        lambda state: str(len(far.invoke(state["question"])))
    )
    chain.invoke({"question": "why"}, {"callbacks": [handler]})

    assert handler.flush(10)
    assert [chunk.id for chunk in collected.samples[0].contexts] == ["near-1", "near-2", "far-1", "far-2"]


def test_a_retriever_by_itself_is_no_chain(handler: Any, library: Any) -> None:
    library().invoke("why", {"callbacks": [handler]})
    assert handler.counts["seen"] == 0
    assert handler.open_runs == {}


def test_odd_shapes_by_key_and_function(suite: rm.Suite, collected: Any) -> None:
    chain = RunnableLambda(lambda state: {"text": state["q"].upper(), "notes": ["a note"], "score": 3})
    options = {"question": "q", "answer": "text", "contexts": lambda outputs: outputs["notes"]}
    with rm.RagMetricsCallback(suite, sink=collected, **options) as handler:
        chain.invoke({"q": "why", "other": "x"}, {"callbacks": [handler]})
    functions = {
        "question": lambda inputs: inputs["q"],
        "answer": lambda outputs, inputs: outputs["text"] + inputs["other"],
    }
    with rm.RagMetricsCallback(suite, sink=collected, **functions) as handler:
        chain.invoke({"q": "why", "other": "x"}, {"callbacks": [handler]})

    (first, _), (second, _) = collected
    assert (first.question, first.answer, first.texts) == ("why", "WHY", ("a note",))
    assert (second.question, second.answer) == ("why", "WHYx")


def test_what_is_known_of_a_call_comes_from_its_metadata(suite: rm.Suite, collected: Any, plain: Any) -> None:
    metadata = {"ground_truth": "because", "gold_doc_ids": ["main-2"], "qid": "row 1", "tenant": "t"}
    with rm.RagMetricsCallback(suite, sink=collected) as handler:
        plain.invoke("why", {"callbacks": [handler], "metadata": metadata})

    ((sample, _),) = collected
    assert (sample.id, sample.reference, sample.gold_doc_ids) == ("row 1", "because", ("main-2",))
    assert sample.metadata["tenant"] == "t"


def test_a_chain_without_retriever_says_so_once(collected: Any, caplog: pytest.LogCaptureFixture) -> None:
    suite = rm.Suite(["faithfulness", "chunk_precision", "lexical_relevance"], judge=rm.ScriptedJudge(facts=[]))
    chain = RunnableLambda(lambda question: f"answer to {question}")
    with caplog.at_level(logging.WARNING), rm.RagMetricsCallback(suite, sink=collected) as handler:
        chain.batch(QUESTIONS, {"callbacks": [handler]})

    for _, scores in collected:
        assert [score.status for score in scores.values()] == ["skipped", "skipped", "ok"]
        assert "context" in scores["faithfulness"].reason.lower()
    assert sum("faithfulness is skipped" in record.message for record in caplog.records) == 1
    assert "name it with question=" not in caplog.text


def test_contexts_that_are_assumed_and_a_question_that_is_not_found_are_said_once(
    collected: Any, caplog: pytest.LogCaptureFixture
) -> None:
    found = {"context": [Document(page_content="It is red.")], "answer": "It is red."}
    with rm.RagMetricsCallback(["faithfulness"], sink=collected) as handler:
        RunnableLambda(lambda _: found).batch([{"a": 1, "b": 2}, {"c": 3, "d": 4}], {"callbacks": [handler]})
    said = [record.message for record in caplog.records]
    assert len(said) == 2
    assert sum(text.startswith("The model's input is unknown") for text in said) == 1
    assert sum("name it with question=" in text for text in said) == 1


def test_failing_chains_are_counted_and_not_scored(handler: Any, collected: Any, library: Any) -> None:
    def fail(_: Any) -> str:
        raise ZeroDivisionError("in the chain")

    chain = library() | RunnableLambda(fail)
    with pytest.raises(ZeroDivisionError):
        chain.invoke("why", {"callbacks": [handler]})
    chain.batch(["a", "b"], {"callbacks": [handler]}, return_exceptions=True)
    recovered = chain.with_fallbacks([RunnableLambda(lambda question: "second try")])
    recovered.invoke("why", {"callbacks": [handler]})

    assert handler.flush(10)
    assert handler.counts == {"seen": 4, "scored": 1, "dropped": 0, "failed": 3, "skipped": 0}
    assert [sample.answer for sample in collected.samples] == ["second try"]
    assert handler.open_runs == {}


def test_abandoned_streams_leave_nothing(handler: Any, collected: Any, plain: Any) -> None:
    async def leave() -> None:
        stream = plain.astream("later", {"callbacks": [handler]})
        await anext(stream)
        await stream.aclose()

    slow = RunnableLambda(lambda question: question) | RunnableLambda(_several)
    for _ in slow.stream("why", {"callbacks": [handler]}):
        break
    gc.collect()
    asyncio.run(leave())

    assert handler.flush(10)
    assert handler.open_runs == {}
    assert handler.counts["seen"] == handler.counts["scored"] + handler.counts["skipped"] + handler.counts["failed"]


@pytest.mark.parametrize("kind", ["graph", "agent"], indirect=True)
def test_abandoned_graphs_leave_nothing(handler: Any, chain: Any, kind: str) -> None:
    inputs = {"question": "why"} if kind == "graph" else {"messages": [{"role": "user", "content": "why"}]}

    async def leave() -> None:
        stream = chain.astream(inputs, {"callbacks": [handler]})
        await anext(stream)
        await stream.aclose()

    for _ in chain.stream(inputs, {"callbacks": [handler]}):
        break
    gc.collect()
    asyncio.run(leave())

    assert handler.flush(10)
    assert handler.open_runs == {}
    assert handler.counts["seen"] == 2


def _several(question: str) -> Any:
    return RunnableLambda(lambda _: question) if question == "no" else question * 3


def test_an_inner_handler_sees_the_inner_chain(handler: Any, collected: Any, plain: Any) -> None:
    chain = RunnableLambda(lambda question: question.upper()) | plain.with_config(callbacks=[handler])
    (chain | RunnableLambda(lambda answer: f"<{answer}>")).invoke("why")

    assert handler.flush(10)
    assert [(sample.question, sample.answer) for sample in collected.samples] == [("WHY", "answer to WHY")]


def test_a_full_queue_drops_the_newest(suite: rm.Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_module, "QUEUE_SIZE", 2)
    gate, seen = threading.Event(), []

    def slow(sample: Any, scores: Any) -> None:
        gate.wait(10)
        seen.append(sample.question)

    chain = RunnableLambda(lambda question: question)
    with rm.RagMetricsCallback(suite, sink=slow) as handler:
        chain.invoke("1", {"callbacks": [handler]})
        time.sleep(0.2)
        for question in "2345":
            chain.invoke(question, {"callbacks": [handler]})
        gate.set()

    assert seen == ["1", "2", "3"]
    assert handler.counts == {"seen": 5, "scored": 3, "dropped": 2, "failed": 0, "skipped": 0}


def test_sampling(suite: rm.Suite, collected: Any) -> None:
    chain = RunnableLambda(lambda question: question)
    with rm.RagMetricsCallback(suite, sink=collected, sample_rate=0.5) as handler:
        chain.batch(["x"] * 200, {"callbacks": [handler]})

    assert handler.counts["scored"] + handler.counts["skipped"] == 200
    assert 60 <= handler.counts["scored"] <= 140
    assert len(collected) == handler.counts["scored"]


def test_a_failing_sink_or_function_never_reaches_the_chain(suite: rm.Suite, plain: Any) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("mine")

    with (
        rm.RagMetricsCallback(suite, sink=broken) as first,
        rm.RagMetricsCallback(suite, sink=lambda *_: None, question=broken) as second,
    ):
        assert plain.invoke("why", {"callbacks": [first, second]}) == "answer to why"

    assert first.counts["failed"] == second.counts["failed"] == 1


def test_flush_gives_up_in_time(suite: rm.Suite, plain: Any) -> None:
    gate = threading.Event()
    handler = rm.RagMetricsCallback(suite, sink=lambda *_: gate.wait(10))
    plain.invoke("why", {"callbacks": [handler]})
    began = time.monotonic()
    assert not handler.flush(0.2)
    assert time.monotonic() - began < 2
    gate.set()
    assert handler.close(10)


def test_options_are_checked(suite: rm.Suite) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        rm.RagMetricsCallback(suite, sink=print, sample_rate=1.5)
    assert caught.value.param == "sample_rate"


def test_a_dead_judge_is_counted_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(rm.Judge):
        name, local, calls = "refusing", True, 0

        def answer(self, questions: Any) -> Any:
            Refusing.calls += 1
            return [JudgeError(f"refusing: 401, request {Refusing.calls}", code="refused") for _ in questions]

    chain = RunnablePassthrough.assign(contexts=lambda _: ["It is red."], answer=lambda _: "It is red.")
    taken: list[Any] = []
    metrics = ["faithfulness", "answer_relevance", "coherence"]
    with rm.RagMetricsCallback(rm.Suite(metrics, judge=Refusing()), sink=lambda *each: taken.append(each)) as handler:
        for number in range(5):
            chain.invoke({"question": f"What is {number}?"}, {"callbacks": [handler]})
        assert handler.flush(10)
        assert handler.counts == {"seen": 5, "scored": 0, "dropped": 0, "failed": 5, "skipped": 0}
    assert [record.message for record in caplog.records if "401" in record.message] == [
        "faithfulness could not be scored: AllJudgesFailedError: no judge answered (refusing: 401, request 1)"
    ]
    assert len(taken) == 5


def test_a_metric_that_raises_fails_its_answer_only(plain: Any, collected: Any) -> None:
    suite = rm.Suite(["rouge(on_missing='raise')"])
    with rm.RagMetricsCallback(suite, sink=collected) as handler:
        for number in (1, 2, 3):
            metadata = {"reference": "answer to question 2"} if number == 2 else {}
            plain.invoke(f"question {number}", {"callbacks": [handler], "metadata": metadata})
    assert (handler.counts["scored"], handler.counts["failed"]) == (1, 2)
    assert [sample.question for sample, _ in collected] == ["question 2"]


def test_an_answer_without_a_score_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    with rm.RagMetricsCallback(rm.Suite(["faithfulness"]), sink=lambda *_: None) as handler:
        RunnableLambda(lambda question: question).invoke("It is red.", {"callbacks": [handler]})
        assert handler.flush(10)
        assert handler.counts == {"seen": 1, "scored": 0, "dropped": 0, "failed": 0, "skipped": 1}
    assert "faithfulness is skipped: faithfulness needs the field 'contexts'" in caplog.text


@pytest.mark.parametrize("suite", [rm.rouge, "lexical", ["coherence", "rouge(rouge_type='rougeL')"]], ids=str)
def test_what_a_handler_is_made_from(suite: Any, plain: Any, collected: Any) -> None:
    with rm.RagMetricsCallback(suite, sink=collected) as handler:
        plain.invoke("why", {"callbacks": [handler]})
    assert len(collected) == 1


def test_tags_thread_and_name_reach_the_metadata(plain: Any, handler: Any, collected: Any) -> None:
    config = {"tags": ["a"], "run_name": "ask", "configurable": {"thread_id": "t"}, "metadata": {"tenant": "x"}}
    plain.invoke("why", {"callbacks": [handler], **config})
    assert handler.flush(10)
    metadata = collected.samples[0].metadata
    assert {name: metadata.get(name) for name in ("tags", "run_name", "thread_id", "tenant")} == {
        "tags": ["a"],
        "run_name": "ask",
        "thread_id": "t",
        "tenant": "x",
    }


def test_reading_and_scoring_leave_the_caller_s_thread(suite: rm.Suite, plain: Any, collected: Any) -> None:
    threads: set[int] = set()

    def noted(outputs: Any) -> Any:
        threads.add(threading.get_ident())
        return outputs

    with rm.RagMetricsCallback(suite, sink=collected, answer=noted) as handler:
        plain.invoke("question 1", {"callbacks": [handler]})
    assert len(collected) == 1
    assert threads
    assert threading.get_ident() not in threads


def exchanges() -> list[Exchange]:
    return [each for each in gc.get_objects() if type(each) is Exchange]


def test_nothing_of_a_call_is_kept_once_it_is_scored(handler: Any, plain: Any, collected: Any) -> None:
    of_other_tests = exchanges()
    for question in QUESTIONS:
        plain.invoke(question, {"callbacks": [handler]})
    assert handler.flush(10)
    gc.collect()
    kept = [each for each in exchanges() if all(each is not other for other in of_other_tests)]
    assert (len(collected), kept) == (3, [])


def test_a_handler_can_be_pickled(plain: Any) -> None:
    with rm.RagMetricsCallback(["coherence"], sink=print, sample_rate=0.5, contexts=["look_up"]) as handler:
        plain.invoke("why", {"callbacks": [handler]})
        again = pickle.loads(pickle.dumps(handler))
    assert (again._sample_rate, again.counts["seen"]) == (0.5, 0)
    plain.invoke("why", {"callbacks": [again]})
    assert again.close(10)
