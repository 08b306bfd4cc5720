"""Score retrieval by document ids, from a TSV of results and a TSV of references, as in the LiveRAG challenge.

    python examples/retrieval_from_tsv.py
    python examples/retrieval_from_tsv.py my_results.tsv my_references.tsv --k 5

The metrics compare ids: no model is asked.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mlflow_ragmetrics as rm

DATA = Path(__file__).parent / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=Path, default=DATA / "retrieval_results.tsv")
    parser.add_argument("references", nargs="?", type=Path, default=DATA / "retrieval_reference.tsv")
    parser.add_argument("--on", default="qid", help="the column that joins the two files (default: qid)")
    parser.add_argument("--k", type=int, default=10, help="the last rank that NDCG counts (default: 10)")
    arguments = parser.parse_args()

    joined = rm.join(arguments.results, arguments.references, on=arguments.on)
    if joined.warning:
        print(f"Warning: {joined.warning}")
    suite = rm.Suite(["context_recall", "context_precision", "context_f1", f"ndcg(k={arguments.k})"])
    report = suite.evaluate(joined.rows)

    print(f"{len(report)} questions")
    for key in report.keys:
        low, high = report.metrics[f"{key}/ci_low"], report.metrics[f"{key}/ci_high"]
        print(f"  {key:18} {report.metrics[f'{key}/mean']:.3f}   95 % interval {low:.3f} to {high:.3f}")
    print(f"All documents were found for {report.metrics['pct_records_with_all_refs']:.0f} % of the questions.")

    print("\nThe questions for which the retriever found least:")
    for row in report.worst_rows(3, key="context_recall"):
        found = {item.text for item in row.scores["context_recall"].items if item.verdict == "FOUND"}
        missed = [document for document in row.sample.gold_doc_ids or () if document not in found]
        print(f"  {row.sample.id}  {row.sample.question}\n    missed {', '.join(missed)}")


if __name__ == "__main__":
    main()
