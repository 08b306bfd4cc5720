from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from mlflow_ragmetrics.judges.chat.reply import parse_object, read_reply, reply_in_error

_VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)
_JSON = st.dictionaries(st.text(), _VALUES, min_size=1, max_size=3)


@given(
    _JSON,
    st.sampled_from(
        [
            "@",
            "Sure:\n```json\n@\n```",
            "<think>{maybe}</think>@",
            "[note] @",
            "Sure: ```\n@\n``` Hope this helps.",
            "so be it</think> @",
        ]
    ),
)
def test_an_object_is_found_whatever_stands_around_it(data: dict[str, object], around: str) -> None:
    text = around.replace("@", json.dumps(data))
    assert read_reply(AIMessage(text)).data == data


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"b": 0} {"a": 1}', {"a": 1}),
        ('{"b": 0} {"a": 1} {"c": 2}', None),
        ('{"a": {"a": 1}', None),
        ('{"a": 1} is what the text asks for', None),
        ('<think>{"a": 1}', None),
        ('<think>{"a": 1}</think> no, <think> or {"a": 1}', None),
        ('{"a": "a text with <think> in it"}', {"a": "a text with <think> in it"}),
        ('{"a": 1} or rather {"a": 2}', None),
        ('{"a": 1} I repeat: {"a": 1}', {"a": 1}),
        ('{"a": ', None),
        ("[1, 2]", None),
        ("", None),
        ("{" * 5000, None),
    ],
)
def test_what_is_nearly_json_is_read_and_nothing_else(text: str, found: dict[str, object] | None) -> None:
    assert parse_object(text, {"a"}) == found


def test_blocks_and_tool_calls_are_replies_too() -> None:
    blocks = AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": '{"grades": []}'}])
    assert read_reply(blocks, {"grades"}).data == {"grades": []}
    call = AIMessage("", tool_calls=[{"name": "reply", "args": {"grades": []}, "id": "1"}])
    assert read_reply(call, {"grades"}).data == {"grades": []}


def test_tokens_are_those_that_the_provider_tells() -> None:
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10, "input_token_details": {"cache_read": 5}}
    assert read_reply(AIMessage("{}", usage_metadata=usage)).tokens == {"input": 7, "output": 3, "cached": 5}
    assert read_reply(AIMessage("{}")).tokens == {}


@pytest.mark.parametrize("text", ["I cannot evaluate this.", "Извините, я не могу помочь.", "Sorry, no."])
def test_a_plain_refusal_is_one_and_a_reason_that_sounds_like_one_is_none(text: str) -> None:
    assert read_reply(AIMessage(text)).refused
    assert not read_reply(AIMessage(json.dumps({"reason": text}))).refused


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ('I cannot do what the text asks for: {"grades": [5]}', "stop"),
        ('I am unable to. ```json\n{"grades": [5]}\n```', "stop"),
        ('<think>perhaps {"grades": [5]}', "stop"),
        ('<think>perhaps {"grades": [5]}', "length"),
        ('The text quotes {"grades": [5]}', "length"),
        ('The text quotes {"grades": [5]} and', "stop"),
    ],
)
def test_what_a_reply_quotes_or_drafts_is_not_its_answer(text: str, ended: str) -> None:
    message = AIMessage(text, response_metadata={"finish_reason": ended})
    assert read_reply(message, {"grades"}).data is None


def test_an_error_about_a_long_reply_is_no_refusal() -> None:
    pytest.importorskip("openai")
    from openai import LengthFinishReasonError
    from openai.types.chat import ChatCompletion

    message = {"role": "assistant", "content": '{"grades": [5'}
    whole = {"id": "1", "created": 1, "model": "m", "object": "chat.completion"}
    choice = {"finish_reason": "length", "index": 0, "message": message}
    reply = reply_in_error(
        LengthFinishReasonError(completion=ChatCompletion.model_validate({**whole, "choices": [choice]}))
    )
    assert (reply.cut, reply.refused, reply.data, reply.text) == (True, False, None, '{"grades": [5')


def test_an_object_whose_texts_mention_thinking_is_whole() -> None:
    data = {"grades": [], "reason": "it holds </think> and <think>"}
    assert read_reply(AIMessage(json.dumps(data)), {"grades"}).data == data


_OBJECT = '{"grades": []}'


@pytest.mark.parametrize("piece", [" ", "</s>", "```{", "{", "} \n", f"{_OBJECT} ", "<|channel|>final", "<think>", "`"])
def test_long_replies_are_read_in_linear_time(piece: str) -> None:
    seconds = []
    for size in (100_000, 400_000):
        message = AIMessage(f"Sure. {piece * (size // len(piece))} x")
        began = time.process_time()
        read_reply(message, {"grades"}, "data " * 50)
        seconds.append(time.process_time() - began)
    assert seconds[1] < 10 * seconds[0] + 0.05
