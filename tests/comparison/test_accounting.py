"""Every row of both runs is counted in each format, whatever is missing; lost rows never make a side better."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Chunk, Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report import Report

CAUSES = ("fine", "fine", "no answer", "blank", "refused", "failed judge", "no context", "no claims", "absent")
FATES = {
    "unscored in A only": "a",
    "unscored in B only": "b",
    "unscored in both": "both",
    "in A's run only": "only a",
    "in B's run only": "only b",
}


def row(number: int, cause: str, value: float) -> Row:
    answer = {"no answer": None, "blank": "  ", "refused": "I don't know."}.get(cause, "It is red.")
    contexts = () if cause == "no context" else (Chunk("It is red."),)
    score = Score(value)
    if cause in ("no answer", "failed judge"):
        score = Score(error="JudgeError: out of reach") if cause == "failed judge" else Score(reason="no answer")
    elif cause != "fine":
        score = Score(1.0, details={"unmeasured": cause})
    sample = Sample(
        id=str(number), question=f"q {number}", answer=answer, references=("It is red.",), contexts=contexts
    )
    return Row(sample, {"answer_relevance": score})


def report(causes: list[str], seed: int = 0) -> Report:
    values = np.random.default_rng(seed).random(len(causes))
    return Report([row(n, cause, float(values[n])) for n, cause in enumerate(causes) if cause != "absent"])


def counts_in(text: str) -> dict[str, int]:
    """The counts in the first row account of a text, by name."""
    account = re.search(r"(?:rows|Rows of [\w, ]+): (\d+ paired[^.;<|\n]*)", text)
    assert account, text
    return {
        name.strip(): int(count) for count, name in re.findall(r"(\d+) ([^,(]+)", account[1].replace(" lost by", ""))
    }


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CAUSES), st.sampled_from(CAUSES)), min_size=1, max_size=30))
def test_the_counts_add_up_to_the_rows_of_both_runs_in_every_format(pairs: list[tuple[str, str]]) -> None:
    sides = [["fine", *side] for side in zip(*pairs, strict=True)]
    a, b = report(sides[0]), report(sides[1], seed=1)
    found = rm.compare(a, b, resamples=100, rows=0)
    each = found["answer_relevance"]
    said = found.to_dict()
    (record,) = said["metrics"]
    (table,) = found.table.to_dict("records")
    names = ("unscored_a", "unscored_b", "unscored_both", "only_a", "only_b", "lost_a", "lost_b")
    expected = {name: getattr(each, name) for name in names}
    for one, other, rows, run in (("a", "b", a, said["rows_a"]), ("b", "a", b, said["rows_b"])):
        paired = each.rows + each.unscored_a + each.unscored_b + each.unscored_both
        assert paired + expected[f"only_{one}"] == len(rows) == run
        assert expected[f"lost_{one}"] <= expected[f"unscored_{one}"]
        gone = {"no answer", "blank", "refused", "failed judge"}
        lost = [own for own, against in zip(*(sides if one == "a" else sides[::-1]), strict=True) if against == "fine"]
        assert expected[f"lost_{one}"] == sum(cause in gone or cause == "no context" for cause in lost), other
    assert expected == {name: record[name] for name in names} == {name: table[name] for name in names}
    wanted = {"paired": each.rows, **{name: expected[_field(fate)] for name, fate in FATES.items()}}
    (gate,) = found.checks()
    page = re.sub(r"<[^>]+>", "\n", html.unescape(found.to_html()))
    for text in (
        str(found) if found.too_few is None else gate.reason,
        found.to_markdown().replace("\\", ""),
        page,
        gate.reason,
    ):
        shown = counts_in(text)
        assert {name: shown.get(name, 0) for name in wanted} == wanted
    if each.lost_b:
        assert each.verdict not in ("improved", "unchanged")
    if each.lost_a:
        assert each.verdict not in ("regressed", "unchanged")
    assert gate.passed == (each.paired_verdict != "regressed" and each.lost_b <= 0.05 * (each.rows + each.unscored_b))


def _field(fate: str) -> str:
    return fate.replace(" ", "_") if fate.startswith("only") else f"unscored_{fate}"


@pytest.mark.parametrize(("lost", "passed"), [(5, True), (6, False)])
def test_beyond_a_twentieth_of_lost_rows_no_gate_passes(lost: int, passed: bool) -> None:
    b = report(["failed judge"] * lost + ["fine"] * (100 - lost))
    found = rm.compare(report(["fine"] * 100), b)
    assert found["answer_relevance"].lost_b == lost
    assert found["answer_relevance"].verdict == "cannot be told"
    (check,) = found.checks()
    assert check.passed is passed
    assert f"{100 - lost} paired, {lost} unscored in B only ({lost} lost by B)" in check.reason


def test_a_refusal_where_the_reference_is_one_is_not_lost() -> None:
    def side(answer: str, value: float | None) -> Report:
        score = Score(1.0, details={"unmeasured": "both_indistinct"}) if value is None else Score(value)
        sample = Sample(id="1", question="q", answer=answer, references=("I don't know.",), contexts=(Chunk("c"),))
        return Report([Row(sample, {"answer_relevance": score}), row(2, "fine", 0.5)])

    found = rm.compare(side("It is red.", 0.2), side("No idea.", None))
    assert (found["answer_relevance"].unscored_b, found["answer_relevance"].lost_b) == (1, 0)
    for answer in (" ", "Error code: 429 - Rate limit reached"):
        assert rm.compare(side("It is red.", 0.2), side(answer, None))["answer_relevance"].lost_b == 1


def test_metrics_that_are_equal_in_every_row_count_once() -> None:
    def side(seed: int, shift: float) -> Report:
        values = np.clip(np.random.default_rng(seed).normal(0.5 + shift, 0.2, 60), 0, 1)
        scores = [{"twin": Score(v), "again": Score(v), "other": Score(v / 2)} for v in map(float, values)]
        return Report([Row(Sample(id=str(n)), each) for n, each in enumerate(scores)])

    found = rm.compare(side(0, 0), side(1, 0.1))
    assert found["again"].same_as == "twin"
    assert (
        found["twin"].p_holm
        == found["again"].p_holm
        == pytest.approx(2 * min(e.p_value or 1 for e in found.differences))
    )
    line = "again equals twin in every row: they count as one metric"
    for text in (str(found), found.to_markdown(), found.to_html()):
        assert text.count(line) == 1
    assert found.to_dict()["metrics"][1]["same_as"] == "twin"
    assert rm.power(found).tests == 2


@pytest.mark.parametrize("columns", [["answer"], []])
def test_non_answers_are_counted_as_a_report_counts_them(columns: list[str]) -> None:
    answers = ["It is red.", "  ", "I don't know.", "Error code: 429 - Rate limit reached", None]
    rows = [
        {"id": str(n), "gold_doc_ids": ["d1"], "retrieved_doc_ids": ["d1"], **dict.fromkeys(columns, text)}
        for n, text in enumerate(answers)
    ]
    found = rm.Suite(["recall_10"]).evaluate(rows, progress=False)
    counted = int(found.metrics.get("n_non_answers", 0))
    assert counted == 3 * len(columns)
    assert rm.compare(found, found).non_answers == (counted, counted)
