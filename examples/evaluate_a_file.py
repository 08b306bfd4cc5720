"""Score a file of answers, see what is wrong with the worst of them, and log everything to MLflow.

python examples/evaluate_a_file.py
python examples/evaluate_a_file.py my_answers.csv --judge openai:/gpt-4o-mini
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mlflow_ragmetrics as rm

DATA = Path(__file__).parent / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=DATA / "ragtruth_llama-2-13b.jsonl")
    parser.add_argument("--judge", default="lexical", help="lexical (offline) or a model URI (default: lexical)")
    parser.add_argument("--no-log", action="store_true", help="do not log to MLflow")
    arguments = parser.parse_args()

    suite = rm.Suite.preset("white_paper", judge=arguments.judge)
    report = suite.evaluate(arguments.file)

    print(f"{len(report)} answers, judged by {arguments.judge}; means on 1 to 5 with 95 % intervals on 0 to 1:\n")
    for key in report.keys:
        figures = {name: report.metrics[f"{key}/{name}"] for name in ("ci_low", "ci_high", "n_scored")}
        grade = report.metrics[f"{key}_1to5/mean"]
        print(f"  {key:18} {grade:.1f}   {figures['ci_low']:.2f} to {figures['ci_high']:.2f}", end="")
        print(f"   {figures['n_scored']:.0f} scored")

    (worst,) = report.worst_rows(1, key="faithfulness")
    print(f"\nThe least faithful answer, {worst.sample.id}: {worst.sample.question}")
    print(f"  {worst.scores['faithfulness'].reason}")
    for item in worst.scores["faithfulness"].items:
        print(f"  {item.verdict:12} {item.text}")

    if not arguments.no_log:
        run_id = report.log(run_name=arguments.file.stem)
        print(f"\nLogged into MLflow run {run_id}; look at it with: mlflow ui")


if __name__ == "__main__":
    main()
