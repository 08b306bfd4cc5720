"""How well a chat judge agrees with people, with any reader of its prompts.

    python tests/benchmarks/judge_agreement.py DATA --ask FOLDER     # writes the prompts that have no reply yet
    python tests/benchmarks/judge_agreement.py DATA --read FOLDER    # reads the replies and prints the table

DATA has the labelled sets (``<set>.dev.jsonl``: ragtruth_qa, mtrag, ragchecker_pairs, nq301); they are not shipped.
``--ask`` writes ``FOLDER/<set>-<method>/r<1|2|3>/<digest>.prompt.txt``, and lists of eight of them to answer
together; the reader of a prompt writes ``<digest>.reply.txt`` next to it. Methods with two steps (``full``, ``ragas``)
need ``--ask`` again after the first replies, and so do replies that need a second look. ``--save FOLDER`` writes the
results to ``<set>-<method>.json``: digests of rows and prompts, and the scores. Answers to one question go to different
readers. Rows are drawn by the SHA-256 of their ids before any reply is read, and no prompt contains labels. Peers'
prompts are those of the installed packages (``ragas`` in an environment that has it).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import balanced_accuracy_score

import mlflow_ragmetrics as rm

from judge_quality import Measure, Row, Values, auroc, correlation, share, with_interval  # isort: skip
from relay_model import NotAnsweredYet, RelayModel  # isort: skip

Scores = dict[str, float | None]
SETS = ("ragtruth_qa", "mtrag", "ragchecker_pairs", "nq301")
METHODS = ("full", "single", "mlflow", "ragas")
BATCH = 8
MTRAG_ROWS = 110
MTRAG_MODELS = ("gpt-4o", "llama-3.1-405b-instruct", "reference")
THRESHOLDS = (0.3, 0.5, 0.7)


@dataclass(frozen=True)
class Entry:
    """One answer to judge, by the reader with this number."""

    row: Row
    reader: int
    label: float


def digest(text: str) -> str:
    """The key by which rows are ordered."""
    return sha256(text.encode()).hexdigest()


def drawn(name: str, rows: Iterable[Row]) -> list[Entry]:
    """The rows of a set to judge, each with people's label (higher is better)."""
    ordered = sorted(rows, key=lambda row: digest(row["id"]))
    groups: dict[str, list[Row]] = {}
    for row in ordered:
        groups.setdefault(row["group"], []).append(row)
    if name == "ragtruth_qa":
        return [entry for each in groups.values() for entry in _two_answers(each)]
    if name == "mtrag":
        readers = [1 + (MTRAG_MODELS.index(row["model"]) + row["turn"]) % 3 for row in ordered]
        labels = [float(np.mean(row["human"]["faithfulness"])) for row in ordered]
        return list(map(Entry, ordered, readers, labels))[:MTRAG_ROWS]
    if name == "nq301":
        return [Entry(each[0], 1 + place % 2, float(each[0]["label"])) for place, each in enumerate(groups.values())]
    pairs = [each[0] for each in groups.values()]
    return [
        Entry({**row, "id": f"{row['id']}/{side}", "answer": row[field]}, side, float(row["label"]))
        for row in pairs
        for side, field in ((1, "answer"), (2, "answer2"))
    ]


def _two_answers(rows: list[Row]) -> list[Entry]:
    """An unfaithful answer, if there is one, and a faithful one; the ids determine which reader gets which."""
    bad, good = [row for row in rows if not row["label"]], [row for row in rows if row["label"]]
    chosen = sorted([*bad[:1], *good][:2], key=lambda row: digest("reader" + row["id"]))
    return [Entry(row, reader, float(row["label"])) for reader, row in enumerate(chosen, 1)]


def record(entry: Entry) -> Row:
    """The part of a row that the judge may see, without labels."""
    names = ("id", "question", "answer", "contexts", "history")
    seen = {name: entry.row[name] for name in names if entry.row.get(name)}
    if entry.row["label_kind"] in ("correct", "pairwise_preference"):
        seen["reference"] = str(entry.row["reference"]).split(" | ")
    return seen


def ours(model: RelayModel, method: str, metrics: list[str], entries: Sequence[Entry]) -> list[dict[str, rm.Score]]:
    """The scores of each answer by key."""
    judge = rm.ChatJudge(model, calls=method, structured=False, attempts=1, max_tokens=16_000)
    report = rm.Suite(metrics, judge=judge).evaluate([record(entry) for entry in entries], progress=False)
    return [row.scores for row in report.rows]


