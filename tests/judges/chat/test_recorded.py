"""Careless replies are read as recorded, and so are the costs that a plan foresees."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import (
    Claims,
    Grade,
    Nuggets,
    Prefer,
    Question,
    RelatedChunks,
    Sufficiency,
    Tone,
    Verify,
)
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.tasks import request_of
from tests.judges.fake_models import dutiful, scripted
from tests.judges.rows import FULL_SET, ROW
from tests.recorded import check_recorded

TEXT = "The park opens at nine. Yes. It was built in 1889 by Ann and has two old gates! Shall I go on?"
PASSAGES = ("The park opens at nine, except on Mondays.", "It was built in 1889.", 'The "old" gates are two.')
CLAIMS = ("The park opens at nine.", "It was built in 1889.", "Ann built it.")
QUESTIONS: list[list[Question[Any]]] = [
    [Claims(TEXT, question="When does the park open?")],
    [Claims(TEXT, question="When does the park open?", passages=PASSAGES)],
    [Verify(CLAIMS, PASSAGES)],
    [RelatedChunks(TEXT, PASSAGES)],
    [Grade("correctness", TEXT, "When?", CLAIMS[0]), Tone(TEXT, CLAIMS[0])],
    [Sufficiency("When does the park open?", PASSAGES)],
    [Nuggets("When does the park open?", PASSAGES, from_reference=False)],
    [Prefer("When?", CLAIMS[0], CLAIMS[1])],
]
USUAL: Mapping[str, tuple[Any, ...]] = {
    "claim": (*CLAIMS, "The gates are old.", "They are two."),
    "fact": (*CLAIMS, CLAIMS[0]),
    "passage": ("p1", "p2", "p3"),
    "text": ("opens at nine", "built in 1889", "the 'old' gates", "opens at … Mondays", "It never said so.", ""),
    "quote": ("opens at nine", "built in 1889", ""),
    "reason": ("It says so.", "", "The passage does not say it."),
    "support": (0, 10, 49, 50, 51, 90, 100),
    "sufficient": (0, 30, 50, 100),
    "readers": (50, 51, 80, 100),
    "verdict": ("SUPPORTED", "NEUTRAL", "CONTRADICTED"),
    "better": ("A", "B", "tie"),
    "grade": (1, 2, 3, 4, 5, 0.5, 1),
    "vital": (True, False),
    "related": (True, False),
}
ODD: Mapping[str, tuple[Any, ...]] = {
    "claim": ("…", "Nobody knows it.", "The park is shut.", ""),
    "passage": ("P2", "p9", "passage 3", 1),
    "support": (101, -1, "80", "80%", 0.7, 1, None),
    "sufficient": (101, -1, 0.4, 1, "75"),
    "readers": (49, 0.8, 1, "90", None),
    "verdict": ("supported", "Neutral.", "UNKNOWN", None),
    "better": ("Answer A.", "[B]", "C", "first"),
    "grade": (0, 6, "4", 1.0, 4.5, None),
    "vital": ("true", "no"),
    "related": ("true", None),
}
IDS = {
    "sufficiency": ["question"],
    "preference": ["question"],
    "texts": ["t1"],
    "verdicts": ["c1", "c2", "c3"],
    "grades": ["correctness", "tone"],
    "related": ["p1", "p2", "p3"],
}


def drawn(schema: Mapping[str, Any], name: str, draw: random.Random) -> Any:
    """A reply that mostly fits ``schema``, with values as careless models write them."""
    if draw.random() < 0.01:
        return draw.choice([None, "x", [], {}, True])
    if name in USUAL and schema["type"] != "array":
        return draw.choice(ODD[name] if name in ODD and draw.random() < 0.04 else USUAL[name])
    if schema["type"] == "object":
        entry = {key: drawn(each, key, draw) for key, each in schema["properties"].items() if draw.random() > 0.01}
        if "verdict" in entry and draw.random() > 0.1:
            entry["support"] = draw.choice((50, 51, 90, 100) if entry["verdict"] == "SUPPORTED" else (0, 10, 49))
        return entry
    if name in ("sentences", "none"):
        return draw.sample([1, 2, 3, 4, 5, "1", "3"], draw.choice([0, 1, 1, 1, 2, 4]))
    if schema["type"] == "array":
        count = len(IDS[name]) if name in IDS else draw.choice([1, 1, 2, 3, 5])
        entries = [drawn(schema["items"], "", draw) for _ in range(count)]
        for each, own in zip(entries, IDS.get(name, ["question"] * count), strict=True):
            if isinstance(each, dict) and draw.random() > 0.02:
                each["passage" if name == "related" else "id"] = own
        return entries
    return draw.choice(["t1", "c1", "question", ""])


def test_replies_are_read_as_recorded() -> None:
    found: dict[str, Any] = {}
    for number in range(420):
        draw = random.Random(number)
        questions = QUESTIONS[number % len(QUESTIONS)]
        schema = {"type": "object", "properties": request_of(questions, "single").schema}
        replies = [json.dumps(drawn(schema, "", draw)) for _ in range(2)]
        model = scripted(*replies)
        outcomes = ChatJudge(model, calls="single").answer(questions)
        kinds = [each.code if isinstance(each, JudgeError) else type(each).__name__ for each in outcomes]
        said = repr((list(map(str, outcomes)), [each.content for each in model.sent[-1][2:]]))
        found[str(number)] = [len(model.sent), *kinds, sha256(said.encode()).hexdigest()[:6]]
    check_recorded(found, Path(__file__).with_name("recorded_replies.json"))


def test_plans_are_as_recorded() -> None:
    found: dict[str, Any] = {}
    suites = {"all": [*FULL_SET, "context_sufficiency", "nugget_recall", "citation_recall"], "one": ["faithfulness"]}
    rows = [ROW, {**ROW, "answer": f"{ROW['answer']} [1] It is red [2].", "contexts": ROW["contexts"][:2]}]
    for name, metrics in suites.items():
        for calls in ("full", "compact", "single"):
            for limits in ({}, {"max_tokens": 300}):
                judge = ChatJudge(dutiful(), calls=calls, prices={"input": 1, "output": 4}, **limits)
                (plan,) = rm.Suite(metrics, judge=judge).plan(rows).values()
                found[f"{name}, {calls}, {limits}"] = asdict(plan)
    check_recorded(found, Path(__file__).with_name("recorded_plans.json"))
