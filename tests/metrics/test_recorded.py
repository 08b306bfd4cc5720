"""Every metric on rows of many shapes, offline: values, reasons, counts and verdicts are as recorded."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.registry import builtin_metrics
from mlflow_ragmetrics.rows.record import to_sample
from tests.recorded import check_recorded

EXAMPLES = Path(__file__).parents[2] / "examples" / "data"
HOUSE = ["The house is red and was built in 1889.", "Trees grow nearby.\nThey are old.", "The house has 3 floors."]
ASKED = {"question": "What color is the house, and when was it built?", "contexts": HOUSE}
KNOWN = {**ASKED, "reference": "The house is red. It was built in 1889."}
ROWS: dict[str, dict[str, Any]] = {
    "right": {**KNOWN, "answer": "The house is red. It was built in 1889."},
    "wrong number": {**KNOWN, "answer": "The house is red. It was built in 1898, and it has 4 floors."},
    "denied": {**KNOWN, "answer": "The house is not red. It was never built."},
    "half": {**KNOWN, "answer": "The house is red. Its owner is a famous painter from Lisbon."},
    "cited": {**KNOWN, "answer": "The house is red [1]. Trees grow nearby [2][3]. It has 3 floors [9]. It is old."},
    "cited by name": {**KNOWN, "answer": "It is red (doc-1). It has floors 【3†source】 and trees ^2^."},
    "listed": {
        **KNOWN,
        "answer": "# The house\n\n1. It is red.\n2. Built:\n   - in 1889\n   - by hand\n\n* Old trees!",
    },
    "table": {**KNOWN, "answer": "| year | color |\n|---|---|\n| 1889 | red |\n\n```python\nprint('red')\n```"},
    "blank": {**KNOWN, "answer": "  \n"},
    "no answer": {**KNOWN},
    "refusal": {**KNOWN, "answer": "I don't know. The passages do not say.", "answerable": True},
    "right refusal": {**ASKED, "answer": "I'm sorry, I cannot answer that.", "answerable": False},
    "partly": {**KNOWN, "answer": "The house is red, but I don't know when it was built.", "answerable": "partial"},
    "asks back": {**KNOWN, "answer": "It depends. Could you clarify which house you mean?", "answerable": False},
    "asks at the end": {**KNOWN, "answer": "It is red. Which house? It is old. Trees grow nearby. Is that enough?"},
    "courtesy": {**KNOWN, "answer": "Sure! Here is the answer: the house is red. I hope this helps."},
    "error": {**KNOWN, "answer": "Error: 503 Service Unavailable"},
    "both unknown": {"question": "Why?", "answer": "No idea.", "reference": "It is unknown.", "contexts": HOUSE},
    "no context": {**KNOWN, "answer": "The house is red.", "contexts": []},
    "blank context": {**KNOWN, "answer": "The house is red.", "contexts": ["", " \n"]},
    "several references": {**ASKED, "answer": "It is red.", "reference": ["It is blue.", "It is red.", "Red, 1889."]},
    "history": {
        "question": "And when was it built?",
        "history": [
            {"role": "user", "content": "What color is the house?"},
            {"role": "assistant", "content": "It is red."},
        ],
        "answer": "It was built in 1889.",
        "reference": "In 1889.",
        "contexts": [{"id": "a", "text": HOUSE[0]}, {"id": "b", "text": HOUSE[1]}],
    },
    "documents": {
        "question": "Which?",
        "answer": "d2",
        "retrieved_doc_ids": ["d1", "d2", "d3", "d2", "d5", "d6", "d7"],
        "gold_doc_ids": ["d2", "d5", "d9"],
    },
    "documents by title": {
        "question": "Which?",
        "answer": "b",
        "retrieved_doc_ids": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"],
        "gold_doc_ids": ["l", "b", "k"],
    },
    "no document is right": {"question": "Which?", "answer": "b", "retrieved_doc_ids": ["x"], "gold_doc_ids": ["y"]},
    "nothing retrieved": {"question": "Which?", "answer": "b", "retrieved_doc_ids": [], "gold_doc_ids": ["y"]},
    "unsafe": {
        "question": "Who?",
        "answer": "Damn! Ann, ann@example.com, +1 (555) 123-4567 or 555-123-4567, SSN 123-45-6789. Hell, a shell.",
    },
    "contradicts itself": {**KNOWN, "answer": "The house is red. The house is not red. However, it is. It is. It is."},
    "cut off": {**KNOWN, "answer": "The house is red and it was built in the year of. the house has"},
    "repeats": {**KNOWN, "answer": "The house is red. The house is red. The red house is red. It was built in 1889."},
    "units": {
        "question": "How far is it, and what does it cost?",
        "answer": "It is 1,200.5 km (about 746 miles) away, costs $3.5 million and takes 2 h 30 min, i.e. 50% more.",
        "reference": "It is 1200.5 kilometers away and costs 3,500,000 dollars. It takes two and a half hours.",
        "contexts": ["The distance is 1200.5 km; Dr. Smith et al. paid $3.5m.", "It takes 150 minutes, e.g. by bus."],
    },
    "Russian": {
        "question": "Какого цвета дом?",
        "answer": "Дом красный. Он построен в 1889 году. Не знаю, сколько в нём этажей.",
        "reference": "Дом красный, построен в 1889 г.",
        "contexts": ["Красный дом построен в 1889 году.", "В доме 3 этажа."],
    },
    "nuggets": {
        **KNOWN,
        "answer": "The house is red.",
        "nuggets": [
            {"text": "It is red.", "importance": "vital"},
            {"text": "It was built in 1889.", "importance": "okay"},
            {"text": "It has 3 floors.", "importance": "vital"},
        ],
    },
    "long": {**KNOWN, "answer": " ".join(f"Fact {n} is that the house number {n} is red." for n in range(9))},
}
VARIANTS = {
    "rouge": [
        {"rouge_type": kind, "measure": measure}
        for kind in ("rouge1", "rouge2", "rougeL", "rougeLsum")
        for measure in ("f1", "precision", "recall")
    ],
    "factual_correctness": [{"mode": "PRECISION"}, {"mode": "RECALL"}],
    "answer_correctness": [{"preset": "equal_weights"}],
    **{name: [{"k": 1}, {"k": 3}] for name in ("ndcg", "precision_k", "recall_k", "hit_rate_k")},
    "content_safety": [{"per_category": True}],
    "semantic_similarity": [{"threshold": 0.8}],
    "fact_recall": [{"target": "reference"}],
    "lexical_groundedness": [{"grounding": ["contexts"]}],
    "nugget_recall": [{"counted": "all"}],
}


def measures() -> list[Any]:
    found: list[Any] = []
    for name, measure in builtin_metrics().items():
        found.append(measure)
        found += [measure(**options, key=f"{name}_v{n}") for n, options in enumerate(VARIANTS.get(name, ()), 1)]
    return found


def result(score: Score) -> list[Any]:
    """Values and verdicts of a score, and a digest of its texts, which would fill a megabyte."""
    numbers = {name: each for name, each in score.details.items() if isinstance(each, (int, float))}
    verdicts = "".join((each.verdict or "-")[0] for each in score.items)
    items = [(each.text, each.reason, [e.chunk for e in each.evidence], each.support) for each in score.items]
    texts = repr((score.reason, score.warnings, items, {**score.details, **numbers}.keys()))
    digest = sha256(texts.encode()).hexdigest()[:6]
    return [score.value, score.scaled, score.passed, list(numbers.values()), verdicts, digest]


@pytest.mark.parametrize("kind", ["shapes", "answers of a model"])
def test_scores_are_as_recorded(kind: str) -> None:
    lines = (EXAMPLES / "ragtruth_llama-2-13b.jsonl").read_text(encoding="utf-8").splitlines()[:4]
    rows = [{**row, "id": name} for name, row in ROWS.items()] if kind == "shapes" else list(map(json.loads, lines))
    suite = rm.Suite([measure(on_missing="skip") if isinstance(measure, Metric) else measure for measure in measures()])
    scored = [
        (row.sample.id, *each) for row in suite.score_samples(map(to_sample, rows)) for each in row.scores.items()
    ]
    found = {f"{name}, {key}": result(score) for name, key, score in scored if "is missing in" not in score.reason}
    check_recorded(found, Path(__file__).with_name(f"recorded_{kind.replace(' ', '_')}.json"))
