"""``ragmetrics evaluate`` killed at random moments: resumed to the end, its table is that of an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.faults.budget import LONG

_KILLS = 50 if LONG else 3
_JUDGE = """
import sys, time
import mlflow_ragmetrics.judges.lexical as lexical
from mlflow_ragmetrics.cli import main

class Slow(lexical.LexicalJudge):
    local, fingerprint, name = False, "slow", "lexical"
    def answer(self, questions):
        with open("asked", "a") as log:
            log.write("".join(repr(question).replace("\\n", " ") + "\\n" for question in questions))
        time.sleep(0.02)
        return super().answer(questions)

import mlflow_ragmetrics.judges.resolve as resolve
resolve.LexicalJudge = lexical.LexicalJudge = Slow
sys.argv[0] = "ragmetrics"
main()
"""
_IGNORED = ("duration", "judge")


def command(folder: Path) -> list[str]:
    (folder / "judge.py").write_text(_JUDGE, encoding="utf-8")
    rows = [
        {
            "question": f"Who built {n}?",
            "answer": f"Tower {n} was built in 1889. It is {n} m high.",
            "contexts": [f"Tower {n}."],
        }
        for n in range(60)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = ["-m", "faithfulness", "-m", "answer_relevance", "--no-log", "--cache", "c.db", "-o", "out.jsonl"]
    return [sys.executable, "judge.py", "evaluate", "rows.jsonl", *options]


def table(folder: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in row.items() if not any(part in name for part in _IGNORED)} for row in rows]


def test_killed_and_resumed(tmp_path: Path) -> None:
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    calm.mkdir()
    disturbed.mkdir()
    subprocess.run(command(calm), cwd=calm, check=True, capture_output=True, timeout=120)
    asked = (calm / "asked").read_text().count("\n")
    call = command(disturbed)
    moments = random.Random(7)
    for _ in range(_KILLS):
        log = disturbed / "asked"
        before = log.stat().st_size if log.exists() else 0
        with subprocess.Popen(call, cwd=disturbed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and (log.stat().st_size if log.exists() else 0) == before:
                time.sleep(0.005)
            time.sleep(moments.uniform(0, 0.1))
            os.kill(process.pid, signal.SIGKILL) if process.poll() is None else None
    subprocess.run(call, cwd=disturbed, check=True, capture_output=True, timeout=120)
    again = (disturbed / "asked").read_text().count("\n")
    assert table(disturbed) == table(calm)
    assert asked <= again <= asked + 16 * _KILLS
