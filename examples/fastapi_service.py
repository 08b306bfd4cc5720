"""Score the answers of a FastAPI service in the background while it serves.

Run it directly to answer a few questions and print the scores, with a stand-in model and the offline judge.
To serve, alone or under gunicorn::

    python examples/fastapi_service.py
    uvicorn --app-dir examples fastapi_service:app
    gunicorn --chdir examples -k uvicorn.workers.UvicornWorker -w 4 --graceful-timeout 30 fastapi_service:app

``MODEL=openai:/gpt-4o-mini`` answers and judges with a real model. Results go to ``MLFLOW_TRACKING_URI``, by default
``sqlite:///mlflow.db``. Needs ``pip install fastapi uvicorn httpx gunicorn``.

Each gunicorn worker makes its own handler. Give all workers one ``RUN_ID`` to write into one run; otherwise each makes
its own. On SIGTERM a worker finishes its requests and then writes what waits, for at most ``FLUSH_SECONDS``: keep that
below ``--graceful-timeout``. The rest stays on disk for the next handler.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mlflow
from corpus.chain import made_chain, read_questions
from fastapi import FastAPI, Request
from pydantic import BaseModel

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
    """Answer at once; the scores come later."""
    state = request.app.state
    config: Any = {"callbacks": [state.handler], "metadata": {"user": asked.user}}
    return {"answer": await state.chain.ainvoke(asked.question, config)}


@app.get("/metrics")
def metrics(request: Request) -> dict[str, int]:
    """Counts of answers: watch ``dropped``, ``failed``, ``unwritten`` and ``lost``."""
    counts: dict[str, int] = request.app.state.handler.counts
    return counts


def main() -> None:
    """Answer a few questions without opening a port, and print the scores."""
    from fastapi.testclient import TestClient

    with TestClient(app) as client:
        for row in read_questions()[:3]:
            answer = client.post("/ask", json={"question": row["question"], "user": "demo"}).json()["answer"]
            print(f"{row['question']}\n  {answer}")
        print(f"\nWhile it served: {client.get('/metrics').json()}")
    print(f"When it had ended: {app.state.handler.counts}")


if __name__ == "__main__":
    main()
