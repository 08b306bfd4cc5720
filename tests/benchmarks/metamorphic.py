"""The offline judge's response to changes with a known effect: one relation per line, with the share that breaks it.

    python tests/benchmarks/metamorphic.py                     # the documentation's table and figures, on examples/data
    python tests/benchmarks/metamorphic.py ROWS.jsonl COUNT    # on other rows

Each relation changes a row and requires some metrics to fall, not to rise, or to stay equal. The share is that of the
rows that break the relation, among those that could be changed.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.stress_suite import do_not, negate, other_number
from mlflow_ragmetrics.text.sentences import sentences

Row = Mapping[str, Any]
Change = Callable[[Row, Row], "Row | None"]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "data").glob("*.jsonl"))
FIGURES = Path(__file__).parents[2] / "docs" / "data" / "metamorphic.json"
METRICS = ["faithfulness", "weakest_claim", "chunk_precision", "fact_recall(target='reference')", "correctness"]
METRICS += ["answer_relevance", "rag_score", "context_sufficiency", "factual_correctness", "hallucination_rate"]
METRICS += ["rouge1_f1", "semantic_similarity", "lexical_groundedness", "lexical_factuality", "lexical_relevance"]
METRICS += ["coherence"]
SLACK = 1e-6
UNSUPPORTED = "Wolfgang Quenzel repainted seventeen zeppelins near Ulan Bator."
PASSAGES = ("Basalt columns form when lava cools slowly.", "The ferry timetable changes every October.")


def edited(edit: Callable[[str, int], str | None]) -> Change:
    """Edits each sentence of the answer if possible."""

    def change(row: Row, _: Row) -> Row | None:
        found = [edit(each, 0) for each in sentences(row["answer"])]
        if not any(found):
            return None
        parts = [new or old for new, old in zip(found, sentences(row["answer"]), strict=True)]
        return {**row, "answer": " ".join(parts)}

    return change


def salad(row: Row, _: Row) -> Row:
    """The words of the answer in a different order."""
    words = row["answer"].split()
    random.Random(0).shuffle(words)
    return {**row, "answer": " ".join(words)}


def shuffled(row: Row, _: Row) -> Row | None:
    return {**row, "contexts": row["contexts"][::-1]} if len(row["contexts"]) > 1 else None


def without_the_best(row: Row, _: Row) -> Row | None:
    """Without the passage that shares the most words with the answer."""
    words = set(row["answer"].casefold().split())
    ranked = sorted(row["contexts"], key=lambda text: len(words & set(text.casefold().split())))
    return {**row, "contexts": ranked[:-1]} if len(ranked) > 1 else None


def effects(**keys: str) -> dict[str, str]:
    """What each of the keys must do, from "falls", "rises", "not_up" or "equal" and the keys, separated by spaces."""
    return {key: must.replace("_", " ") for must, names in keys.items() for key in names.split()}


IN_ANSWER = "faithfulness weakest_claim correctness factual_correctness rag_score"
RELATIONS: dict[str, tuple[Change, Mapping[str, str]]] = {
    "append an unsupported sentence": (
        lambda row, _: {**row, "answer": f"{row['answer']} {UNSUPPORTED}"},
        effects(
            falls="faithfulness weakest_claim factual_correctness lexical_groundedness",
            rises="hallucination_rate",
        ),
    ),
    "another row's answer": (
        lambda row, other: {**row, "answer": other["answer"]},
        effects(falls=f"{IN_ANSWER} answer_relevance rouge1_f1 semantic_similarity lexical_relevance"),
    ),
    "remove the best passage": (
        without_the_best,
        effects(not_up="faithfulness weakest_claim fact_recall_reference context_sufficiency"),
    ),
    "all passages wrong": (
        lambda row, other: {**row, "contexts": other["contexts"]},
        effects(falls="faithfulness weakest_claim chunk_precision fact_recall_reference context_sufficiency rag_score"),
    ),
    "shuffle passages": (shuffled, effects(equal=f"{IN_ANSWER} chunk_precision context_sufficiency")),
    "add irrelevant passages": (
        lambda row, _: {**row, "contexts": [*row["contexts"], *PASSAGES]},
        effects(equal="faithfulness weakest_claim fact_recall_reference", falls="chunk_precision"),
    ),
    "duplicate a passage": (
        lambda row, _: {**row, "contexts": [*row["contexts"], row["contexts"][0]]},
        effects(equal="faithfulness weakest_claim fact_recall_reference"),
    ),
    "negate": (edited(lambda text, seed: negate(text, seed) or do_not(text, seed)), effects(falls=IN_ANSWER)),
    "change numbers": (edited(other_number), effects(falls=IN_ANSWER)),
    "answer := the question": (
        lambda row, _: {**row, "answer": row["question"]},
        effects(not_up="answer_relevance correctness rouge1_f1"),
    ),
    "word salad": (salad, effects(falls=f"{IN_ANSWER} answer_relevance rouge1_f1 coherence")),
    "answer twice": (
        lambda row, _: {**row, "answer": f"{row['answer']} {row['answer']}"},
        effects(not_up="faithfulness weakest_claim correctness answer_relevance rouge1_f1"),
    ),
    "swap answer and reference": (
        lambda row, _: {**row, "answer": row["reference"], "reference": row["answer"]},
        effects(equal="rouge1_f1 semantic_similarity factual_correctness"),
    ),
    "whitespace": (
        lambda row, _: {**row, "answer": "  " + row["answer"].replace(" ", "  ") + " \n"},
        effects(equal=f"{IN_ANSWER} chunk_precision answer_relevance rouge1_f1 lexical_groundedness"),
    ),
}
"""The change, given the row and another one, and what the value of each key must do."""


def holds(must: str, before: float, after: float) -> bool:
    """Whether the value changed as required: "falls" and "rises" also hold if it could not change."""
    change = after - before
    return {
        "equal": abs(change) <= SLACK,
        "not up": change <= SLACK,
        "falls": change < -SLACK or before <= SLACK,
        "rises": change > SLACK or before >= 1 - SLACK,
    }[must]


def measured(rows: Sequence[Row]) -> list[dict[str, float | None]]:
    """The measured values of each row by key."""
    report = rm.evaluate([{**row, "id": str(n)} for n, row in enumerate(rows)], METRICS)
    return [{key: score.measurement for key, score in row.scores.items()} for row in report.rows]


def shares(rows: Sequence[Row]) -> dict[str, dict[str, list[int]]]:
    """For each relation and key: the number of rows that break it, and the number of rows."""
    before = measured(rows)
    found: dict[str, dict[str, list[int]]] = {}
    for name, (change, required) in RELATIONS.items():
        changed = [change(row, rows[place - 7]) for place, row in enumerate(rows)]
        places = [place for place, row in enumerate(changed) if row is not None]
        after = measured([row for row in changed if row is not None])
        found[name] = {}
        for key, must in required.items():
            pairs = [(before[place][key], now[key]) for place, now in zip(places, after, strict=True)]
            known = [(old, new) for old, new in pairs if old is not None and new is not None]
            found[name][key] = [sum(not holds(must, *pair) for pair in known), len(known)]
    return found


def table(found: Mapping[str, Mapping[str, Sequence[int]]]) -> str:
    """One Markdown line per relation: the required change of each metric, and the share of rows that break it."""
    lines = ["| change | must fall or rise | must not rise | must stay |", "|---|---|---|---|"]
    for name, counts in found.items():
        required = RELATIONS[name][1]
        cells = []
        for wanted in (("falls", "rises"), ("not up",), ("equal",)):
            keys = [key for key in counts if required[key] in wanted]
            cells.append(", ".join(f"{key} {counts[key][0] / max(counts[key][1], 1):.0%}" for key in keys))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def read(files: Sequence[Path], count: int | None = None) -> list[Row]:
    """The rows of the files that have all fields, at most ``count``."""
    lines = (json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
    wanted = ("question", "answer", "reference", "contexts")
    whole = ({name: row[name] for name in wanted} for row in lines if all(row.get(name) for name in wanted))
    texts = ({**row, "contexts": [text_of(each) for each in row["contexts"]]} for row in whole)
    return list(islice(texts, count))


def text_of(passage: Any) -> str:
    """The text of a passage, which may be a mapping."""
    return str(passage["text"] if isinstance(passage, Mapping) else passage)


if __name__ == "__main__":
    given = sys.argv[1:]
    found = shares(read([Path(given[0])], int(given[1])) if given else read(EXAMPLES))
    print(table(found))
    if not given:
        FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
