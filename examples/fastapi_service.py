"""A question-answering service with FastAPI whose answers are scored in the background while it serves.

Without arguments it serves itself a few questions and prints what was scored, with a stand-in for a model and words
as judge: no key, no network. As a service, alone or under gunicorn::

    python examples/fastapi_service.py
    uvicorn --app-dir examples fastapi_service:app
    gunicorn --chdir examples -k uvicorn.workers.UvicornWorker -w 4 --graceful-timeout 30 fastapi_service:app

``MODEL=openai:/gpt-4o-mini`` answers and judges with a real model. Results go to ``MLFLOW_TRACKING_URI``, else to
``sqlite:///mlflow.db``. Needs ``pip install fastapi uvicorn httpx gunicorn``.

Under gunicorn:

- Each worker makes its own handler when it starts (in ``lifespan``), so it needs no ``--preload``; with ``--preload``
  a handler that was made before the fork begins anew in each worker.
- Workers that are to write one run are given its id (``RUN_ID``); each writes its own part, and the run's tables hold
  all of them. Without it each worker makes a run of its own.
- On SIGTERM a worker finishes its requests, then ``lifespan`` closes the handler, which writes what waits, for at most
  ``FLUSH_SECONDS``. Keep that below ``--graceful-timeout`` and below Kubernetes'
  ``terminationGracePeriodSeconds``. What the store does not take in that time waits on disk for the next handler.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mlflow
from fastapi import FastAPI, Request
from pydantic import BaseModel
from score_a_chain import made_chain, read_questions

import mlflow_ragmetrics as rm

MODEL = os.environ.get("MODEL")
FLUSH_SECONDS = 20.0


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One chain and one handler for all requests of this worker."""
    mlflow.set_tracking_uri(os.environ.get("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db"))
    mlflow.set_experiment("FastAPI service")
    suite = rm.Suite(["faithfulness", "answer_relevance"], judge=MODEL or "lexical")
    app.state.chain = made_chain(MODEL, count=2)
    app.state.handler = handler = rm.RagMetricsCallback(suite, run_id=os.environ.get("RUN_ID"), sample_rate=1.0)
    yield
    handler.close(FLUSH_SECONDS)


app = FastAPI(lifespan=lifespan)


class Question(BaseModel):
    question: str
    user: str | None = None


@app.post("/ask")
async def ask(asked: Question, request: Request) -> dict[str, str]:
    """The answer, at once; its scores come later."""
    state = request.app.state
    config: Any = {"callbacks": [state.handler], "metadata": {"user": asked.user}}
    return {"answer": await state.chain.ainvoke(asked.question, config)}


@app.get("/metrics")
def metrics(request: Request) -> dict[str, int]:
    """What became of the answers: watch ``dropped``, ``failed``, ``unwritten`` and ``lost``."""
    counts: dict[str, int] = request.app.state.handler.counts
    return counts


def main() -> None:
    """Serve a few questions without a port, and say what was scored."""
    from fastapi.testclient import TestClient

    with TestClient(app) as client:
        for row in read_questions()[:3]:
            answer = client.post("/ask", json={"question": row["question"], "user": "demo"}).json()["answer"]
            print(f"{row['question']}\n  {answer}")
        print(f"\nWhile it served: {client.get('/metrics').json()}")
    print(f"When it had ended: {app.state.handler.counts}")


if __name__ == "__main__":
    main()
