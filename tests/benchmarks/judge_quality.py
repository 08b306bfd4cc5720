"""How well the offline judge agrees with people: one table from the labelled sets, with intervals and speeds.

    python tests/benchmarks/judge_quality.py FOLDER

The labelled sets are not shipped: FOLDER contains ``<set>.<split>.jsonl`` files with the fields question, answer,
reference, contexts, label, group (and spans, if people marked unsupported text) of RAGTruth QA, WiCE, EVOUNA-NQ,
EVOUNA-TQ, NQ301 and the RAGChecker meta-evaluation; MTRAG-UN and CLAPNQ with the label answerable or not; WiCE with the
numbers of supporting sentences (``wice_evidence``) and with unsupported words (``wice_tokens``). Sets without a
file are left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, roc_auc_score

from mlflow_ragmetrics.core.question import Claims, Finding, Grade, Sufficiency, Verify
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.judges.lexical.support import doubted_words
from mlflow_ragmetrics.metrics.refusal import reply_kind

GROUNDING = ("ragtruth_qa", "wice", "attributionbench", "qags", "faithbench", "xnli_ru")
CORRECTNESS = {"evouna_nq": "/", "evouna_tq": "/", "nq301": " | "}
PREFERENCES = ("overall_label", "label", "completeness_label")
ANSWER_THRESHOLD = 0.9
CLAIM_THRESHOLDS = np.arange(0.30, 0.95, 0.05)

Row = dict[str, Any]
Values = NDArray[np.float64]
Measure = Callable[[NDArray[np.int64]], float]


def read(folder: Path, name: str, split: str) -> list[Row]:
    """The rows of a set; empty if the file is missing."""
    path = folder / f"{name}.{split}.jsonl"
    return [json.loads(line) for line in path.open(encoding="utf-8")] if path.exists() else []


def with_interval(measure: Measure, groups: Sequence[str], repeats: int) -> str:
    """A measure over all rows, with its 95% bootstrap interval over groups of rows."""
    names = sorted(set(groups))
    members = {name: np.flatnonzero(np.asarray(groups) == name) for name in names}
    generator = np.random.default_rng(0)
    values = []
    for _ in range(repeats):
        drawn = np.concatenate([members[names[place]] for place in generator.integers(0, len(names), len(names))])
        value = measure(drawn)
        if np.isfinite(value):
            values.append(value)
    low, high = np.quantile(values, [0.025, 0.975])
    return f"{measure(np.arange(len(groups))):.3f} [{low:.3f}, {high:.3f}]"


def auroc(labels: NDArray[np.bool_], scores: Values) -> Measure:
    """The area under the ROC curve of drawn rows; NaN if they have only one label."""
    return lambda drawn: roc_auc_score(labels[drawn], scores[drawn]) if 0 < labels[drawn].mean() < 1 else np.nan


def balanced(labels: NDArray[np.bool_], scores: Values, threshold: float) -> Measure:
    """The balanced accuracy of drawn rows at a threshold."""
    return lambda drawn: balanced_accuracy_score(labels[drawn], scores[drawn] >= threshold - 1e-9)


def ratios(supports: list[Values], threshold: float) -> Values:
    """The share of each answer's claims whose support reaches the threshold; 1 without claims."""
    return np.array([np.mean(each >= threshold) if len(each) else 1.0 for each in supports])


def accuracies(labels: NDArray[np.bool_], supports: list[Values]) -> Values:
    """The balanced accuracy of the answers at each of the claim thresholds."""
    passed = [ratios(supports, each) >= ANSWER_THRESHOLD - 1e-9 for each in CLAIM_THRESHOLDS]
    return np.array([balanced_accuracy_score(labels, each) for each in passed])


def ground(judge: LexicalJudge, rows: list[Row]) -> tuple[list[tuple[str, ...]], list[tuple[Finding, ...]], float]:
    """Claims, findings and rows per second."""
    start = time.perf_counter()
    claims = judge.answer([Claims(row["answer"]) for row in rows])
    checks = [Verify(each, tuple(row["contexts"])) for each, row in zip(claims, rows, strict=True)]
    findings = judge.answer(checks)
    return list(claims), list(findings), len(rows) / (time.perf_counter() - start)


