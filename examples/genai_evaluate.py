"""Call and score a question-answering function with ``mlflow.genai.evaluate``.

python examples/genai_evaluate.py
python examples/genai_evaluate.py --judge openai:/gpt-4o-mini
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities import Document, SpanType

import mlflow_ragmetrics as rm

DATA = Path(__file__).parent / "data" / "ragtruth_gpt-4.jsonl"
ROWS = {row["question"]: row for row in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())}


@mlflow.trace(span_type=SpanType.RETRIEVER)
def retrieve(question: str) -> list[Document]:
    return [Document(page_content=chunk["text"], id=chunk["id"]) for chunk in ROWS[question]["contexts"]]


@mlflow.trace
def answer(question: str) -> str:
    """Replace this with your application; here it looks up the passages and the answer."""
    retrieve(question)
    return str(ROWS[question]["answer"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", default="lexical", help="lexical (offline) or a model URI (default: lexical)")
    parser.add_argument("--rows", type=int, default=5, help="how many questions to ask (default: 5)")
    arguments = parser.parse_args()

    data: list[dict[str, Any]] = [
        {"inputs": {"question": question}, "expectations": {"expected_response": row["reference"]}}
        for question, row in list(ROWS.items())[: arguments.rows]
    ]
    # MLflow starts more workers than a SQLite store has connections, and loses traces
    os.environ.setdefault("MLFLOW_GENAI_EVAL_MAX_WORKERS", "4")
    suite = rm.Suite.preset("white_paper", judge=arguments.judge)
    result = mlflow.genai.evaluate(data=data, predict_fn=answer, scorers=[rm.scorer(suite)])

    print(f"\nMeans over {len(data)} questions, each traced with its retrieved passages:")
    for name, value in sorted(result.metrics.items()):
        print(f"  {name:28} {value:.3f}")
    print(f"Each trace has its scores and reasons in run {result.run_id}; look at it with: mlflow ui")


if __name__ == "__main__":
    main()
