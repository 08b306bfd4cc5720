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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, roc_auc_score

from mlflow_ragmetrics.core.question import Claims, Grade, Sufficiency, Verify
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.judges.lexical.support import doubted_words
from mlflow_ragmetrics.metrics.refusal import reply_kind

GROUNDING = ("ragtruth_qa", "wice", "attributionbench", "qags", "faithbench", "xnli_ru")
CORRECTNESS = {"evouna_nq": "/", "evouna_tq": "/", "nq301": " | "}
PREFERENCES = ("overall_label", "label", "completeness_label")
REPLIES = {
    "answerable": "answer",
    "partial": "partly",
    "unanswerable": "refusal",
    "underspecified": "clarification",
}
ANSWER_THRESHOLD = 0.9
CLAIM_THRESHOLDS = np.arange(0.30, 0.95, 0.05)

Row = dict[str, Any]
Values = NDArray[np.float64]
Measure = Callable[[NDArray[np.int64]], float]


def sets(folder: Path, split: str, *names: str) -> Iterator[tuple[str, list[Row]]]:
    """Names and rows of the sets whose files are there."""
    for name in names:
        path = folder / f"{name}.{split}.jsonl"
        if path.exists():
            yield name, [json.loads(line) for line in path.open(encoding="utf-8")]


def with_interval(measure: Measure, groups: Sequence[str], repeats: int = 2000) -> str:
    """A measure over all rows, with its 95 % bootstrap interval over groups of rows."""
    _, codes = np.unique(groups, return_inverse=True)
    members = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    generator = np.random.default_rng(0)
    draws = (generator.integers(0, len(members), len(members)) for _ in range(repeats))
    values = [measure(np.concatenate([members[place] for place in places])) for places in draws]
    low, high = np.nanquantile(values, [0.025, 0.975])
    return f"{measure(np.arange(len(groups))):.3f} [{low:.3f}, {high:.3f}]"


def auroc(labels: NDArray[np.bool_], scores: Values) -> Measure:
    """The area under the ROC curve of drawn rows; NaN if they have only one label."""
    return lambda drawn: float(roc_auc_score(labels[drawn], scores[drawn])) if 0 < labels[drawn].mean() < 1 else np.nan


def balanced(labels: NDArray[np.bool_], scores: Values, threshold: float) -> Measure:
    """The balanced accuracy of drawn rows at a threshold."""
    return lambda drawn: balanced_accuracy_score(labels[drawn], scores[drawn] >= threshold - 1e-9)


def share(right: Values) -> Measure:
    """The share of drawn rows that are right."""
    return lambda drawn: float(right[drawn].mean())


def accuracies(labels: NDArray[np.bool_], supports: list[Values]) -> Values:
    """The balanced accuracy of the answers at each of the claim thresholds; an answer without claims is supported."""
    shares = [[np.mean(support >= each) if len(support) else 1.0 for support in supports] for each in CLAIM_THRESHOLDS]
    return np.array([balanced_accuracy_score(labels, np.array(share) >= ANSWER_THRESHOLD - 1e-9) for share in shares])


