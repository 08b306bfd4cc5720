"""Decide whether the new version is better than the old one or the difference is noise. Exits with 1 if it is worse.

python examples/compare_and_gate.py
python examples/compare_and_gate.py old.jsonl new.jsonl --judge openai:/gpt-4o-mini --tolerance 0.02
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import mlflow_ragmetrics as rm

DATA = Path(__file__).parent / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", nargs="?", type=Path, default=DATA / "ragtruth_llama-2-13b.jsonl")
    parser.add_argument("new", nargs="?", type=Path, default=DATA / "ragtruth_gpt-4.jsonl")
    parser.add_argument("--judge", default="lexical", help="lexical (offline) or a model URI (default: lexical)")
    parser.add_argument("--tolerance", type=float, default=0.05, help="the largest difference that does not matter")
    parser.add_argument("--page", type=Path, default=Path("comparison.html"), help="where to write the page")
    arguments = parser.parse_args()

    suite = rm.Suite.preset("white_paper", judge=arguments.judge)
    old, new = suite.evaluate(arguments.old), suite.evaluate(arguments.new)
    comparison = rm.compare(old, new, tolerance=arguments.tolerance)

    print(comparison)
    comparison.to_html(arguments.page)
    print(f"\nThe rows that changed most are on the page {arguments.page}")
    try:
        comparison.check(fail_on=["regressed"])
        new.check(faithfulness=0.5, min_scored=0.95)
    except AssertionError as reasons:
        sys.exit(f"Gate closed: {reasons}")
    print("Gate open: no metric regressed, faithfulness reaches 0.5, at most 5 % of the rows failed.")


if __name__ == "__main__":
    main()
