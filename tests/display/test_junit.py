from __future__ import annotations

from xml.etree import ElementTree

import pytest

from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.display.junit import Case, row_cases, to_junit
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.results.gates import Check

SCORES = {
    "good": Score(0.9, threshold=0.5, reason="well said"),
    "low": Score(0.4, threshold=0.5, reason="ill said"),
    "failed": Score(error="JudgeError: off\x00"),
    "by rule": Score(1.0, details={"unmeasured": "no contexts"}, reason="nothing retrieved"),
}
ROWS = [Row(Sample(id=name), {"faithfulness": score}) for name, score in SCORES.items()]


def failures(*checks: Check, **limits: float) -> dict[str, str | None]:
    return {case.name: case.failure for case in row_cases(ROWS, checks, limits)}


def test_no_row_fails_where_all_gates_were_reached() -> None:
    assert set(failures(Check("faithfulness/mean", True, ""), faithfulness=0.99).values()) == {None}


def test_rows_fail_for_their_part_in_a_gate_that_failed() -> None:
    assert failures(Check("faithfulness/mean", False, ""), faithfulness=0.8) == {
        "good": None,
        "low": "faithfulness is 0.4000, below the gate's 0.8: ill said",
        "failed": "faithfulness was not measured: JudgeError: off\x00",
        "by rule": "faithfulness was not measured: no contexts (by rule 1)",
    }


@pytest.mark.parametrize(("figure", "low_fails"), [("pass_rate", True), ("n_measured", False), ("n_scored", False)])
def test_the_figure_decides_which_rows_had_a_part(figure: str, low_fails: bool) -> None:
    name = f"faithfulness/{figure}"
    found = failures(Check(name, False, ""), **{name: 0.99})
    assert (found["low"] is not None, found["good"]) == (low_fails, None)
    assert found["failed"] is not None


def test_a_row_without_a_score_is_skipped_unless_it_failed() -> None:
    cases = {case.name: case for case in row_cases(ROWS, [])}
    assert cases["failed"].skipped == "JudgeError: off\x00"
    assert cases["low"].skipped is None
    assert cases["low"].properties == {"faithfulness": "0.4"}
    assert cases["low"].output == "faithfulness: ill said"


def test_no_text_moves_a_cursor_or_turns_the_direction() -> None:
    text = to_junit({"s\x9b2J": [Case("a\u202eb", failure="c\x1b[31md\x85\u2066", output="e\x7f\ufffff")]})
    assert [c for c in text if (c < " " and c != "\n") or "\x7f" <= c <= "\x9f" or c in "\u202e\u2066\uffff"] == []
    assert ElementTree.fromstring(text)[0][0].get("name") == "ab"


def test_the_xml_counts_each_suite_and_holds_what_xml_cannot() -> None:
    cases = [Case("a\x00", failure="first <line>\nsecond"), Case("b", skipped="why"), Case("c", output="said")]
    root = ElementTree.fromstring(to_junit({"gates": [Case("g")], "rows": cases}))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("4", "1", "1")
    _, rows = root
    assert rows[0].get("name") == "a\ufffd"
    assert rows[0][0].get("message") == "first <line>"
    assert rows[0][0].text == "first <line>\nsecond"
    assert [rows[1][0].tag, rows[2][0].tag] == ["skipped", "system-out"]
