"""The code to read to follow one piece of work: the files and functions on its path.

Run: ``python tests/benchmarks/path_counts.py [--list]``. Each path is followed in a new process, through all threads.
Called functions count (including decorators at import), functions that are only imported do not. ``--list`` names the
files.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

import mlflow_ragmetrics as rm

from harness import EXAMPLE  # isort: skip

PACKAGE = Path(rm.__file__).parent
REPLY = '{"grades": [{"id": "answer_relevance", "reason": "It says how high.", "grade": 4}]}'
JUDGED = """{"texts": [{"id": "t1", "none": [], "claims": [{"claim": "It is 330 metres high.", "sentences": [1],
"quotes": [{"passage": "p1", "text": "It is 330 m high."}], "reason": "So it says.", "support": 90,
"verdict": "SUPPORTED"}]}]}"""


def passed(action: Callable[[], object], warm_up: Callable[[], object] = lambda: None) -> set[CodeType]:
    """The package's functions that ``action`` calls, in this thread and in those it starts; no class bodies.

    What ``warm_up`` calls before does not count; its threads, which may serve ``action`` too, are followed.
    """
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        warm_up()
        found.clear()
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    functions = {code for code in found if code.co_flags & inspect.CO_OPTIMIZED}
    return {code for code in functions if code.co_filename.startswith(f"{PACKAGE}{os.sep}")}


def one_row() -> set[CodeType]:
    """``ragmetrics evaluate`` on one row with the white-paper suite, logged into a new SQLite store."""
    from mlflow_ragmetrics.cli import main

    with EXAMPLE.open(encoding="utf-8") as lines:
        Path("row.jsonl").write_text(next(lines), encoding="utf-8")
    arguments = ["evaluate", "row.jsonl", "--suite", "white_paper", "--tracking-uri", "sqlite:///row.db"]

    def evaluate() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert not main.main(arguments, standalone_mode=False), "the command failed"

    return passed(evaluate)


def one_question() -> set[CodeType]:
    """One metric that asks one question: through the engine and a chat judge to the model's reply, and back."""
    model = FakeListChatModel(responses=[REPLY])
    suite = rm.Suite(["answer_relevance"], judge=rm.ChatJudge(model))
    sample = rm.Sample(id="1", question="How high is the tower?", answer="It is 330 metres high.")
    rows: list[Any] = []
    found = passed(lambda: rows.extend(suite.score_samples([sample])))
    assert rows[0].scores["answer_relevance"].status == "ok", rows[0].scores
    return found


def one_score() -> set[CodeType]:
    """``rm.score`` of faithfulness with a chat judge, the second time."""
    judge = rm.ChatJudge(FakeListChatModel(responses=[JUDGED]))
    row = {"question": "How high is the tower?", "answer": "It is 330 metres high.", "contexts": ["It is 330 m high."]}

    def score() -> None:
        assert rm.score("faithfulness", row, judge=judge).value == 1.0

    return passed(score, warm_up=score)


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page_content="The tower is 330 metres high.", id="1")]


def one_chain_run() -> set[CodeType]:
    """A chain with a retriever, run once, scored by two metrics in the background and written to a new SQLite store."""
    import mlflow

    mlflow.set_tracking_uri("sqlite:///chain.db")
    mlflow.set_experiment("one chain run")
    gather = {"context": Shelf(), "question": RunnablePassthrough()}
    chain = gather | RunnableLambda(lambda state: f"{state['question']} It is 330 metres high.")
    suite = rm.Suite(["faithfulness", "lexical_relevance"])
    with mlflow.start_run() as run, rm.RagMetricsCallback(suite) as handler:

        def invoke() -> None:
            chain.invoke("How high is the tower?", {"callbacks": [handler]})
            assert handler.flush(timeout=120)

        found = passed(invoke)
        assert mlflow.MlflowClient().get_run(run.info.run_id).data.metrics, "nothing was written to MLflow"
    return found


PATHS = {
    "one row on the main job": (50, one_row),
    "one judged question": (17, one_question),
    "one warm score": (25, one_score),
    "one chain run": (28, one_chain_run),
}
"""The most files that may be on each path, and the function that follows it."""


def show_paths(listed: bool) -> None:
    print(f"{'path':28}{'files':>7}{'bar':>6}{'functions':>11}")
    for name, (bar, _) in PATHS.items():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            command = [sys.executable, os.path.abspath(__file__), "--follow", name]
            environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        lines = [line.split(" ", 2)[1:] for line in done.stdout.splitlines() if line.startswith("PASSED ")]
        files = sorted({file for file, _ in lines})
        functions = sum(not function.startswith("<") for _, function in lines)
        print(f"{name:28}{len(files):>7}{bar:>6}{functions:>11}", flush=True)
        if listed:
            print(*(f"    {file}" for file in files), sep="\n")


if __name__ == "__main__":
    if "--follow" in sys.argv:
        for code in PATHS[sys.argv[-1]][1]():
            print(f"PASSED {Path(code.co_filename).relative_to(PACKAGE).as_posix()} {code.co_name}")
    else:
        show_paths("--list" in sys.argv)