def grounding(model: RelayModel, method: str, entries: Sequence[Entry]) -> list[Scores]:
    """The ratio of supported claims, their mean support and that of the weakest claim, for each answer."""
    scored = ours(model, method, ["faithfulness", "weakest_claim"], entries)
    return [_supports(scores["faithfulness"], scores["weakest_claim"]) for scores in scored]


def _supports(faithfulness: rm.Score, weakest: rm.Score) -> Scores:
    mean = faithfulness.value if not faithfulness.items else faithfulness.details.get("support")
    return {"ratio": faithfulness.value, "mean": mean, "weakest": weakest.value}


def correctness(model: RelayModel, method: str, entries: Sequence[Entry]) -> list[Scores]:
    """The grade of each answer against its reference, 0 to 1."""
    return [{"grade": scores["correctness"].value} for scores in ours(model, method, ["correctness"], entries)]


def mlflow_groundedness(model: RelayModel, entries: Sequence[Entry]) -> list[Scores]:
    """MLflow's own groundedness prompt, answered yes or no."""
    from mlflow.genai.judges.prompts.groundedness import get_prompt

    return [
        _yes(model, get_prompt(_asked(row), row["answer"], "\n\n".join(row["contexts"])), "ratio")
        for row in (entry.row for entry in entries)
    ]


def ragas_faithfulness(model: RelayModel, entries: Sequence[Entry]) -> list[Scores]:
    """ragas' own faithfulness prompts: statements of the answer, then a verdict of 1 or 0 on each."""
    from ragas.metrics._faithfulness import (
        NLIStatementInput,
        NLIStatementPrompt,
        StatementGeneratorInput,
        StatementGeneratorPrompt,
    )

    def score(row: Row) -> float | None:
        asked = StatementGeneratorInput(question=_asked(row), answer=row["answer"])
        listed = _replied(model, StatementGeneratorPrompt().to_string(asked))
        if not listed or not listed["statements"]:
            return None
        held = NLIStatementInput(context="\n".join(row["contexts"]), statements=listed["statements"])
        judged = _replied(model, NLIStatementPrompt().to_string(held))
        return judged and float(np.mean([bool(each["verdict"]) for each in judged["statements"]]))

    return [{"ratio": score(entry.row)} for entry in entries]


def _asked(row: Row) -> str:
    """The question after its earlier turns, for prompts with only one text."""
    turns = [f"{turn['role']}: {turn['content']}" for turn in row.get("history") or []]
    return "\n".join([*turns, f"user: {row['question']}"]) if turns else str(row["question"])


def mlflow_correctness(model: RelayModel, entries: Sequence[Entry]) -> list[Scores]:
    """MLflow's own correctness prompt, answered yes or no."""
    from mlflow.genai.judges.prompts.correctness import get_prompt

    return [
        _yes(model, get_prompt(row["question"], row["answer"], expected_response=row["reference"]), "grade")
        for row in (entry.row for entry in entries)
    ]


def _yes(model: RelayModel, prompt: str, name: str) -> Scores:
    said = _replied(model, prompt)
    return {name: said and float(str(said["result"]).strip().lower() == "yes")}


def _replied(model: RelayModel, prompt: str) -> Any:
    """The object in the reply, or ``None`` if there is no reply yet."""
    try:
        reply = str(model.invoke(prompt).content)
    except NotAnsweredYet:
        return None
    return json.loads(reply[reply.index("{") : reply.rindex("}") + 1])


def judged(folder: Path, name: str, method: str, entries: Sequence[Entry], *, writes: bool) -> tuple[list[Scores], int]:
    """The scores of all entries (``None``: no reply yet), and the number of prompts without a reply."""
    scores: dict[str, Scores] = {}
    missing = 0
    for reader in sorted({entry.reader for entry in entries}):
        mine = [entry for entry in entries if entry.reader == reader]
        model = RelayModel(folder=folder / f"{name}-{method}" / f"r{reader}", writes=writes)
        ground = name in ("ragtruth_qa", "mtrag")
        if method == "ragas":
            found = ragas_faithfulness(model, mine) if ground else [{"grade": None} for _ in mine]
        elif method == "mlflow":
            found = (mlflow_groundedness if ground else mlflow_correctness)(model, mine)
        else:
            found = (grounding if ground else correctness)(model, method, mine)
        scores |= {entry.row["id"]: each for entry, each in zip(mine, found, strict=True)}
        missing += len(model.unanswered)
        if writes:
            list_batches(model.folder, sorted(model.unanswered))
    return [scores[entry.row["id"]] for entry in entries], missing


