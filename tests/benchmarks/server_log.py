"""``report.log`` and ``mlflow.genai.evaluate`` over HTTP, in turn: an ``mlflow server`` with PostgreSQL behind it.

Run it from the repository: ``python -m tests.benchmarks.server_log [rows] [rounds]`` (default: 1,000 and 1).
Both write a trace per row with six scores and a reference. Wall time per row, and the CPU time of client, server and
database; the rate limit of ``mlflow.genai.evaluate`` is off, and its scorers compute nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.docker.services import PASSWORD, postgres, postgres_binaries
from tests.mlflow_server import Server, free_port

_WORDS = 60


def client(contestant: str, address: str, size: int) -> None:
    """One contestant's process: does the work for each line of input, then counts the results on the server."""
    sys.path.insert(0, str(Path(__file__).parent))
    import mlflow
    from texts import records

    replies, sys.stdout = sys.stdout, sys.stderr
    mlflow.set_tracking_uri(address)
    mlflow.set_experiment(contestant)
    run = {"report.log": _ours, "genai.evaluate": _genai}[contestant](records(size, _WORDS))
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        run_id = run()
        used = {"wall": time.perf_counter() - wall, "client": time.process_time() - cpu}
        print(json.dumps(used), file=replies, flush=True)
        sys.stdin.readline()
        traces = mlflow.search_traces(run_id=run_id, return_type="list", include_spans=False, max_results=size + 1)
        stored = {"traces": len(traces), "assessments": sum(len(trace.info.assessments) for trace in traces)}
        print(json.dumps(stored), file=replies, flush=True)


def _ours(rows: list[dict[str, Any]]) -> Callable[[], str]:
    import mlflow_ragmetrics as rm

    suite = rm.Suite.preset("lexical")
    suite.evaluate(rows[:2], progress=False).log()
    reports = [suite.evaluate(rows, progress=False) for _ in range(9)]
    return lambda: reports.pop().log()


def _genai(rows: list[dict[str, Any]]) -> Callable[[], str]:
    import mlflow
    from mlflow.genai.scorers import scorer

    def constant(number: int) -> Any:
        def score(outputs: str) -> float:
            return float(number)

        score.__name__ = f"score_{number}"
        return scorer(score)

    data = [
        {
            "inputs": {"question": row["question"]},
            "outputs": row["answer"],
            "expectations": {"expected_response": row["reference"]},
        }
        for row in rows
    ]
    scorers = [constant(number) for number in range(6)]
    mlflow.genai.evaluate(data=data[:2], scorers=scorers)
    return lambda: str(mlflow.genai.evaluate(data=data, scorers=scorers).run_id)


def _cpu_seconds(process: int) -> float:
    """The CPU seconds of a process and its descendants."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:  # it has ended, and its time counts for its parent
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(_cpu_seconds, map(int, children)))


def main(size: int, rounds: int) -> None:
    binaries, port = postgres_binaries(), free_port()
    if binaries is None:
        sys.exit("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with tempfile.TemporaryDirectory() as name, postgres(binaries, port):
        (database,) = (int(each) for each in _children() if "postgres" in Path(f"/proc/{each}/comm").read_text())
        server = Server(Path(name), f"postgresql+psycopg2://mlflow:{PASSWORD}@127.0.0.1:{port}/mlflow")
        processes: dict[str, subprocess.Popen[str]] = {}
        try:
            server.start()
            processes |= {each: _start(each, server.url, size, name) for each in ("report.log", "genai.evaluate")}
            for _ in range(rounds):
                for contestant, process in processes.items():
                    assert server.process is not None
                    others = {"server": server.process.pid, "database": database}
                    before = {each: _cpu_seconds(number) for each, number in others.items()}
                    used = _told(process)
                    used |= {each: _cpu_seconds(number) - before[each] for each, number in others.items()}
                    each_row = ", ".join(f"{part} {1000 * seconds / size:.1f}" for part, seconds in used.items())
                    print(f"{contestant:15} ms a row: {each_row}; {_told(process)}; load {os.getloadavg()[0]:.1f}")
        finally:
            for process in processes.values():
                process.kill()
            server.kill()


def _children() -> list[str]:
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()


def _start(contestant: str, address: str, size: int, folder: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "MLFLOW_GENAI_EVAL_SCORER_RATE_LIMIT": "0", "TQDM_DISABLE": "1"}
    command = [sys.executable, "-m", "tests.benchmarks.server_log", contestant, address, str(size)]
    with Path(folder, "said").open("ab") as said:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, env=environment
        )


def _told(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    told: dict[str, float] = json.loads(process.stdout.readline())
    return told


if __name__ == "__main__":
    given = sys.argv[1:]
    if len(given) == 3:
        client(given[0], given[1], int(given[2]))
    else:
        main(*[int(each) for each in given] + [1000, 1][len(given) :])
