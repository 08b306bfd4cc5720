"""The edits of supported answers that a judge notices: the offline judge, or any reader of its prompts.

    python tests/benchmarks/judge_stress.py DATA                    # the offline judge, on all rows of one half
    python tests/benchmarks/judge_stress.py DATA --ask FOLDER       # writes the prompts that have no reply yet
    python tests/benchmarks/judge_stress.py DATA --read FOLDER      # reads the replies and prints the table

DATA contains ``ragtruth_qa.dev.jsonl`` and ``wice.dev.jsonl``. ``rm.stress`` edits the answers that people found
faithful. Rows are divided into two halves by the SHA-256 of their ids: rules are developed on half 0, and the offline
judge is measured on half 1. A reader gets the first 100 answers of RAGTruth in the order of the same digests; each kind
of edit is tried on every third of them, so that a reader has a few hundred prompts. ``--ask`` is needed twice, because
the edits use the claims from the first replies. The prompts of all kinds go to ``FOLDER``, shuffled by their digests,
so that nobody sees which claim was edited, or how. The offline judge is measured on the same rows. ``--save FILE``
writes the digests of rows and prompts, and the counts of both.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.stress_suite import STRESS_KINDS

from judge_agreement import digest, list_batches  # isort: skip
from judge_quality import Row, sets  # isort: skip
from relay_model import RelayModel  # isort: skip

ANSWERS, EVERY = 100, 3


def faithful(data: Path, *names: str) -> list[Row]:
    """The rows to edit, in the order of their digests, with the fields that a judge may see."""
    rows = [row for _, every in sets(data, "dev", *names) for row in every if row["label"]]
    ordered = sorted(rows, key=lambda row: digest(row["id"]))
    return [{name: row[name] for name in ("id", "question", "answer", "contexts") if name in row} for row in ordered]


def noticed(suite: rm.Suite, rows: Sequence[Row], every: int = 1) -> list[dict[str, Any]]:
    """The table of ``rm.stress``, one record per kind."""
    return [
        rm.stress(suite, rows[place % every :: every], kinds=[kind], progress=False).table.to_dict("records")[0]
        for place, kind in enumerate(STRESS_KINDS)
    ]


def main() -> None:
    """Ask or read, and print one line per kind of edit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ask", type=Path, metavar="FOLDER")
    parser.add_argument("--read", type=Path, metavar="FOLDER")
    parser.add_argument("--save", type=Path, metavar="FILE")
    options = parser.parse_args()
    folder, offline = options.ask or options.read, rm.Suite(["faithfulness"])
    if folder is None:
        rows = [row for row in faithful(options.data, "ragtruth_qa", "wice") if int(digest(row["id"])[7], 16) % 2]
        print_table({f"offline judge, {len(rows)} answers": noticed(offline, rows)})
        return
    rows = faithful(options.data, "ragtruth_qa")[:ANSWERS]
    model = RelayModel(folder=folder, writes=options.ask is not None)
    judge = rm.ChatJudge(model, calls="single", structured=False, attempts=1, max_tokens=16_000)
    tables = {"reader": noticed(rm.Suite(["faithfulness"], judge=judge), rows, EVERY)}
    tables["offline"] = noticed(offline, rows, EVERY)
    if options.ask is not None:
        list_batches(folder, sorted(model.unanswered))
    listed = digest("\n".join(sorted(row["id"] for row in rows)))[:12]
    print(f"{len(rows)} answers (rows {listed}), {len(model.unanswered)} prompts without a reply")
    print_table(tables)
    if options.save is not None:
        digests = {"rows": [digest(row["id"])[:16] for row in rows], "prompts": sorted(model.asked)}
        names = ("kind", "edits", "noticed", "failed")
        counts = {who: [{name: record[name] for name in names} for record in table] for who, table in tables.items()}
        options.save.write_text(json.dumps(digests | counts, indent=1) + "\n", encoding="utf-8")


def print_table(tables: dict[str, list[dict[str, Any]]]) -> None:
    """Print one line per kind: noticed edits, their share and its interval, for each judge."""
    print(f"{'':10}" + "".join(f"{who:>36}" for who in tables))
    for records in zip(*tables.values(), strict=True):
        cells = [
            "{noticed} of {edits}, {share:.3f} [{ci_low:.2f}, {ci_high:.2f}]".format(**record)
            if record["edits"]
            else "–"
            for record in records
        ]
        print(f"{records[0]['kind']:10}" + "".join(f"{cell:>36}" for cell in cells))


if __name__ == "__main__":
    main()
