"""Keys given in every way, with errors in every layer: no output or file contains one."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from langchain_openai import ChatOpenAI

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.core.question import Rating
from mlflow_ragmetrics.errors import JudgeError
from tests.judges.misbehaving_server import Fault, Script, misbehaving_server

SECRET = "correct-horse-battery-staple-9000"
ROWS = [
    {
        "question": f"Who built {n}?",
        "answer": f"Tower {n} was built in 1889.",
        "reference": "It was.",
        "contexts": [f"Tower {n}."],
    }
    for n in range(3)
]


class Said:
    """All printed output, and the files."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, *values: object) -> None:
        self.texts.extend(map(str, values))

    def failing(self, call: Any) -> None:
        """Returns the traceback of a call that must raise one of our errors."""
        try:
            call()
        except rm.RagMetricsError:
            self.add(traceback.format_exc())
        else:
            pytest.fail("it must fail")


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any) -> Iterator[Said]:
    """Runs in a temporary folder with MLflow's store; at the end, everything is searched for the secret."""
    kept = Said()
    with caplog.at_level(logging.DEBUG):
        yield kept
    out = capfd.readouterr()
    assert SECRET not in "".join([*kept.texts, caplog.text, out.out, out.err])
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "given.json"]
    assert written  # at least the store
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]


def echoes(status: int) -> Fault:
    """A gateway that returns the request."""
    body = {
        "error": {"message": f"refused: Authorization: Bearer {SECRET}", "api_key": SECRET, "param": f"?k={SECRET}"}
    }
    return Fault(status=status, body=json.dumps(body).encode())


def told(report: rm.Report, said: Said) -> None:
    """Everything that a report can show or write, including errors."""
    said.add(report.rows, report.table.to_dict(), report.items.to_dict(), report.description, report.metrics)
    said.add(report.usage, report.warnings, repr(report))
    said.add(report.to_html(), report._repr_html_() if hasattr(report, "_repr_html_") else "")
    report.log(params={"api_key": SECRET, "address": f"https://user:{SECRET}@host/v1?api_key={SECRET}"})


@pytest.mark.parametrize("status", [400, 401, 403, 500])
def test_a_server_that_echoes_its_headers(status: int, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    with misbehaving_server(*[echoes(status)] * 1000) as server:
        for judge in _judges(server, monkeypatch):
            suite = rm.Suite(["correctness", "faithfulness"], judge=judge, cache="cache.db", retry={"attempts": 1})
            try:
                report = suite.evaluate(ROWS)
            except JudgeError as error:  # a refused key ends the evaluation
                said.add(traceback.format_exc())
                report = error.report  # type: ignore[attr-defined]
            told(report, said)
            once = judge if isinstance(judge, rm.ChatJudge) else rm.ChatJudge(judge, attempts=1)  # not a minute's wait
            said.failing(lambda judge=once: rm.score("faithfulness", ROWS[0], judge=judge))


def _judges(server: Script, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield rm.ChatJudge("openai:/one", base_url=server.url, api_key=SECRET, name="of an option", attempts=1)
    yield ChatOpenAI(model="two", base_url=server.url, api_key=SECRET, max_retries=0)
    address = server.url.replace("://", f"://user:{SECRET}@") + f"?api_key={SECRET}"
    yield rm.ChatJudge("openai:/three", base_url=address, api_key=SECRET, name="of an address", attempts=1)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    yield rm.ChatJudge("openai:/four", base_url=server.url, name="of the environment", attempts=1)


def test_a_suite_file(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_JUDGE", SECRET)  # a name that does not suggest a secret
    path = tmp_path / "suite.yaml"
    with misbehaving_server(*[echoes(500)] * 20) as server:
        path.write_text(
            f"metrics: [faithfulness]\ncache: c.db\nretry: {{attempts: 1}}\n"
            f"judges: [{{model: 'openai:/five', base_url: '{server.url}', api_key: '${{MY_JUDGE}}'}}]\n"
        )
        told(rm.Suite.from_yaml(path).evaluate(ROWS), said)
    outside = tmp_path.parent / "written.yaml"
    for text in (
        f"judges: [{{model: 'openai:/x', api_key: {SECRET}}}]",
        f"judges: [{{model: 'openai:/x', api_key: [{SECRET}]}}]",
    ):
        outside.write_text(f"preset: lexical\n{text}")
        said.failing(lambda: rm.Suite.from_yaml(outside))


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "given.json", "--tracking-uri", f"http://user:{SECRET}@127.0.0.1:1"),
        ("evaluate", "given.json", "--tracking-uri", f"postgresql://user:{SECRET}@127.0.0.1:1/db"),
        ("evaluate", "given.json", "--no-log", "--judge", f"no:/x?api_key={SECRET}"),
        ("evaluate", "given.json", "--no-log", "--judge", f"https://user:{SECRET}@host/v1"),
        ("compare", f"https://user:{SECRET}@host/a", "b"),
        ("doctor", "--tracking-uri", f"postgresql://user:{SECRET}@127.0.0.1:1/db"),
    ],
    ids=lambda words: " ".join(words[-2:]).replace(SECRET, "…"),
)
def test_the_command_line(words: tuple[str, ...], said: Said) -> None:
    Path("given.json").write_text(json.dumps(ROWS))
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code != 0
    said.add(result.output, "".join(traceback.format_exception(*(result.exc_info or ()))))
    assert isinstance(result.exception, SystemExit)


class Leaking:
    """A judge whose errors, or answers, contain its key, like those of some clients."""

    name = "leaking"

    def __init__(self, key: str, answers: bool = False) -> None:
        self.api_key, self._answers = key, answers

    def answer(self, questions: Any) -> list[Any]:
        if self._answers:
            return [Rating(4, "fine") for _ in questions]
        raise RuntimeError(f"401 for {self.api_key} at https://user:{self.api_key}@host/v1?api_key={self.api_key}")


def test_a_judge_of_ones_own(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", SECRET)
    told(rm.Suite(["faithfulness", "correctness"], judge=Leaking(SECRET), cache="c.db").evaluate(ROWS), said)
    said.failing(lambda: rm.score("faithfulness", ROWS[0], judge=Leaking(SECRET)))
