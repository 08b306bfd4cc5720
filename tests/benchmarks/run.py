"""All figures in one table: ``python tests/benchmarks/run.py [--short] [part …]``.

The parts are the modules named below; each is also a command. Contestants take turns, each in its own process and
environment, which is created on first use (ragas and deepeval take minutes and 700 MB in the folder for temporary
files). The first column is the time relative to ours. Seconds are CPU seconds of one round, the median of several, so
that other work on the machine has little effect. Everything takes about a quarter of an hour; a part that fails or
takes twenty minutes is reported, and the next one starts. ``--short`` does little work, with the installed packages, to
show that everything runs.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

PARTS = (
    "import_time",
    "rouge_speed",
    "lexical_suite",
    "retrieval_speed",
    "engine_peers",
    "report_log",
    "mlflow_evaluate",
    "memory_stream",
)
_LONGEST = 1200


def run(part: str, flags: list[str]) -> bool:
    """Whether the part printed its figures in time."""
    command = [sys.executable, str(Path(__file__).with_name(f"{part}.py")), *flags]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(timeout=_LONGEST) == 0
    except subprocess.TimeoutExpired:
        print(f"\n{part}: stopped after {_LONGEST} s", flush=True)
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # including the contestants
            process.wait()


def main() -> None:
    flags = [argument for argument in sys.argv[1:] if argument.startswith("-")]
    parts = [argument for argument in sys.argv[1:] if not argument.startswith("-")] or PARTS
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    began = time.perf_counter()
    failed = [part for part in parts if not run(part, flags)]
    print(f"\n{time.perf_counter() - began:.0f} s", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
