"""RAGChecker's measures equal the project's published figures for its claims and verdicts, and hand-computed ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import JudgeError, MissingFieldError

PUBLISHED = Path(__file__).parents[1] / "data" / "ragchecker_checking_outputs.json"
DATA = json.loads(PUBLISHED.read_text(encoding="utf-8"))
KEYS = {
    "precision": "factual_correctness_precision",
    "recall": "factual_correctness_recall",
    "f1": "factual_correctness",
    "claim_recall": "fact_recall_reference",
    "context_precision": "relevant_chunk_precision",
    "context_utilization": "context_utilization",
    "noise_sensitivity_in_relevant": "noise_sensitivity_relevant",
    "noise_sensitivity_in_irrelevant": "noise_sensitivity_irrelevant",
    "hallucination": "hallucination_rate",
    "self_knowledge": "self_knowledge",
    "faithfulness": "faithfulness",
}
OURS = list(KEYS.values())[4:10]
VERDICTS = {"Entailment": "SUPPORTED", "Contradiction": "CONTRADICTED", "Neutral": "NEUTRAL"}


class CheckedRows(rm.Judge):
    """Answers with the claims and a checker's verdicts on each pair."""

    name = "checked"
    local = True

    def __init__(self, rows: Sequence[dict[str, Any]], *, says_where: bool = True) -> None:
        self.rows, self.says_where = rows, says_where
        self.asked: list[rm.Question] = []

    def answer(self, questions: Sequence[rm.Question]) -> list[Any]:
        self.asked += questions
        return [self._answer(question) for question in questions]

    def _answer(self, question: Any) -> Any:
        for row in self.rows:
            claims = {"answer": row["response_claims"], "reference": row["gt_answer_claims"]}
            texts = {"answer": row["response"], "reference": row["gt_answer"]}
            listed = {role: tuple(" ".join(claim) for claim in each) for role, each in claims.items()}
            if isinstance(question, rm.Claims) and question.text in texts.values():
                return next(listed[role] for role, text in texts.items() if text == question.text)
            if isinstance(question, rm.Verify) and question.claims in listed.values():
                role = next(role for role, each in listed.items() if each == question.claims)
                if question.against == "contexts":
                    table = row["retrieved2response" if role == "answer" else "retrieved2answer"]
                    return tuple(self._of_passages(verdicts) for verdicts in table)
                return tuple(
                    rm.Finding(VERDICTS[each])
                    for each in row["answer2response" if role == "answer" else "response2answer"]
                )
        return JudgeError("nobody checked this")

    def _of_passages(self, verdicts: Sequence[str]) -> rm.Finding:
        holding = [number for number, each in enumerate(verdicts, 1) if each == "Entailment"]
        quotes = tuple((number, "") for number in holding) if self.says_where else ()
        return rm.Finding("SUPPORTED" if holding else "NEUTRAL", quotes=quotes)


def records(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "id": row["query_id"],
            "question": row["query"],
            "answer": row["response"],
            "reference": row["gt_answer"],
            "contexts": [each["text"] for each in row["retrieved_context"]],
        }
        for row in rows
    ]


def test_equal_to_the_published_figures_to_all_digits() -> None:
    suite = rm.Suite.preset("diagnose", also=list(KEYS.values())[:2], judge=CheckedRows(DATA["results"]))
    report = suite.evaluate(records(DATA["results"]), progress=False)
    for row, published in zip(report.rows, DATA["results"], strict=True):
        found = {name: row.scores[key].value for name, key in KEYS.items()}
        assert found == pytest.approx(published["metrics"], abs=1e-15)
    overall = {name: value for group in DATA["metrics"].values() for name, value in group.items()}
    for name, key in KEYS.items():
        assert round(100 * report.metrics[f"{key}/mean"], 1) == overall[name], name


def test_nothing_more_is_asked_where_full_runs() -> None:
    row = records(DATA["results"])[:1]
    asked = []
    for more in ([], OURS):
        judge = CheckedRows(DATA["results"])
        metrics = ["faithfulness", "fact_recall(target='reference')", "factual_correctness", *more]
        rm.Suite(metrics, judge=judge).evaluate(row, progress=False)
        asked.append(len(judge.asked))
    assert asked == [6, 6]


CHECK = st.sampled_from(["Entailment", "Neutral", "Contradiction"])


@st.composite
def checked_row(draw: st.DrawFn) -> dict[str, Any]:
    """Any verdicts on one to four claims of each text by one to four passages."""
    claims, facts, passages = (draw(st.integers(1, 4)) for _ in range(3))
    table = st.lists(CHECK, min_size=passages, max_size=passages)
    return {
        "query_id": "1",
        "query": "What is it?",
        "response": "It is an answer.",
        "gt_answer": "It is a reference.",
        "retrieved_context": [{"text": f"passage {number}"} for number in range(passages)],
        "response_claims": [["answer", "claims", str(number)] for number in range(claims)],
        "gt_answer_claims": [["reference", "states", str(number)] for number in range(facts)],
        "answer2response": draw(st.lists(CHECK, min_size=claims, max_size=claims)),
        "response2answer": draw(st.lists(CHECK, min_size=facts, max_size=facts)),
        "retrieved2response": draw(st.lists(table, min_size=claims, max_size=claims)),
        "retrieved2answer": draw(st.lists(table, min_size=facts, max_size=facts)),
    }


