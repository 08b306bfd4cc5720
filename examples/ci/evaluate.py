"""Run the chain of this checkout over the questions and write the scored rows to a file that a CI job compares.

The job in ``github-actions.yml`` (or ``gitlab-ci.yml``) runs it for the base branch and for the change::

    python examples/ci/evaluate.py rows.parquet
    python examples/ci/evaluate.py rows.parquet openai:/gpt-4o-mini

By default the offline judge scores. In your own repository, import your chain here.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from corpus.chain import made_chain, read_questions

import mlflow_ragmetrics as rm


def main() -> None:
    output, judge = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 and sys.argv[2] else "lexical"
    suite = rm.Suite(
        ["faithfulness", "answer_relevance", "chunk_precision", "context_recall", "rag_score"],
        judge=judge,
        cache="ragmetrics-cache.db" if judge != "lexical" else None,
    )
    report = rm.evaluate_chain(made_chain(None, count=2), read_questions(), suite, log=False)
    report.table.to_parquet(output, index=False)
    print(report)
    if report.incomplete:
        sys.exit(report.incomplete)


if __name__ == "__main__":
    main()
