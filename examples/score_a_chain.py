"""Score a LangChain retrieval chain while it runs, then over a data set with 1, 2 and 4 passages.

By default a stand-in model quotes the passages and the offline judge scores. With one argument, that model does both::

    python examples/score_a_chain.py
    python examples/score_a_chain.py openai:/gpt-4o-mini

Results go to ``MLFLOW_TRACKING_URI``, by default ``sqlite:///mlflow.db``. Look at them with ``mlflow ui``.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import mlflow
from corpus.chain import made_chain, read_questions
from langchain_core.runnables import Runnable

import mlflow_ragmetrics as rm


def main() -> None:
    uri = sys.argv[1] if len(sys.argv) > 1 else None
    mlflow.set_tracking_uri(os.environ.get("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db"))
    mlflow.set_experiment("retrieval chain")
    mlflow.langchain.autolog()
    questions = read_questions()
    suite = rm.Suite(
        ["faithfulness", "answer_relevance", "chunk_precision", "context_recall", "context_precision", "rag_score"],
        judge=uri or "lexical",
    )
    score_while_it_runs(made_chain(uri, count=2), suite, questions)
    reports = {
        count: rm.evaluate_chain(made_chain(uri, count), questions, suite, log=True, run_name=f"{count} passages")
        for count in (1, 2, 4)
    }
    print(f"\nMeans over {len(questions)} questions, by number of retrieved passages:\n")
    print(f"{'':18}" + "".join(f"{count:>8}" for count in reports))
    for key in suite.keys:
        print(f"{key:18}" + "".join(f"{report.metrics[f'{key}/mean']:8.3f}" for report in reports.values()))


def score_while_it_runs(chain: Runnable[str, str], suite: rm.Suite, questions: list[dict[str, Any]]) -> None:
    """Call the chain as an application does; the callback scores each answer."""
    with mlflow.start_run(run_name="live"), rm.RagMetricsCallback(suite) as handler:
        for row in questions:
            known = {"reference": row["reference"], "gold_doc_ids": row["gold_doc_ids"]}
            answer = chain.invoke(row["question"], config={"callbacks": [handler], "metadata": known})
            print(f"{row['question']}\n  {answer}")
    counts = handler.counts
    print(f"\nWhile it ran: {counts['scored']} of {counts['seen']} answers scored, {counts['failed']} failed")


if __name__ == "__main__":
    main()
