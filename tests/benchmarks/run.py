"""All figures in one table: ``python tests/benchmarks/run.py [--short] [benchmark …]``.

Contestants take turns, each in its own environment, which is made on first use (ragas and deepeval take minutes and
700 MB in the folder for temporary files). Seconds are CPU seconds of one round, the median of several, so that what
else the machine does counts little. ``--short`` does little work, with what is installed here: it shows that all of it
runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from contest import Figure

BENCHMARKS = (
    "rouge_speed",
    "lexical_suite",
    "engine_peers",
    "retrieval_speed",
    "mlflow_evaluate",
    "memory_stream",
    "import_time",
)


def show(figures: Sequence[Figure]) -> None:
    """One line a contestant: seconds, memory, and how many times our seconds it took."""
    for figure in figures:
        print(f"\n{figure.what}{f'   (target: {figure.target})' if figure.target else ''}")
        ours = figure.results[0]
        for result in figure.results:
            ratio = f"{result.seconds / ours.seconds:8.1f} ×" if ours.seconds and result is not ours else " " * 10
            if result is ours or result.returned is None or ours.returned is None:
                said = ""
            else:
                said = "   equal numbers" if result.returned == ours.returned else f"   {result.returned}"
            said = f"   {result.returned}" if result is ours and isinstance(result.returned, str) else said
            print(
                f"  {result.contestant:<34}{result.seconds:10.3f} s {ratio} {result.megabytes:7.0f} MB{said}",
                flush=True,
            )


def main() -> None:
    short = "--short" in sys.argv
    wanted = [name for name in sys.argv[1:] if not name.startswith("-")] or BENCHMARKS
    for name in wanted:
        show(import_module(name).figures(short))


if __name__ == "__main__":
    main()