def report_grounding(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Print AUROC of the mean support and balanced accuracy, also with the threshold from the other sets."""
    seen: dict[str, Values] = {}
    for name, rows in sets(folder, split, *GROUNDING):
        start = time.perf_counter()
        claims = judge.answer([Claims(row["answer"]) for row in rows])
        checks = [Verify(texts, tuple(row["contexts"])) for texts, row in zip(claims, rows, strict=True)]
        findings = judge.answer(checks)
        speed = len(rows) / (time.perf_counter() - start)
        labels = np.array([bool(row["label"]) for row in rows])
        supports = [np.array([finding.support for finding in answer]) for answer in findings]
        support = np.array([np.mean(values) if len(values) else 1.0 for values in supports])
        ratio = np.array([np.mean([each.verdict == "SUPPORTED" for each in answer] or [1.0]) for answer in findings])
        groups = [row["group"] for row in rows]
        seen[name] = accuracies(labels, supports)
        print(f"{name} n={len(rows)}, unsupported {np.sum(~labels)}, {speed:.0f} rows/s")
        print(f"  AUROC of the mean support            {with_interval(auroc(labels, support), groups, repeats)}")
        decided = balanced(labels, ratio, ANSWER_THRESHOLD)
        print(f"  balanced accuracy, ratio >= {ANSWER_THRESHOLD}      {with_interval(decided, groups, repeats)}")
        report_copying(rows, labels, support, ratio)
        if any("spans" in row for row in rows):
            print(f"  AUROC of single sentences            {sentence_level(rows, claims, supports, repeats)}")
    for name, reached in seen.items():
        others = [values for other, values in seen.items() if other != name]
        if others:
            chosen = int(np.argmax(np.mean(others, axis=0)))
            figures = f"{CLAIM_THRESHOLDS[chosen]:.2f}, balanced accuracy {reached[chosen]:.3f}"
            print(f"{name}: claim threshold that suits the other sets best {figures}")


def report_copying(rows: list[Row], labels: NDArray[np.bool_], support: Values, ratio: Values) -> None:
    """Print figures by the share of word triples that the answer copies from its passages."""
    copied = np.array([copied_share(row["answer"], row["contexts"]) for row in rows])
    for low, high in ((0.0, 0.25), (0.25, 0.5), (0.5, 1.01)):
        drawn = np.flatnonzero((copied >= low) & (copied < high))
        alarms = np.mean(ratio[drawn[labels[drawn]]] < ANSWER_THRESHOLD) if labels[drawn].any() else np.nan
        figure = f"AUROC {auroc(labels, support)(drawn):.3f}, false alarms {alarms:.0%} of supported answers"
        print(f"  copied {low:.0%} to {min(high, 1):.0%}: n={len(drawn)}, {figure}")


def copied_share(answer: str, passages: Sequence[str]) -> float:
    """The share of the answer's word triples that occur in its passages."""
    own, theirs = triples(answer), set().union(*map(triples, passages))
    return len(own & theirs) / max(1, len(own))


def triples(text: str) -> set[tuple[str, ...]]:
    """All runs of three words."""
    words = text.lower().split()
    return set(zip(words, words[1:], words[2:], strict=False))


def sentence_level(rows: list[Row], claims: Sequence[Sequence[str]], supports: Sequence[Values], repeats: int) -> str:
    """AUROC of the support of single claims; a claim is wrong if it overlaps a span that people marked."""
    labels, scores, groups = [], [], []
    for row, texts, values in zip(rows, claims, supports, strict=True):
        for start, end, place in places_of(row["answer"], texts):
            labels.append(not any(span["start"] < end and span["end"] > start for span in row["spans"]))
            scores.append(values[place])
            groups.append(row["group"])
    return with_interval(auroc(np.array(labels), np.array(scores)), groups, repeats)


def places_of(text: str, parts: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Where each part that occurs in the text, after those before it, begins and ends, and its number."""
    end = 0
    for number, part in enumerate(parts):
        start = text.find(part, end)
        if start >= 0:
            end = start + len(part)
            yield start, end, number


def report_correctness(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Print accuracy and kappa of ``raw >= 0.5``, with the best of the accepted answers."""
    for name, rows in sets(folder, split, *CORRECTNESS):
        raw = []
        for row in rows:
            accepted = [text.strip() for text in row["reference"].split(CORRECTNESS[name]) if text.strip()]
            questions = [
                Grade("correctness", row["answer"], row["question"], text) for text in accepted or [row["reference"]]
            ]
            raw.append(max((rating.value - 1) / 4 for rating in judge.answer(questions)))
        labels, right = np.array([bool(row["label"]) for row in rows]), np.array(raw) >= 0.5
        kappa = with_interval(kappa_of(labels, right), [row["group"] for row in rows], repeats)
        print(f"{name} n={len(rows)}: accuracy {np.mean(labels == right):.3f}, kappa {kappa}")


def kappa_of(labels: NDArray[np.bool_], right: NDArray[np.bool_]) -> Measure:
    """Cohen's kappa of drawn rows."""
    return lambda drawn: cohen_kappa_score(labels[drawn], right[drawn])


def report_preferences(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Print the Pearson correlation of score differences with human preference between two long answers."""
    for name, rows in sets(folder, split, "ragchecker_pairs"):
        first, second = (
            [Grade("correctness", row[side], row["question"], row["reference"]) for row in rows]
            for side in ("answer", "answer2")
        )
        gains = np.subtract(*([rating.value for rating in judge.answer(side)] for side in (second, first)))
        for preference in PREFERENCES:
            wanted = np.array([float(row[preference]) for row in rows])
            figure = with_interval(correlation(gains, wanted), [row["group"] for row in rows], repeats)
            print(f"{name} n={len(rows)}: Pearson with {preference} {figure}")


def correlation(scores: Values, wanted: Values) -> Measure:
    """Pearson's correlation over drawn rows."""
    return lambda drawn: float(np.corrcoef(scores[drawn], wanted[drawn])[0, 1])


def answerability(row: Row) -> str:
    """The row's label in lower case."""
    label = row["label"]
    return str(label[0] if isinstance(label, list) else label).lower()


def report_replies(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Print how well refusals and clarifying questions are detected."""
    for name, every in sets(folder, split, "mtrag_un"):
        rows = [row for row in every if (row["answer"] or "").strip()]
        replies = np.array([reply_kind(row["answer"]) for row in rows])
        wanted = np.array([REPLIES[answerability(row)] for row in rows])
        for kind in ("refusal", "clarification"):
            measure = balanced(wanted == kind, (replies == kind).astype(float), 0.5)
            figure = with_interval(measure, [row["group"] for row in rows], repeats)
            print(f"{name} n={len(rows)}: balanced accuracy of {kind} {figure}")


def report_sufficiency(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Print how well sufficient passages are detected."""
    for name, every in sets(folder, split, "clapnq", "mtrag_un"):
        rows = [row for row in every if answerability(row) in ("answerable", "unanswerable")]
        turns = [tuple(f"{turn['role']}: {turn['content']}" for turn in row.get("history") or ()) for row in rows]
        questions = [
            Sufficiency(row["question"], tuple(row["contexts"]), turn) for row, turn in zip(rows, turns, strict=True)
        ]
        support = np.array([finding.support for finding in judge.answer(questions)])
        labels = np.array([answerability(row) == "answerable" for row in rows])
        groups, bare = [row["group"] for row in rows], sum(not row["contexts"] for row in rows)
        print(f"{name} n={len(rows)}, unanswerable {np.sum(~labels)}, without passages {bare}")
        print(f"  AUROC of context_sufficiency         {with_interval(auroc(labels, support), groups, repeats)}")
        figure = with_interval(balanced(labels, support, 0.5), groups, repeats)
        print(f"  balanced accuracy, support >= 0.5    {figure}")


def report_evidence(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Print how often the first cited sentence is a supporting one."""
    for name, every in sets(folder, split, "wice_evidence"):
        rows = [row for row in every if any(row["supporting_sentences"])]
        findings = judge.answer([Verify((row["claim"],), tuple(row["evidence"])) for row in rows])
        cited = [found[0].quotes[0][0] if found[0].quotes else None for found in findings]
        gold = [{number + 1 for part in row["supporting_sentences"] for number in part} for row in rows]
        right = np.array([first in numbers for first, numbers in zip(cited, gold, strict=True)], dtype=float)
        figure = with_interval(share(right), [row["claim"] for row in rows], repeats)
        print(f"{name} n={len(rows)}: first cited sentence supports {figure}")


def report_words(judge: LexicalJudge, folder: Path, split: str, repeats: int) -> None:
    """Print how well unsupported words are detected."""
    for name, rows in sets(folder, split, "wice_tokens"):
        labels, doubts, groups = [], [], []
        for row in rows:
            words = doubted_words(row["claim"], row["evidence"])
            for start, end, place in places_of(row["claim"], row["claim_tokens"]):
                doubts.append(max((doubt for first, last, doubt in words if first < end and last > start), default=0.0))
                labels.append(bool(row["non_supported_spans"][place]))
                groups.append(row["claim"])
        figure = with_interval(auroc(np.array(labels), np.array(doubts)), groups, repeats)
        print(f"{name} n={len(rows)} claims, {len(labels)} words: AUROC of unsupported words {figure}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--repeats", type=int, default=300, help="bootstrap repeats")
    options = parser.parse_args()
    reports = (report_grounding, report_correctness, report_preferences, report_replies)
    for report in (*reports, report_sufficiency, report_evidence, report_words):
        report(LexicalJudge(), options.folder, options.split, options.repeats)


if __name__ == "__main__":
    main()
