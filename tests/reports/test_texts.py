"""Every text and every file of the public reports in ``tests/data/reports``, whose README gives their form."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm

FOLDER = Path(__file__).parents[1] / "data" / "reports"
Case = dict[str, Any]


def cases(name: str) -> list[Any]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [pytest.param(case, id=case["id"]) for case in map(json.loads, lines)]


VERDICTS: dict[str, Callable[[rm.Score, Any], bool]] = {
    "value": lambda score, value: score.value == (value if value is None else pytest.approx(value, abs=0.0006)),
    "value_below": lambda score, limit: score.value is not None and score.value < limit,
    "claims": lambda score, claims: claims in (len(score.items), [item.text for item in score.items]),
    "verdicts": lambda score, verdicts: verdicts == [item.verdict for item in score.items],
    "no_verdict": lambda score, verdict: verdict not in [item.verdict for item in score.items],
    "state": lambda score, state: score.details.get("answer_state") == state,
    "reply": lambda score, reply: score.details.get("reply") == reply,
    "no_reply": lambda score, reply: score.details.get("reply") != reply,
}


@pytest.mark.parametrize("case", cases("texts.jsonl"))
def test_text(case: Case) -> None:
    options = dict(case.get("options", {}))
    others = {name: options.pop(name) for name in ("embeddings",) if name in options}
    metric = getattr(rm, case["metric"])(**options) if options else case["metric"]
    score = rm.score(metric, case["sample"], judge="lexical", on_missing="skip", **others)
    for name, wanted in case["want"].items():
        assert VERDICTS[name](score, wanted), f"{name} is not {wanted}: {case['why']}"


FIELDS: dict[str, Callable[[Any], Any]] = {
    "contexts": lambda sample: [chunk.text for chunk in sample.contexts],
    "chunk_ids": lambda sample: [chunk.id for chunk in sample.contexts],
    "ids": lambda sample: list(sample.retrieved_doc_ids),
    "gold_ids": lambda sample: list(sample.gold_doc_ids),
}


def differences(report: rm.Report | None, messages: str, want: Case) -> list[str]:
    """The keys of ``want`` that do not hold for the report, or for its warnings or refusal."""
    if "refused_naming" in want:
        is_named = all(word.casefold() in messages.casefold() for word in want["refused_naming"])
        return [] if report is None and is_named else [f"refused_naming {want['refused_naming']}"]
    if report is None:
        return [f"refused: {messages}"]
    wrong = ["rows"] if len(report.rows) != want.get("rows", len(report.rows)) else []
    wrong += ["warns"] if "warns" in want and not re.search(rf"\b{want['warns']}\b", messages) else []
    for place, name in ((0, "first"), (-1, "last")):
        for field, wanted in want.get(name, {}).items():
            sample = report.rows[place].sample
            value = FIELDS[field](sample) if field in FIELDS and wanted is not None else getattr(sample, field)
            wrong += [f"{field}: {value}"] if (list(value) if isinstance(value, tuple) else value) != wanted else []
    for key, mean in want.get("values", {}).items():
        is_right = report.metrics.get(f"{key}/mean") == (mean if mean is None else pytest.approx(mean, abs=0.0006))
        wrong += [] if is_right else [f"{key}: {report.metrics.get(f'{key}/mean')}"]
    return wrong


@pytest.mark.parametrize("case", cases("files.jsonl"))
def test_file(case: Case) -> None:
    path = FOLDER / "files" / case["file"]
    options = dict(case.get("options", {}))
    report = None
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            report = rm.evaluate(str(path), options.pop("metrics", ["answer_relevance"]), **options)
            messages = " | ".join([*(str(warning.message) for warning in raised), *map(str, report.warnings)])
        except rm.RagMetricsError as error:
            messages = str(error)
    messages = messages.replace(str(path), "").replace(path.name, "")
    tries = [differences(report, messages, want) for want in case["want"].get("any", [case["want"]])]
    assert not all(tries), f"{tries[0]}: {case['why']}"