def list_batches(folder: Path, digests: Sequence[str]) -> None:
    """Writes the lists of prompts that are answered together."""
    for old in folder.glob("batch-*.txt"):
        old.unlink()
    for place in range(0, len(digests), BATCH):
        listed = "\n".join(f"{each}.prompt.txt" for each in digests[place : place + BATCH])
        (folder / f"batch-{1 + place // BATCH:03d}.txt").write_text(listed + "\n", encoding="utf-8")


def table(name: str, entries: Sequence[Entry], scores: Sequence[Scores]) -> list[str]:
    """One line per figure of a set, over the answered rows."""
    if name == "ragchecker_pairs":
        return _pairs(entries, scores)
    lines = []
    for kind in dict.fromkeys(kind for score in scores for kind in score):
        pairs = [(entry, float(s[kind])) for entry, s in zip(entries, scores, strict=True) if s.get(kind) is not None]
        if len(pairs) < 20:  # too few for a figure
            continue
        groups = [entry.row["group"] for entry, _ in pairs]
        labels, values = np.array([entry.label for entry, _ in pairs]), np.array([value for _, value in pairs])
        good = labels >= 3 if name == "mtrag" else labels > 0.5
        figures = [f"{len(pairs)} of {len(entries)} rows", f"AUROC {with_interval(auroc(good, values), groups)}"]
        figures += [f"BA@{limit} {balanced_accuracy_score(good, values >= limit - 1e-9):.3f}" for limit in THRESHOLDS]
        if name == "mtrag":
            figures.append(f"Spearman {with_interval(spearman(values, labels), groups)}")
        if name == "nq301":
            figures.append(f"accuracy {with_interval(share((values >= 0.5) == good), groups)}")
            figures.append(f"gpt4 {np.mean([entry.row['gpt4'] == entry.row['label'] for entry, _ in pairs]):.3f}")
        lines.append(f"  {kind:8s} " + "; ".join(figures))
    return lines


def spearman(values: Values, labels: Values) -> Measure:
    """Spearman's correlation over drawn rows."""
    return lambda drawn: float(spearmanr(values[drawn], labels[drawn])[0])


def _pairs(entries: Sequence[Entry], scores: Sequence[Scores]) -> list[str]:
    """The gain of the second answer over the first, compared with people's preference."""
    sides: dict[str, dict[int, tuple[Row, float]]] = {}
    for entry, score in zip(entries, scores, strict=True):
        if score.get("grade") is not None:
            sides.setdefault(entry.row["group"], {})[entry.reader] = (entry.row, float(score["grade"] or 0.0))
    both = [side for side in sides.values() if len(side) == 2]
    if not both:
        return []
    rows, gains = [side[1][0] for side in both], np.array([side[2][1] - side[1][1] for side in both])
    figures = [f"{len(both)} pairs"]
    for field, name in (("label", "correctness"), ("overall_label", "overall")):
        people = np.array([float(row[field]) for row in rows])
        interval = with_interval(correlation(gains, people), [row["group"] for row in rows])
        figures.append(f"Pearson with people's {name} {interval}")
    return ["  grade    " + "; ".join(figures)]


def save(path: Path, entries: Sequence[Entry], scores: Sequence[Scores], folder: Path) -> None:
    """Writes the digests of the answered prompts, and a line of scores per row, named by its digest."""
    prompts = sorted(reply.name.partition(".")[0] for reply in folder.glob("r*/*.reply.txt"))
    rows = [
        json.dumps({"row": digest(entry.row["id"])[:16], "reader": entry.reader, **score})
        for entry, score in zip(entries, scores, strict=True)
    ]
    listed = ",\n  ".join(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"prompts": {json.dumps(prompts)},\n "rows": [\n  {listed}\n]}}\n', encoding="utf-8")


def main() -> None:
    """Asks or reads, and prints one block per set and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ask", type=Path, metavar="FOLDER")
    parser.add_argument("--read", type=Path, metavar="FOLDER")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--methods", nargs="+", default=["single"], choices=METHODS)
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    folder = options.ask or options.read
    if folder is None:
        parser.error("give --ask FOLDER or --read FOLDER")
    for name in options.sets:
        path = options.data / f"{name}.dev.jsonl"
        entries = drawn(name, [json.loads(line) for line in path.open(encoding="utf-8")])
        listed = digest("\n".join(sorted(entry.row["id"] for entry in entries)))[:12]
        for method in options.methods:
            scores, missing = judged(folder, name, method, entries, writes=options.ask is not None)
            print(f"{name}, {method}: {len(entries)} answers (rows {listed}), {missing} prompts without a reply")
            print("\n".join(table(name, entries, scores)))
            if options.save is not None:
                save(options.save / f"{name}-{method}.json", entries, scores, folder / f"{name}-{method}")


if __name__ == "__main__":
    main()
