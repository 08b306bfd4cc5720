"""The judge's own time: 200 rows, 16 requests in flight, half a second a reply; prints wall time over the ideal.

Run it from the repository: ``python -m tests.benchmarks.judge_overhead``.
"""

from __future__ import annotations

import math
import os
import time

import mlflow_ragmetrics as rm
from tests.judges.misbehaving_server import misbehaving_server

ROWS, IN_FLIGHT, REPLY = 200, 16, 0.5


def main() -> None:
    """Run once and print the ratio."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    rows = [
        {"id": str(i), "question": "What?", "answer": f"Answer {i}.", "reference": "That.", "contexts": ["That."]}
        for i in range(ROWS)
    ]
    with misbehaving_server(delay=REPLY) as server:
        suite = rm.Suite(
            ["correctness"], judge=rm.ChatJudge("openai:/local", base_url=server.url), concurrency=IN_FLIGHT
        )
        suite.evaluate(rows[:IN_FLIGHT])  # imports, threads and connections are not the question
        before, began = len(server.requests), time.perf_counter()
        suite.evaluate(rows)
        wall, requests = time.perf_counter() - began, len(server.requests) - before
    ideal = math.ceil(requests / IN_FLIGHT) * REPLY
    print(f"{requests} requests, wall {wall:.2f} s, ideal {ideal:.2f} s, wall/ideal {wall / ideal:.3f}")


if __name__ == "__main__":
    main()
