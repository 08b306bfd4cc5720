"""Make the files in ``examples/data`` from the question-answering part of RAGTruth.

Takes the path of a JSONL file with one labelled answer a line: ``group`` (the question's id), ``question``, ``model``,
``answer``, ``contexts`` (three passages), ``label`` (True: people found nothing unsupported in the answer) and
``spans`` (what they marked). The same input gives the same files, byte for byte::

    python examples/data/make_data.py ragtruth_qa.jsonl
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

VERSIONS = {"llama-2-13b-chat": "ragtruth_llama-2-13b.jsonl", "gpt-4-0613": "ragtruth_gpt-4.jsonl"}
REFERENCES = ("gpt-3.5-turbo-0613", "llama-2-70b-chat", "mistral-7B-instruct", "llama-2-7b-chat")
QUESTIONS = 60
RETRIEVED = 10
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/ParticleMedia/RAGTruth")

Record = dict[str, Any]
Answers = dict[str, Record]


def answers_by_question(path: Path) -> dict[str, Answers]:
    """For each question, in order of id, the first answer of each system."""
    questions: dict[str, Answers] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        questions[record["group"]].setdefault(record["model"], record)
    return dict(sorted(questions.items()))


def reference_of(answers: Answers) -> Record | None:
    """The first system of ``REFERENCES`` whose answer people marked as fully supported."""
    candidates = (answers[system] for system in REFERENCES if system in answers)
    return next((answer for answer in candidates if answer["label"]), None)


def chosen(questions: dict[str, Answers]) -> dict[str, Answers]:
    """The first questions that both versions answered and that have a reference."""
    usable = {key: each for key, each in questions.items() if VERSIONS.keys() <= each.keys() and reference_of(each)}
    return dict(list(usable.items())[:QUESTIONS])


def row(key: str, answers: Answers, system: str) -> Record:
    """One line of a version's file."""
    answered, reference = answers[system], reference_of(answers)
    assert reference is not None
    marked = [
        {"type": span["type"], "text": answered["answer"][span["start"] : span["end"]]} for span in answered["spans"]
    ]
    return {
        "id": key,
        "question": answered["question"],
        "answer": answered["answer"],
        "reference": reference["answer"],
        "contexts": [{"id": f"{key}-{n}", "text": text} for n, text in enumerate(answered["contexts"], 1)],
        "human_supported": answered["label"],
        "human_spans": marked,
        "system": system,
        "reference_system": reference["model"],
    }


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def ranked(query: str, passages: dict[str, Counter[str]]) -> list[str]:
    """Ids of the passages in the order of BM25 (k1 = 1.2, b = 0.75), best first."""
    mean_length = sum(p.total() for p in passages.values()) / len(passages)

    def weight(term: str, passage: Counter[str]) -> float:
        holding = sum(term in other for other in passages.values())
        rarity = math.log(1 + (len(passages) - holding + 0.5) / (holding + 0.5))
        length = 1.2 * (0.25 + 0.75 * passage.total() / mean_length)
        return rarity * passage[term] * 2.2 / (passage[term] + length)

    scores = {key: sum(weight(term, p) for term in set(words(query)) if term in p) for key, p in passages.items()}
    return sorted(scores, key=lambda key: (-scores[key], key))


def retrieval_rows(rows: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """What a word-matching retriever finds among all passages, and which passages belong to each question."""
    passages = {chunk["id"]: Counter(words(chunk["text"])) for each in rows for chunk in each["contexts"]}
    names = {key: f"<urn:uuid:{uuid.uuid5(NAMESPACE, key)}>" for key in passages}
    results, references = [], []
    for each in rows:
        found = [f"doc-{names[key]}::chunk-0" for key in ranked(each["question"], passages)[:RETRIEVED]]
        gold = [names[chunk["id"]] for chunk in each["contexts"]]
        results.append({"qid": each["id"], "question": each["question"], "doc_ids": str(found)})
        references.append({"qid": each["id"], "question": each["question"], "document_ids": str(gold)})
    return results, references


def write_jsonl(path: Path, rows: Iterable[Record]) -> None:
    lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in rows)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def write_tsv(path: Path, rows: Sequence[Record]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the labelled RAGTruth answers, one JSON object a line")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, help="the folder to write to")
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    questions = chosen(answers_by_question(arguments.source))
    for system, name in VERSIONS.items():
        write_jsonl(arguments.into / name, (row(key, answers, system) for key, answers in questions.items()))
    first = next(iter(VERSIONS))
    results, references = retrieval_rows([row(key, answers, first) for key, answers in questions.items()])
    write_tsv(arguments.into / "retrieval_results.tsv", results)
    write_tsv(arguments.into / "retrieval_reference.tsv", references)


if __name__ == "__main__":
    main()
