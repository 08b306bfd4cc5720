"""The judge's own time: 200 rows, 16 requests in flight, half a second per reply; prints wall time over the ideal.

Then the CPU time of 200 rows and six metrics whose judge is a LangChain model that answers at once, compared with that
of the same ``model.invoke`` calls alone. Run it from the repository: ``python -m tests.benchmarks.judge_overhead``.
"""

from __future__ import annotations

import math
import os
import time

import mlflow_ragmetrics as rm
from tests.benchmarks.engine_overhead import FULL_SET, rows_of
from tests.judges.fake_models import dutiful
from tests.judges.misbehaving_server import misbehaving_server

ROWS, IN_FLIGHT, REPLY = 200, 16, 0.5


def main() -> None:
    """Runs once and prints the ratio."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    rows = [
        {"id": str(i), "question": "What?", "answer": f"Answer {i}.", "reference": "That.", "contexts": ["That."]}
        for i in range(ROWS)
    ]
    with misbehaving_server(delay=REPLY) as server:
        suite = rm.Suite(
            ["correctness"], judge=rm.ChatJudge("openai:/local", base_url=server.url), concurrency=IN_FLIGHT
        )
        suite.evaluate(rows[:IN_FLIGHT])  # excludes imports, threads and connections
        before, began = len(server.requests), time.perf_counter()
        suite.evaluate(rows)
        wall, requests = time.perf_counter() - began, len(server.requests) - before
    ideal = math.ceil(requests / IN_FLIGHT) * REPLY
    print(f"{requests} requests, wall {wall:.2f} s, ideal {ideal:.2f} s, wall/ideal {wall / ideal:.3f}")


def beyond_the_model() -> None:
    """Judges once, repeats the calls without the package, and prints both times."""
    model, six = dutiful(), [name for name in FULL_SET if name != "fact_recall"]
    suite = rm.Suite(six, judge=model, concurrency=IN_FLIGHT)
    suite.evaluate(rows_of(IN_FLIGHT), progress=False)
    model.sent.clear()
    began = time.process_time()
    report = suite.evaluate(rows_of(ROWS), progress=False)
    ours = time.process_time() - began
    assert all(report.metrics[f"{key}/n_scored"] == ROWS for key in report.keys)
    sent = list(model.sent)
    began = time.process_time()
    for messages in sent:
        model.invoke(messages, config={"callbacks": []})
    alone = time.process_time() - began
    each = 1000 / ROWS
    print(
        f"{len(sent) / ROWS:.0f} calls and {ours * each:.2f} ms CPU a row, {alone * each:.2f} of them model.invoke, "
        f"{(ours - alone) * each:.2f} ours"
    )


if __name__ == "__main__":
    main()
    beyond_the_model()