def reference_implementation(row: dict[str, Any]) -> dict[str, float | None]:
    """The definitions of the paper, passage by passage."""
    yes = "Entailment"
    right = [each == yes for each in row["answer2response"]]
    held = [[each == yes for each in line] for line in row["retrieved2response"]]
    facts = [[each == yes for each in line] for line in row["retrieved2answer"]]
    relevant = [any(column) for column in zip(*facts, strict=True)]
    recalled = [any(line) for line in facts]
    used = [each == yes and there for each, there in zip(row["response2answer"], recalled, strict=True)]
    from_relevant = [any(h and r for h, r in zip(line, relevant, strict=True)) for line in held]
    n = len(right)
    wrong = [not each for each in right]
    return {
        "relevant_chunk_precision": sum(relevant) / len(relevant),
        "context_utilization": sum(used) / sum(recalled) if any(recalled) else None,
        "noise_sensitivity_relevant": sum(w and r for w, r in zip(wrong, from_relevant, strict=True)) / n,
        "noise_sensitivity_irrelevant": sum(
            w and any(line) and not r for w, line, r in zip(wrong, held, from_relevant, strict=True)
        )
        / n,
        "hallucination_rate": sum(w and not any(line) for w, line in zip(wrong, held, strict=True)) / n,
        "self_knowledge": sum(not w and not any(line) for w, line in zip(wrong, held, strict=True)) / n,
    }


@given(checked_row())
def test_equal_to_the_definitions(row: dict[str, Any]) -> None:
    report = rm.Suite(OURS, judge=CheckedRows([row])).evaluate(records([row]), progress=False)
    found = {key: score.value for key, score in report.rows[0].scores.items()}
    assert found == pytest.approx(reference_implementation(row))
    shares = [found[key] for key in OURS[2:]]
    backed_and_right = 1 - sum(each or 0.0 for each in shares)
    assert -1e-9 <= backed_and_right <= 1 + 1e-9  # the four are disjoint


RECORD = {
    "question": "What colour?",
    "answer": "The tower is red. The bridge is green.",
    "reference": "The tower is red.",
    "contexts": ["The tower is red."],
}


@pytest.mark.parametrize("key", OURS)
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"contexts": []}, "no_context"),
        ({"reference": "I don't know."}, "indistinct_reference"),
        ({"answer": "I don't know."}, "indistinct_answer"),
    ],
)
def test_what_cannot_be_checked_is_not_scored(key: str, change: dict[str, Any], rule: str) -> None:
    score = rm.score(key, {**RECORD, **change}, on_missing="skip")
    if rule == "indistinct_answer" and key == "relevant_chunk_precision":
        assert score.value == 1.0
    elif rule == "indistinct_answer" and key == "context_utilization":
        assert (score.value, score.details["rule"]) == (0.0, "judged")
    else:
        assert (score.status, score.details["rule"]) == ("skipped", rule)
        assert score.reason


@pytest.mark.parametrize("key", OURS)
@pytest.mark.parametrize("field", ["reference", "contexts"])
def test_missing_fields(key: str, field: str) -> None:
    with pytest.raises(MissingFieldError) as caught:
        rm.score(key, {name: value for name, value in RECORD.items() if name != field})
    assert caught.value.field == field


def test_where_a_judge_does_not_say_which_passage_nothing_is_made_up() -> None:
    judge = CheckedRows(DATA["results"], says_where=False)
    row = rm.Suite(OURS, judge=judge).evaluate(records(DATA["results"]), progress=False).rows[0]
    rules = {key: score.details["rule"] for key, score in row.scores.items()}
    assert [key for key, rule in rules.items() if rule == "unnamed_passages"] == [OURS[0], *OURS[2:4]]
    assert row.scores["hallucination_rate"].value == DATA["results"][0]["metrics"]["hallucination"]


def test_items_name_every_passage_that_holds_the_claim() -> None:
    suite = rm.Suite(["context_utilization", "noise_sensitivity_relevant"], judge=CheckedRows(DATA["results"]))
    row = suite.evaluate(records(DATA["results"]), progress=False).rows[0]
    fact = row.scores["context_utilization"].items[4]
    assert [each.chunk for each in fact.evidence] == [1, 2]
    assert fact.reason == "Claim of the reference. Passages 1, 2 support it."
    claim = row.scores["noise_sensitivity_relevant"].items[9]
    assert (claim.verdict, [each.chunk for each in claim.evidence]) == ("NEUTRAL", [4])


def test_sides() -> None:
    sides = {key: rm.score(key, RECORD).higher_is_better for key in OURS}
    assert [sides[key] for key in OURS] == [True, True, False, False, False, None]
