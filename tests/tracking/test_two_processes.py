"""Two processes log reports to one run: the run is complete, without duplicates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mlflow
import pytest

PROGRAM = """
import sys
import mlflow
import mlflow_ragmetrics as rm

run_id, prefix = sys.argv[1:]
rows = [{"id": f"{prefix}{n}", "question": "How high?", "answer": "It is high.", "contexts": ["It is high."]}
        for n in range(5)]
suite = rm.Suite(["faithfulness"], name_prefix=f"{prefix}_")
print(suite.evaluate(rows, progress=False).log(run_id=run_id))
"""


@pytest.mark.slow
@pytest.mark.parametrize("prefixes", [("a", "b"), ("a", "a")])
def test_two_processes_log_into_one_run(prefixes: tuple[str, str], mlflow_store: str, tmp_path: Path) -> None:
    mlflow.set_experiment("live")
    run_id = mlflow.start_run().info.run_id
    mlflow.end_run()
    environment = {**os.environ, "MLFLOW_TRACKING_URI": mlflow_store}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, run_id, prefix],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for prefix in prefixes
    ]
    ended = [(process.communicate(), process.returncode) for process in processes]
    assert [code for _, code in ended] == [0, 0], ended
    run = mlflow.get_run(run_id)
    assert run.data.tags["ragmetrics.status"] == "complete"
    for prefix in set(prefixes):
        assert run.data.metrics[f"{prefix}_faithfulness/mean"] == 1.0
    traces = mlflow.search_traces(filter_string=f"tags.`ragmetrics.run` = '{run_id}'", return_type="list")
    names = [trace.info.client_request_id for trace in traces]
    assert sorted(names) in ([f"{prefix}{n}" for n in range(5)] for prefix in prefixes)
    rows = mlflow.load_table("rag_rows.json", run_ids=[run_id])
    assert sorted(rows["id"]) == sorted(names)
