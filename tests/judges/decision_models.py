"""Scripted decision models: one of langchain-core 1.8, and one behind a real HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

KEY = "sk-test-0123456789abcdef"
Decide = Callable[[Mapping[str, Any], str, str], Any]
"""The state, a question's id and its kind (yes, choice, score) give a probability, or one for each label."""


def agreeing(state: Mapping[str, Any], name: str, kind: str) -> Any:
    """Yes to everything except contradictions, the first of all labels, grade 4 of 5 and 2 of 3."""
    if name.startswith("relevance"):
        return [0, 0, 1.0, 0]
    return {"yes": 0.1 if "contradicted" in name else 0.9, "choice": [1.0, 0, 0], "score": [0, 0, 0, 1.0, 0]}[kind]


@dataclass
class Script:
    """A model's decisions, the fault of its response, and the requests received: the state and the questions."""

    decide: Decide = agreeing
    spoil: Callable[[dict[str, Any]], Any] = lambda response: response
    statuses: list[tuple[int, str]] = field(default_factory=list)
    longest: int | None = None
    model: str = "luna"
    url: str = ""
    requests: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)

    def texts(self) -> list[str]:
        """The instructions of all questions received."""
        return [each["instructions"] for _, questions in self.requests for each in questions.values()]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        script, text = self.script, asked["input"][0]["content"][0]["text"]
        state = json.loads(text)
        script.requests.append((state, {each["name"]: each for each in asked["questions"]}))
        status, said = script.statuses.pop(0) if script.statuses else (200, "")
        if script.longest is not None and len(text) > script.longest:
            status, said = 400, "the input exceeds the context window: too many tokens"
        response: Any = {"error": {"message": said}}
        if status == 200:
            answers = [
                _on_the_wire(each, script.decide(state, each["name"], _kind(each))) for each in asked["questions"]
            ]
            usage = {"input_tokens": 200, "output_tokens": 8}
            response = script.spoil({"model": script.model, "answers": answers, "usage": usage})
        body = json.dumps(response).encode()
        self.send_response(status if self.path == "/v1/decisions" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


def _kind(question: Mapping[str, Any]) -> str:
    return {"predicate": "yes", "noul": "yes"}.get(question["type"], question["type"])


def _on_the_wire(question: Mapping[str, Any], decided: Any) -> dict[str, Any]:
    answer = {"type": question["type"], "name": question["name"]}
    if decided is None:
        return {"type": "refusal", "name": question["name"]}
    if question["type"] == "predicate":
        return {**answer, "probability": decided}
    answer["confidence"] = 0.5
    if question["type"] == "choice":
        labels = [each["value"] for each in question["choices"]]
        shares = [{"value": label, "probability": share} for label, share in zip(labels, decided, strict=True)]
        return {**answer, "choice": labels[0], "probabilities": shares}
    labels = [each["label"] for each in question["levels"]]
    levels = [{"value": n, "label": labels[n], "probability": share} for n, share in enumerate(decided)]
    return {**answer, "score": 0.0, "probabilities": levels}


@contextmanager
def decision_server(**script: Any) -> Iterator[Script]:
    """A local server with OpenAI's protocol for decisions."""
    pytest.importorskip("langchain_openai.decisions", reason="langchain-openai 1.7 has decision models")
    told = Script(**script)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"script": told}))
    told.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def openai_model(script: Script, **options: Any) -> Any:
    """``OpenAIDecisions`` of langchain-openai, connected to the server."""
    from langchain_openai.decisions import OpenAIDecisions

    return OpenAIDecisions(**{"model": "luna", "api_key": KEY, "base_url": script.url, **options})


def core_model(script: Script) -> Any:
    """A ``BaseDecisionModel`` of langchain-core 1.8 in this process."""
    decisions: Any = pytest.importorskip("langchain_core.decisions", reason="langchain-core 1.8 has decision models")

    class Scripted(decisions.BaseDecisionModel):  # type: ignore[misc]
        model: str = "luna"

        @property
        def _provider(self) -> str:
            return "scripted"

        def _classify(self, state: Any, questions: Any) -> Any:
            asked = {name: {**question.model_dump(), "name": name} for name, question in questions.items()}
            script.requests.append((state, asked))
            answers = {each: _typed(asked[each], script.decide(state, each, _kind(asked[each]))) for each in asked}
            usage = {"input_tokens": 200, "output_tokens": 8}
            response = script.spoil({"model": script.model, "answers": answers, "usage": usage})
            return decisions.ClassifierResponse.model_validate(response) if isinstance(response, dict) else response

    return Scripted()


def _typed(question: Mapping[str, Any], decided: Any) -> dict[str, Any]:
    kind = question["type"]
    if kind == "noul":
        return {"type": kind, "noul": decided}
    labels = list(question["criteria"])
    answer = {"type": kind, "confidence": 0.5}
    if kind == "choice":
        return {**answer, "choice": labels[0], "probabilities": dict(zip(labels, decided, strict=True))}
    return {**answer, "score": 0.0, "legend": dict(enumerate(labels)), "probabilities": dict(enumerate(decided))}
