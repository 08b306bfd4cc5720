"""The messages of built-in questions, which change only on purpose: all stored figures were measured with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlflow_ragmetrics.core.question import Claims, Grade, Question, RelatedChunks, Tone, Verify
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.tasks import request_of
from tests.judges.fake_models import dutiful

RENDERED = json.loads(Path(__file__).with_name("rendered.json").read_text(encoding="utf-8"))
A, R, Q, CHUNKS = "It is red.\nIt is old.", "It is red.", "What is it?", ("A red thing.", "An old\nthing.")
BIG = Verify(("It is big.",), CHUNKS, role="reference")
CALLS: dict[str, list[Question[Any]]] = {
    "claims": [Claims(A)],
    "claims in a conversation": [Claims("Yes. Ask me.", question=Q, history=("user: Hello.", "assistant: Hello!"))],
    "single": [Claims(A, question=Q, passages=CHUNKS)],
    "single and related": [Claims(A, passages=CHUNKS), RelatedChunks(A, CHUNKS)],
    "claims of both": [Claims(A), Claims(R, role="reference")],
    "verify": [Verify(("It is red.", "It is\nold."), CHUNKS)],
    "verify with its question": [Verify(("It is red.",), CHUNKS, question=Q)],
    "related": [RelatedChunks(A, CHUNKS)],
    "related with its question": [RelatedChunks("Red.", CHUNKS, question=Q)],
    "compact contexts": [RelatedChunks(A, CHUNKS), Verify(("It is red.",), CHUNKS), BIG],
    "compact directions": [Verify(("a",), (R,), "reference"), Verify(("r",), (A,), "answer", role="reference")],
    "grades": [Grade("correctness", A, Q, R), Grade("answer_relevance", A, Q)],
    "correctness": [Grade("correctness", A, Q, R)],
    "several references": [Grade("correctness", A, Q, R), Grade("correctness", A, Q, "It is old.")],
    "relevance": [Grade("answer_relevance", A, Q)],
    "tone": [Tone("No idea.", "Unknown.", Q)],
}


@pytest.mark.parametrize("language", ["en", "ru"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_rendered_to_the_byte(name: str, language: str) -> None:
    request = request_of(CALLS[name], "single" if name.startswith("single") else "full")
    expected = RENDERED[f"{name} {language}"]
    messages = ChatJudge(dutiful(), language=language).messages(request)
    assert [list(message) for message in messages] == expected["messages"]
    assert request.reply_schema == expected["schema"]
    assert list(request.reply_schema["properties"]) == list(expected["schema"]["properties"])
