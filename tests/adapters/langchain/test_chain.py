"""A chain's answers to a data set become a logged report, even if single rows fail."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, TypedDict

import mlflow
import pandas as pd
import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.adapters.langchain.programs import Model
from tests.judges.fake_models import dutiful

DATA = [{"id": f"row {n}", "question": f"question {n}", "reference": f"answer to question {n}"} for n in range(1, 11)]


@pytest.fixture
def suite() -> rm.Suite:
    return rm.Suite(["rouge", "context_recall", "context_precision"], judge=rm.ScriptedJudge())


def evaluated(chain: Any, suite: rm.Suite, data: Any = DATA, **options: Any) -> rm.Report:
    return rm.evaluate_chain(chain, data, suite, **{"progress": False, "log": False, **options})


def test_answers_and_contexts_come_from_the_chain(suite: rm.Suite, plain: Any) -> None:
    data = [{**row, "gold_doc_ids": ["main-1"]} for row in DATA]
    report = evaluated(plain, suite, data)

    assert list(report.table["id"]) == [row["id"] for row in DATA]
    assert list(report.table["answer"]) == [row["reference"] for row in DATA]
    assert report.table["contexts"][2] == ["main: on question 3", "main: more on question 3"]
    assert report.table["retrieved_doc_ids"][2] == ["main-1", "main-2"]
    assert report.metrics["rouge1_f1/mean"] == 1.0
    assert report.metrics["context_precision/mean"] == 0.5


@pytest.mark.parametrize("kind", ["dict", "graph", "agent", "artifact"], indirect=True)
def test_inputs_take_the_chain_s_shape(chain: Any) -> None:
    report = evaluated(chain, rm.Suite(["rouge"]), DATA[:2])
    assert list(report.table["answer"]) == ["answer to question 1", "answer to question 2"]
    assert report.table["contexts"][1][0] == "main: on question 2"


def test_a_question_goes_where_the_chain_looks_for_it(suite: rm.Suite) -> None:
    by_key = itemgetter("question") | RunnableLambda(lambda question: f"answer to {question}")
    other = RunnableLambda(lambda given: f"answer to {given['odd']}")
    gold = [{**row, "gold_doc_ids": []} for row in DATA[:2]]
    rouge = rm.Suite(["rouge"])
    for chain, options in (
        (RunnablePassthrough.assign(x=itemgetter("question")) | by_key, {}),
        (other, {"input_key": "odd"}),
        (other, {"make_input": lambda sample: {"odd": sample.question}}),
    ):
        report = evaluated(chain, rouge, gold, **options)
        assert report.metrics["rouge1_f1/mean"] == 1.0


def test_usage_is_that_of_this_evaluation_alone(plain: Any) -> None:
    suite = rm.Suite(["faithfulness"], judge=ChatJudge(dutiful(), calls="full"))
    first, second = evaluated(plain, suite, DATA[:2]), evaluated(plain, suite, DATA[2:4])
    assert first.usage["calls"] == second.usage["calls"] == 4


def test_failing_rows_stay_as_rows(plain: Any) -> None:
    def fail_on_3(question: str) -> str:
        if question == "question 3":
            raise ValueError("no such page")
        return question

    report = evaluated(
        RunnableLambda(fail_on_3) | plain, rm.Suite(["rouge", "answer_relevance"], judge=rm.ScriptedJudge(rating=5))
    )

    assert len(report) == 10
    failed = report.rows[2]
    assert {score.status for score in failed.scores.values()} == {"error"}
    assert "no such page" in failed.scores["rouge1_f1"].reason
    assert report.metrics["rouge1_f1/n_error"] == 1
    assert report.metrics["rouge1_f1/n_scored"] == 9
    assert [row.index for row in report.rows] == list(range(10))


def test_a_chain_that_always_fails_is_a_report_of_errors() -> None:
    def fail(_: Any) -> str:
        raise ValueError("closed")

    with pytest.warns(UserWarning, match=r"the chain failed on all rows \(10\); first error: ValueError: closed"):
        report = evaluated(RunnableLambda(fail), rm.Suite(["rouge"]))
    counts = {"n_scored": 0, "n_skipped": 0, "n_error": 10, "n_measured": 0}
    assert report.metrics == {f"rouge1_f1/{name}": count for name, count in counts.items()}
    assert "failed on all rows (10)" in str(report.incomplete)


def test_what_is_missing_is_said_before_the_chain_runs(suite: rm.Suite) -> None:
    calls: list[str] = []
    with pytest.raises(MissingFieldError, match="gold_doc_ids"):
        evaluated(RunnableLambda(calls.append), suite)
    with pytest.raises(InvalidDataError):
        evaluated(RunnableLambda(calls.append), suite, [])
    with pytest.raises(InvalidOptionError, match="concurrency"):
        evaluated(RunnableLambda(calls.append), suite, concurrency=0)
    assert calls == []


def test_columns_and_frames(plain: Any) -> None:
    frame = pd.DataFrame({"ask": ["question 1"], "gold": ["answer to question 1"]})
    report = evaluated(plain, rm.Suite(["rouge"]), frame, columns={"question": "ask", "reference": "gold"})
    assert report.table["answer"][0] == "answer to question 1"


def test_concurrency_is_bounded_and_used() -> None:
    active, most, lock = 0, 0, threading.Lock()

    def slow(question: str) -> str:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        time.sleep(0.02)
        with lock:
            active -= 1
        return question

    evaluated(RunnableLambda(slow), rm.Suite(["rouge"]), concurrency=3)
    assert most == 3


def test_no_retriever_is_a_warning_and_no_vacuous_score() -> None:
    chain, judge = RunnableLambda(lambda question: question), rm.ScriptedJudge(facts=[])
    report = evaluated(chain, rm.Suite(["faithfulness(on_missing='skip')", "rouge"], judge=judge))
    assert {row.scores["faithfulness"].status for row in report.rows} == {"skipped"}
    assert report.warnings == ("10 of 10 answers were given without any retrieval: skipped by faithfulness",)


def test_no_retriever_is_an_error_for_a_metric_that_was_named() -> None:
    suite = rm.Suite(["faithfulness", "rouge"], judge=rm.ScriptedJudge(facts=[]))
    with pytest.raises(MissingFieldError, match=r"no answer had any retrieval.*contexts=") as caught:
        evaluated(RunnableLambda(lambda question: question), suite)
    assert caught.value.report.metrics["rouge1_f1/n_scored"] == 10


def test_no_context_settles_what_no_retriever_means() -> None:
    suite = rm.Suite(["faithfulness(no_context='floor')"], judge=rm.ScriptedJudge(facts=[]))
    report = evaluated(RunnableLambda(lambda question: question), suite)
    assert [row.scores["faithfulness"].value for row in report.rows] == [0.0] * 10
    assert report.warnings == ()


@pytest.fixture
def autolog() -> Iterator[None]:
    mlflow.langchain.autolog()
    yield
    mlflow.langchain.autolog(disable=True)


def test_logged_into_a_run(plain: Any) -> None:
    report = evaluated(plain, rm.Suite(["rouge"]), log=True, run_name="version B")

    (run,) = mlflow.search_runs(output_format="list")
    assert (run.info.run_name, run.info.status) == ("version B", "FINISHED")
    assert run.data.metrics["rouge1_f1/mean"] == report.metrics["rouge1_f1/mean"] == 1.0
    assert run.data.params["chain"] == "RunnableSequence"


def test_scores_go_onto_the_chain_s_own_traces(autolog: None, plain: Any) -> None:
    evaluated(plain, rm.Suite(["rouge"]), DATA[:3], log=True)

    mlflow.flush_trace_async_logging()
    traces = mlflow.search_traces(["0"], return_type="list")
    assert sorted(trace.data.request for trace in traces) == [f'"{row["question"]}"' for row in DATA[:3]]
    assert [[each.value for each in trace.info.assessments] for trace in traces] == [[1.0]] * 3


async def _answered(question: str) -> str:
    await asyncio.sleep(0)
    return f"answer to {question}"


def _answer(question: str) -> str:
    return f"answer to {question}"


class Asked(TypedDict, total=False):
    question: str
    answer: str


def async_graph() -> Any:
    """A graph with an async-only node."""
    from langgraph.graph import START, StateGraph

    async def tell(state: Asked) -> Asked:
        return {"answer": await _answered(state["question"])}

    return StateGraph(Asked).add_node("tell", tell).add_edge(START, "tell").compile()


@pytest.mark.parametrize(
    "target",
    [_answer, _answered, RunnableLambda(_answered), async_graph()],
    ids=["sync", "async", "async chain", "async graph"],
)
def test_functions_and_chains_that_can_only_be_awaited(target: Any) -> None:
    report = evaluated(target, rm.Suite(["rouge"]))
    assert report.metrics["rouge1_f1/mean"] == 1.0
    inside = asyncio.run(rm.aevaluate_chain(target, DATA, rm.Suite(["rouge"]), progress=False, log=False))
    assert list(inside.table["answer"]) == list(report.table["answer"])


def test_an_awaited_chain_runs_in_the_caller_s_loop() -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    async def note(question: str) -> str:
        loops.add(asyncio.get_running_loop())
        return question

    async def evaluate() -> asyncio.AbstractEventLoop:
        await rm.aevaluate_chain(note, DATA, rm.Suite(["rouge"]), progress=False, log=False)
        return asyncio.get_running_loop()

    callers = asyncio.run(evaluate())
    assert loops == {callers}


def answer_of(target: Any, *, awaited: bool) -> str:
    """The answer of a chain to one row, or its error; a chain that hangs is an error after a while."""
    if awaited:
        report = asyncio.run(rm.aevaluate_chain(target, DATA[:1], ["rouge"], progress=False, log=False, timeout=30))
    else:
        report = evaluated(target, rm.Suite(["rouge"]), DATA[:1], timeout=30)
    (row,) = report.rows
    return str(row.sample.answer or row.scores["rouge1_f1"].error)


@pytest.mark.parametrize("awaited", [False, True])
def test_an_async_chain_may_evaluate_another_one_if_it_awaits_it(awaited: bool) -> None:
    async def evaluate(question: str) -> str:
        report = await rm.aevaluate_chain(_answered, [{"question": question}], ["coherence"], log=False)
        return str(report.rows[0].sample.answer)

    async def block(question: str) -> str:
        return str(rm.evaluate_chain(_answered, [{"question": question}], ["coherence"], log=False, timeout=5))

    assert answer_of(RunnableLambda(evaluate), awaited=awaited) == "answer to question 1"
    assert "await aevaluate_chain instead" in answer_of(RunnableLambda(block), awaited=awaited)


def test_a_question_may_be_a_list_of_messages() -> None:
    from langchain_core.messages import HumanMessage
    from langgraph.graph import START, MessagesState, StateGraph

    turns = [("user", "Is there a tower?"), ("assistant", "Yes."), ("user", "How high?")]
    told = [{"role": role, "content": text} for role, text in turns]

    def tell(state: Any) -> Any:
        return {"messages": [AIMessage(" ".join(str(each.content) for each in state["messages"]))]}

    graph = StateGraph(MessagesState).add_node("tell", tell).add_edge(START, "tell").compile()
    data = [{"question": turns}, {"question": told}, {"messages": told}, {"question": [HumanMessage("How high?")]}]
    report = evaluated(graph, rm.Suite(["coherence"]), data)
    assert list(report.table["question"]) == ["How high?"] * 4
    assert list(report.table["answer"]) == ["Is there a tower? Yes. How high?"] * 3 + ["How high?"]
    history = RunnableLambda(lambda given: " ".join(each.content for each in given["chat_history"]))
    chain = RunnablePassthrough.assign(x=itemgetter("question"), y=itemgetter("chat_history")) | history
    data = [{"question": "How high?", "chat_history": turns[:2]}]
    assert list(evaluated(chain, rm.Suite(["coherence"]), data).table["answer"]) == ["Is there a tower? Yes."]


def test_without_any_retrieval_it_says_what_it_looked_at() -> None:
    chain = RunnableLambda(lambda question: {"said": f"answer to {question}", "score": 1})
    with pytest.raises(MissingFieldError, match="no retriever, tool, step, input or output gave documents or texts"):
        evaluated(chain, rm.Suite(["faithfulness"]), answer="said")


def test_what_is_no_chain_is_said() -> None:
    with pytest.raises(InvalidOptionError, match="neither a chain nor a function"):
        evaluated("chain", rm.Suite(["rouge"]))


@pytest.mark.parametrize("awaited", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_call_that_takes_too_long_is_that_row_s_error(awaited: bool) -> None:
    def slow(question: str) -> str:
        if question == "question 3":
            time.sleep(6)
        return question

    async def aslow(question: str) -> str:
        if question == "question 3":
            await asyncio.sleep(6)
        return question

    report = evaluated(aslow if awaited else slow, rm.Suite(["rouge"]), timeout=2.5)
    assert [row.scores["rouge1_f1"].status for row in report.rows].count("error") == 1
    assert "within 2.5 s" in str(report.rows[2].scores["rouge1_f1"].error)
    assert any("the chain failed on 1 of 10 rows" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    ("language", "said"), [("en", "the chain failed on 2 of 2 rows"), ("ru", "цепочка завершилась ошибкой на 2 из 2")]
)
def test_a_graph_that_halts_on_every_row_says_so(language: str, said: str) -> None:
    pytest.importorskip(
        "langgraph.callbacks", reason="before LangGraph 1.2 a graph that halts looks like one that ends"
    )
    from tests.adapters.langchain.programs import QUESTION, halting_graph

    suite = rm.Suite("coherence", language=language)
    with pytest.warns(UserWarning, match="it was interrupted before it gave"):
        report = rm.evaluate_chain(
            halting_graph(interrupt_before=["send"]), [{"question": QUESTION}] * 2, suite, log=False
        )
    assert report.metrics["coherence/n_error"] == 2
    assert any(warning.startswith(said) for warning in report.warnings)


def test_each_row_has_its_config_and_its_thread() -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    def answer(state: Any) -> Any:
        return {"messages": [{"role": "assistant", "content": str(len(state["messages"]))}]}

    graph = StateGraph(MessagesState).add_node("answer", answer)
    chain = graph.add_edge(START, "answer").add_edge("answer", END).compile(checkpointer=InMemorySaver())
    report = evaluated(chain, rm.Suite(["rouge"]))
    assert list(report.table["answer"]) == ["1"] * 10
    report = evaluated(chain, rm.Suite(["rouge"]), config=lambda sample: {"tags": [sample.id]})
    assert [row.sample.metadata["tags"] for row in report.rows] == [[f"row {n}"] for n in range(1, 11)]
    with pytest.raises(InvalidOptionError, match="thread_id"):
        evaluated(chain, rm.Suite(["rouge"]), config={"configurable": {"thread_id": "one"}})


def test_times_and_tokens_stand_beside_the_scores() -> None:
    usage: Any = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}

    def told(messages: Any) -> AIMessage:
        return AIMessage("so it is.", usage_metadata=usage, response_metadata={"token_usage": {"cost": 0.5}})

    chain = RunnableLambda(lambda question: question) | Model(reply=told)
    report = evaluated(chain, rm.Suite(["rouge"]), DATA[:3])
    figures = {name: report.metrics.get(f"{name}/mean") for name in ("input_tokens", "output_tokens", "cost")}
    assert figures == {"input_tokens": 7, "output_tokens": 3, "cost": 0.5}
    assert report.metrics["latency_seconds/n"] == 3
    assert 0 < report.metrics["latency_seconds/mean"] <= report.metrics["latency_seconds/p95"]


def test_an_interruption_hands_over_and_logs_the_rows_that_were_scored() -> None:
    def answer(question: str) -> str:
        if question == "question 7":
            raise KeyboardInterrupt
        return f"answer to {question}"

    with pytest.raises(KeyboardInterrupt) as caught:
        rm.evaluate_chain(answer, DATA, ["rouge"], concurrency=1, progress=False, log=True)
    report = caught.value.report
    assert report.incomplete == f"interrupted when {len(report)} of 10 rows were scored"
    assert 0 < len(report) < 7
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "FAILED"
    assert run.data.tags["ragmetrics.status"] == f"incomplete: {report.incomplete}"
    figures = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/rag_figures.json")
    assert figures["rouge1_f1/n_scored"] == len(report)


def test_a_cancelled_task_hands_over_the_rows_that_were_scored() -> None:
    asked = []

    async def answer(question: str) -> str:
        asked.append(question)
        await asyncio.sleep(0.02)
        return f"answer to {question}"

    async def cancelled() -> Any:
        data = [{**row, "id": f"{row['id']} {n}"} for n in range(40) for row in DATA]
        working = rm.aevaluate_chain(answer, data, ["rouge"], concurrency=2, progress=False, log=False)
        task = asyncio.create_task(working)
        while len(asked) < 30:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return (caught.value if sys.version_info >= (3, 11) else caught.value.__context__).report  # type: ignore[union-attr]

    report = asyncio.run(cancelled())
    assert 0 < len(report) < 400
    assert report.incomplete == f"interrupted when {len(report)} of 400 rows were scored"
