"""Judges that notice all edits, none, or those that the offline judge notices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.text.sentences import statements

DATA = Path(__file__).parents[1] / "examples" / "data" / "ragtruth_gpt-4.jsonl"
ROWS: list[dict[str, Any]] = [
    {
        "question": "What of the tower?",
        "answer": "The tower is red. It opened in 1889. Entry is free if you are under 18.",
        "contexts": ["The tower is red. It opened in 1889. Entry is free if you are under 18."],
    },
    {
        "question": "What of the river?",
        "answer": "The river was crossed by Karenin near Kaluga after 20 minutes of rowing.",
        "contexts": ["The river was crossed by Karenin near Kaluga after 20 minutes of rowing."],
    },
]


class Reader(rm.Judge):
    """Supports claims that occur word for word in the passages, or any claim at all."""

    local = True

    def __init__(self, *, blind: bool) -> None:
        self.blind, self.name = blind, "blind" if blind else "literal"
        self.asked: list[rm.Question] = []

    def answer(self, questions: Sequence[rm.Question]) -> list[Any]:
        self.asked += questions
        return [self._answer(each) for each in questions]

    def _answer(self, question: Any) -> Any:
        if isinstance(question, rm.Claims):
            return tuple(statements(question.text))
        text = " ".join(question.passages)
        return tuple(rm.Finding("SUPPORTED" if self.blind or each in text else "NEUTRAL") for each in question.claims)


def shares(found: rm.Stress) -> dict[str, float | None]:
    return dict(zip(found.table["kind"], found.table["share"], strict=True))


def test_a_literal_judge_notices_all_and_a_blind_one_nothing() -> None:
    literal = shares(rm.stress(rm.Suite(["faithfulness"], judge=Reader(blind=False)), ROWS, progress=False))
    blind = shares(rm.stress(rm.Suite(["faithfulness"], judge=Reader(blind=True)), ROWS, progress=False))
    assert set(literal.values()) == {1.0}
    assert set(blind.values()) == {0.0}
    assert list(literal) == [
        *("negation", "number", "name", "date", "unit", "order", "condition"),
        *("foreign", "control"),
    ]


def test_one_question_for_claims_one_for_verdicts_and_one_per_kind() -> None:
    judge = Reader(blind=True)
    rm.stress(rm.Suite(["faithfulness"], judge=judge), ROWS[:1], kinds=["negation", "date"], progress=False)
    assert [question.kind for question in judge.asked] == ["claims", "verify", "verify", "verify"]
    before, *after = (question.claims for question in judge.asked if isinstance(question, rm.Verify))
    assert [sum(old != new for old, new in zip(before, each, strict=True)) for each in after] == [1, 1]


def test_claims_that_the_judge_does_not_support_are_not_edited() -> None:
    rows = [{**ROWS[0], "contexts": ["Nothing of the kind."]}, {**ROWS[0], "contexts": []}]
    found = rm.stress(rm.Suite(["faithfulness"], judge=Reader(blind=False)), rows, progress=False)
    assert found.table["edits"].tolist() == [0] * 9
    assert set(shares(found).values()) == {None}


def test_the_same_rows_are_edited_alike() -> None:
    first, second = (rm.stress("faithfulness", ROWS, progress=False) for _ in range(2))
    assert first.table.equals(second.table)
    reasons = [[score.reason for score in row.scores.values()] for row in first.report.rows]
    assert reasons == [[score.reason for score in row.scores.values()] for row in second.report.rows]
    assert "Noticed: “It opened in 1889.” became “It opened in 1" in " ".join(reasons[0])


def test_unknown_kinds_and_missing_contexts() -> None:
    with pytest.raises(InvalidOptionError, match="'spelling'; use one of negation, number") as caught:
        rm.stress("faithfulness", ROWS, kinds=["spelling"])
    assert caught.value.param == "kinds"
    with pytest.raises(InvalidOptionError, match="an empty list"):
        rm.stress("faithfulness", ROWS, kinds=[])
    with pytest.raises(MissingFieldError, match="contexts"):
        rm.stress("faithfulness", [{"answer": "The tower is red."}])


def test_control_is_better_the_lower() -> None:
    found = rm.stress("faithfulness", ROWS, kinds=["number", "control"], progress=False)
    assert found.report.totals.ranking.better == {"false_alarms": False}


def test_table_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = rm.stress("faithfulness", ROWS, progress=False).log()
    client = mlflow.MlflowClient()
    names = {each.path for each in client.list_artifacts(run)}
    assert {"rag_stress.json", "ragmetrics_report.html"} <= names
    assert client.get_run(run).data.metrics["notices_number/mean"] == 1.0


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    arguments = ["stress", str(DATA), "--limit", "20", "--no-log"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "Edits that the judge lexical notices in the answers of 20 rows" in result.output
    lines = result.output.splitlines()
    table = {line.split()[0]: line.split()[1:3] for line in lines if line.startswith(("foreign ", "control  "))}
    assert int(table["control"][1]) <= 1
    assert table["foreign"][0] == table["foreign"][1]
    assert int(table["foreign"][0]) > 10
    wrong = CliRunner().invoke(main, ["stress", str(DATA), "--kind", "spelling", "--no-log"])
    assert wrong.exit_code == 2
    assert "spelling" in wrong.output