def report_grounding(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Prints AUROC of the mean support and balanced accuracy, also with the threshold from the other sets."""
    seen: dict[str, Values] = {}
    for name in GROUNDING:
        rows = read(folder, name, split)
        if not rows:
            continue
        claims, findings, speed = ground(judge, rows)
        labels = np.array([bool(row["label"]) for row in rows])
        support = np.array([np.mean([each.support for each in found] or [1.0]) for found in findings])
        ratio = np.array([np.mean([each.verdict == "SUPPORTED" for each in found] or [1.0]) for found in findings])
        groups = [row["group"] for row in rows]
        seen[name] = accuracies(labels, [np.array([each.support for each in found]) for found in findings])
        print(f"{name} n={len(rows)}, unsupported {np.sum(~labels)}, {speed:.0f} rows/s")
        print(f"  AUROC of the mean support            {with_interval(auroc(labels, support), groups, repeats)}")
        decided = balanced(labels, ratio, ANSWER_THRESHOLD)
        print(f"  balanced accuracy, ratio >= {ANSWER_THRESHOLD}      {with_interval(decided, groups, repeats)}")
        if any("spans" in row for row in rows):
            print(f"  AUROC of single sentences            {sentence_level(rows, claims, findings, repeats)}")
    for name, reached in seen.items():
        others = [each for other, each in seen.items() if other != name]
        if others:
            chosen = int(np.argmax(np.mean(others, axis=0)))
            shown = f"{CLAIM_THRESHOLDS[chosen]:.2f}, balanced accuracy {reached[chosen]:.3f}"
            print(f"{name}: claim threshold that suits the other sets best {shown}")


def sentence_level(
    rows: list[Row], claims: list[tuple[str, ...]], findings: list[tuple[Finding, ...]], repeats: int
) -> str:
    """AUROC of the support of single claims; a claim is wrong if it overlaps a span that people marked."""
    labels, scores, groups = [], [], []
    for row, texts, found in zip(rows, claims, findings, strict=True):
        start = 0
        for text, finding in zip(texts, found, strict=True):
            place = row["answer"].find(text, start)
            if place < 0:
                continue
            start, end = place, place + len(text)
            labels.append(not any(span["start"] < end and span["end"] > start for span in row["spans"]))
            scores.append(finding.support)
            groups.append(row["group"])
    return with_interval(auroc(np.array(labels), np.array(scores, dtype=float)), groups, repeats)


def report_correctness(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Prints accuracy and kappa of ``raw >= 0.5``, with the best of the accepted answers."""
    for name, separator in CORRECTNESS.items():
        rows = read(folder, name, split)
        if not rows:
            continue
        accepted = [[each.strip() for each in row["reference"].split(separator) if each.strip()] for row in rows]
        asked = [
            [Grade("correctness", row["answer"], row["question"], each) for each in references or [row["reference"]]]
            for row, references in zip(rows, accepted, strict=True)
        ]
        raw = np.array([max((rating.value - 1) / 4 for rating in judge.answer(questions)) for questions in asked])
        labels, right = np.array([bool(row["label"]) for row in rows]), raw >= 0.5
        groups = [row["group"] for row in rows]
        kappa = with_interval(kappa_of(labels, right), groups, repeats)
        print(f"{name} n={len(rows)}: accuracy {np.mean(labels == right):.3f}, kappa {kappa}")


def kappa_of(labels: NDArray[np.bool_], right: NDArray[np.bool_]) -> Measure:
    """Cohen's kappa of drawn rows."""
    return lambda drawn: cohen_kappa_score(labels[drawn], right[drawn])


def report_preferences(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Prints the Pearson correlation of score differences with human preference between two long answers."""
    rows = read(folder, "ragchecker_pairs", split)
    if not rows:
        return
    sides = [
        [Grade("correctness", row[side], row["question"], row["reference"]) for row in rows]
        for side in ("answer", "answer2")
    ]
    first, second = (np.array([rating.value for rating in judge.answer(side)]) for side in sides)
    for preference in PREFERENCES:
        wanted = np.array([float(row[preference]) for row in rows])
        shown = with_interval(correlation(second - first, wanted), [row["group"] for row in rows], repeats)
        print(f"ragchecker_pairs n={len(rows)}: Pearson with {preference} {shown}")


def correlation(scores: Values, wanted: Values) -> Measure:
    """Pearson's correlation over drawn rows."""
    return lambda drawn: float(np.corrcoef(scores[drawn], wanted[drawn])[0, 1])


def answerability(row: Row) -> str:
    """The row's label in lower case."""
    label = row["label"]
    return str(label[0] if isinstance(label, list) else label).lower()


def report_answerable(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Prints how well refusals and clarifying questions are detected, and sufficient passages."""
    rows = [row for row in read(folder, "mtrag_un", split) if (row["answer"] or "").strip()]
    if rows:
        kinds = {
            "answerable": "answer",
            "partial": "partly",
            "unanswerable": "refusal",
            "underspecified": "clarification",
        }
        replies = np.array([reply_kind(row["answer"]) for row in rows])
        wanted = np.array([kinds[answerability(row)] for row in rows])
        for name in ("refusal", "clarification"):
            measure = balanced(wanted == name, (replies == name).astype(float), 0.5)
            shown = with_interval(measure, [row["group"] for row in rows], repeats)
            print(f"mtrag_un n={len(rows)}: balanced accuracy of {name} {shown}")
    for name in ("clapnq", "mtrag_un"):
        rows = [row for row in read(folder, name, split) if answerability(row) in ("answerable", "unanswerable")]
        if not rows:
            continue
        turns = [tuple(f"{each['role']}: {each['content']}" for each in row.get("history") or ()) for row in rows]
        asked = [
            Sufficiency(row["question"], tuple(row["contexts"]), each) for row, each in zip(rows, turns, strict=True)
        ]
        support = np.array([finding.support for finding in judge.answer(asked)])
        labels = np.array([answerability(row) == "answerable" for row in rows])
        groups = [row["group"] for row in rows]
        print(f"{name} n={len(rows)}, unanswerable {np.sum(~labels)}, without passages {count_bare(rows)}")
        print(f"  AUROC of context_sufficiency         {with_interval(auroc(labels, support), groups, repeats)}")
        print(
            f"  balanced accuracy, support >= 0.5    {with_interval(balanced(labels, support, 0.5), groups, repeats)}"
        )


def count_bare(rows: list[Row]) -> int:
    """The number of rows without passages, which need no judge."""
    return sum(not row["contexts"] for row in rows)


def report_evidence(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Prints how often the first cited sentence is a supporting one, and how well unsupported words are detected."""
    rows = [row for row in read(folder, "wice_evidence", split) if any(row["supporting_sentences"])]
    if rows:
        asked = [Verify((row["claim"],), tuple(row["evidence"])) for row in rows]
        quotes = [found[0].quotes for found in judge.answer(asked)]
        gold = [{each + 1 for one in row["supporting_sentences"] for each in one} for row in rows]
        right = np.array([bool(q) and q[0][0] in g for q, g in zip(quotes, gold, strict=True)], dtype=float)
        shown = with_interval(lambda drawn: float(right[drawn].mean()), [row["claim"] for row in rows], repeats)
        print(f"wice_evidence n={len(rows)}: first cited sentence supports {shown}")
    rows = read(folder, "wice_tokens", split)
    if rows:
        labels: list[bool] = []
        doubts: list[float] = []
        groups: list[str] = []
        for row in rows:
            words, end = doubted_words(row["claim"], row["evidence"]), 0
            for token, unsupported in zip(row["claim_tokens"], row["non_supported_spans"], strict=True):
                start = row["claim"].index(token, end)
                end = start + len(token)
                doubts.append(max((doubt for first, last, doubt in words if first < end and last > start), default=0.0))
                labels.append(unsupported)
                groups.append(row["claim"])
        shown = with_interval(auroc(np.array(labels), np.array(doubts)), groups, repeats)
        print(f"wice_tokens n={len(rows)} claims, {len(labels)} words: AUROC of unsupported words {shown}")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description="Agreement of the lexical judge with human labels.",
        epilog="The labelled sets are not shipped with the package: their licences differ. FOLDER must contain them.",
    )
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data"), help="folder of <set>.<split>.jsonl")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--repeats", type=int, default=300, help="bootstrap repeats")
    options = parser.parse_args()
    judge = LexicalJudge()
    reports = (report_grounding, report_correctness, report_preferences, report_answerable, report_evidence)
    for report in reports:
        report(judge, options.folder, options.split, options.repeats)


if __name__ == "__main__":
    main()
