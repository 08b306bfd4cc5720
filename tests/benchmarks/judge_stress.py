"""The edits of supported answers that a judge notices, with any reader of its prompts.

    python tests/benchmarks/judge_stress.py DATA --ask FOLDER     # writes the prompts that have no reply yet
    python tests/benchmarks/judge_stress.py DATA --read FOLDER    # reads the replies and prints the table

DATA contains ``ragtruth_qa.dev.jsonl``. The first 100 answers that people found faithful, in the order of the SHA-256
of their ids, are edited by ``rm.stress``; each kind of edit is tried on every third of them, so that a reader has a few
hundred prompts. ``--ask`` is needed twice, because the edits use the claims from the first replies. The prompts of all
kinds go to ``FOLDER``, shuffled by their digests, so that nobody sees which claim was edited, or how. The offline judge
is measured on the same rows. ``--save FILE`` writes the digests of rows and prompts, and the counts of both.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.stress_suite import STRESS_KINDS

from judge_agreement import Row, digest, list_batches  # isort: skip
from relay_model import RelayModel  # isort: skip

ANSWERS = 100
EVERY = 3


def drawn(data: Path) -> list[Row]:
    """The rows to edit, with the fields that a judge may see."""
    rows = [json.loads(line) for line in (data / "ragtruth_qa.dev.jsonl").open(encoding="utf-8")]
    faithful = sorted((row for row in rows if row["label"]), key=lambda row: digest(row["id"]))[:ANSWERS]
    return [{name: row[name] for name in ("id", "question", "answer", "contexts")} for row in faithful]


def noticed(suite: rm.Suite, rows: list[Row]) -> list[dict[str, object]]:
    """The table of ``rm.stress``, one line per kind."""
    return [
        rm.stress(suite, rows[place % EVERY :: EVERY], kinds=[kind], progress=False).table.to_dict("records")[0]
        for place, kind in enumerate(STRESS_KINDS)
    ]


def main() -> None:
    """Asks or reads, and prints one line per kind of edit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ask", type=Path, metavar="FOLDER")
    parser.add_argument("--read", type=Path, metavar="FOLDER")
    parser.add_argument("--save", type=Path, metavar="FILE")
    given = parser.parse_args()
    folder = given.ask or given.read
    if folder is None:
        parser.error("give --ask FOLDER or --read FOLDER")
    rows = drawn(given.data)
    model = RelayModel(folder=folder, writes=given.ask is not None)
    judge = rm.ChatJudge(model, calls="single", structured=False, attempts=1, max_tokens=16_000)
    judged = noticed(rm.Suite(["faithfulness"], judge=judge), rows)
    offline = noticed(rm.Suite(["faithfulness"]), rows)
    if given.ask is not None:
        list_batches(folder, sorted(model.unanswered))
    listed = digest("\n".join(sorted(row["id"] for row in rows)))[:12]
    print(f"{len(rows)} answers (rows {listed}), {len(model.unanswered)} prompts without a reply")
    print(f"{'kind':10s} {'reader':>28s} {'offline judge':>28s}")
    for chat, own in zip(judged, offline, strict=True):
        print(f"{chat['kind']:10s} {_told(chat):>28s} {_told(own):>28s}")
    if given.save is not None:
        kept = {"rows": [digest(row["id"])[:16] for row in rows], "prompts": sorted(model.asked)}
        counts = {"reader": list(map(_counts, judged)), "offline": list(map(_counts, offline))}
        given.save.write_text(json.dumps({**kept, **counts}, indent=1) + "\n", encoding="utf-8")


def _counts(record: dict[str, object]) -> dict[str, object]:
    return {name: record[name] for name in ("kind", "edits", "noticed", "failed")}


def _told(record: dict[str, object]) -> str:
    if not record["edits"]:
        return "–"
    return "{noticed} of {edits}, {share:.2f} [{ci_low:.2f}, {ci_high:.2f}]".format(**record)


if __name__ == "__main__":
    main()
