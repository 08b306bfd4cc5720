"""Whatever a judge replies: usable findings or one of our errors, quickly."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Grade, RelatedChunks, Tone, Verify
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.judges.chat.reply import parse_object, read_reply
from mlflow_ragmetrics.judges.chat.tasks import request_of
from tests.faults.budget import in_time, inputs
from tests.faults.strange import texts
from tests.judges.fake_models import FakeChatModel

QUESTIONS = (
    Claims("A b c.", "answer"),
    Verify(("a", "b"), ("x y", "z")),
    RelatedChunks("a b", ("x y", "z")),
    Grade("correctness", "q", "a", "r"),
    Grade("answer_relevance", "q", "a"),
    Tone("q", "I do not know"),
)
KEYS = ("claims", "verdicts", "related", "grades")
words = st.one_of(
    texts, st.sampled_from(["c1", "c2", "p1", "p2", "answer", "correctness", "SUPPORTED", "4/5", "5", "NaN"])
)
inner = st.recursive(
    st.one_of(words, st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats()),
    lambda value: st.one_of(
        st.lists(value, max_size=4),
        st.dictionaries(
            st.sampled_from(["id", "claims", "verdict", "quotes", "passage", "text", "quote", "reason", "grade"]), value
        ),
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)


@inputs(300, 40_000)
@given(before=texts, content=objects, after=texts, cut=st.integers(0, 400))
def test_any_reply(before: str, content: dict[str, Any], after: str, cut: int) -> None:
    with in_time():
        reply = read_reply((before + json.dumps(content) + after)[: cut or None], KEYS)
        for data in (reply.data, content):
            for question in QUESTIONS:
                if data is not None:
                    assert set(request_of([question]).results(data)) == {question}


ROW = {"question": "Who?", "answer": "A b c. D e f.", "reference": "A b c.", "contexts": ["A b c.", "D e."]}
JUDGED = ("faithfulness", "chunk_precision", "fact_recall", "factual_correctness", "correctness", "answer_relevance")


@inputs(60, 4000)
@given(
    name=st.sampled_from(JUDGED),
    replies=st.lists(st.one_of(texts, objects.map(json.dumps), st.tuples(texts, objects.map(json.dumps)).map("".join))),
)
def test_any_chat(name: str, replies: list[str]) -> None:
    left = iter(replies)
    judge = rm.ChatJudge(FakeChatModel(reply=lambda _: next(left, "")), attempts=1)
    with in_time(2), contextlib.suppress(RagMetricsError):
        score = rm.score(name, ROW, judge=judge, on_missing="skip")
        assert score.value is None or 0 <= score.value <= 1
        assert not (score.error or "").startswith(("TypeError", "AttributeError", "KeyError", "Unicode", "ValueError"))


@pytest.mark.parametrize(
    "text",
    ['{"a":' * 200_000, '{"a":[' * 160_000, "[{" * 500_000, '{"' * 500_000, ('{"a":[' + "1," * 1000) * 500, "!" * 10**6,
     "{" * 10**6, '{"a":1,' * 140_000, ",   " * 250_000, "<think>" * 140_000, '{"a":' + "9" * 10**6, '{"a":"' + '\\"{' * 300_000],  # noqa: E501
    ids=lambda text: text[:8],
)  # fmt: skip
def test_a_reply_built_to_take_long(text: str) -> None:
    with in_time(3):
        assert parse_object(text, KEYS) is None


def test_numbers_beyond_floats_are_no_grades() -> None:
    for number in ("1" + "0" * 400, "1e999", "NaN", "9" * 5000):
        data = parse_object('{"grades": [{"id": "correctness", "reason": "", "grade": ' + number + "}]}")
        question = Grade("correctness", "q", "a", "r")
        assert data is None or "grade" in str(request_of([question]).results(data)[question])
