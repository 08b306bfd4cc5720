"""A question is passed in the form that the chain's input schema requires."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pytest
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from mlflow_ragmetrics.adapters.langchain.chain import input_maker
from mlflow_ragmetrics.core.score import Sample

SAMPLE = Sample(question="why", metadata={"context": "known", "unrelated": 1})
TO_TEXT = RunnableLambda(str)


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (TO_TEXT, "why"),
        ({"a": itemgetter("question"), "b": itemgetter("question")} | TO_TEXT, {"question": "why"}),
        (RunnablePassthrough.assign(a=itemgetter("input")) | TO_TEXT, {"input": "why"}),
        (ChatPromptTemplate.from_template("{context} {question}") | TO_TEXT, {"context": "known", "question": "why"}),
        (ChatPromptTemplate.from_template("On {topic}") | TO_TEXT, {"topic": "why"}),
    ],
    ids=str,
)
def test_by_schema(chain: Any, expected: Any) -> None:
    assert input_maker(chain)(SAMPLE) == expected


def test_by_key() -> None:
    assert input_maker(TO_TEXT, "ask")(SAMPLE) == {"ask": "why"}


@pytest.mark.parametrize("kind", ["graph"], indirect=True)
def test_graphs(chain: Any) -> None:
    assert input_maker(chain)(SAMPLE) == {"question": "why"}


@pytest.mark.parametrize("kind", ["agent"], indirect=True)
def test_agents(chain: Any) -> None:
    assert input_maker(chain)(SAMPLE) == {"messages": [{"role": "user", "content": "why"}]}
