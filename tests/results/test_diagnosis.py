"""The part that failed, from a row's claims, with evidence; never "no fault" if nothing was measured."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Evidence, Item, Score
from mlflow_ragmetrics.results.marks import CAUSES, diagnose

FACT, CLAIM = "The tower is red.", "The bridge is green."


def item(right: bool, *passages: int, verdict: str = "NEUTRAL", text: str = FACT) -> Item:
    evidence = tuple(Evidence(number) for number in passages)
    return Item("claim", text, "SUPPORTED" if right else verdict, evidence=evidence)  # type: ignore[arg-type]


def found(facts: Any, claims: Any, **more: Score) -> tuple[str, str]:
    scores = {
        "context_utilization": Score(value=0.5, items=tuple(facts), details={"rule": "judged"}),
        "noise_sensitivity_relevant": Score(value=0.5, items=tuple(claims), details={"rule": "judged"}),
    }
    diagnosis = diagnose({**scores, **more})
    return diagnosis.cause, diagnosis.reason


def test_noise_where_a_wrong_claim_comes_from_a_passage() -> None:
    cause, reason = found([item(True, 1)], [item(False, 4, text=CLAIM), item(True, 1)])
    assert cause == "noise"
    assert "passage 4 says “The bridge is green.” but the reference does not support it (1 of 2 claims" in reason
    assert found([item(True, 1)], [item(False, 1, verdict="CONTRADICTED")])[0] == "noise"


def test_a_detail_beside_the_facts_in_a_relevant_passage_is_no_fault() -> None:
    assert found([item(True, 1)], [item(False, 1, text=CLAIM), item(True, 1)])[0] == "no fault"


def test_the_most_frequent_fault_is_the_cause_and_the_others_are_counted() -> None:
    cause, reason = found([item(False), item(False, 1)], [item(False, text=CLAIM), item(False, text=CLAIM)])
    assert cause == "hallucination"
    assert reason.endswith("Also 1 fact not in the passages, 1 fact of the passages not stated.")
    assert found([item(False), item(False, 1)], [])[0] == "retrieval"


def test_what_was_not_judged_is_not_measured() -> None:
    failed = Score(status="error", error="JudgeError: no reply")
    cause, reason = found([item(True, 1)], [], noise_sensitivity_relevant=failed)
    assert (cause, reason) == ("not measured", "Not measured: JudgeError: no reply")
    assert diagnose({"context_utilization": Score(value=1.0)}) is None
    assert diagnose({"faithfulness": Score(value=1.0)}) is None


def test_of_several_judges_the_first_one_is_heard() -> None:
    facts = [item(True, 1).changed(judge="a"), item(False).changed(judge="b")]
    assert found(facts, [])[0] == "no fault"


ITEMS = st.lists(
    st.builds(
        lambda right, numbers, verdict: item(right, *numbers, verdict=verdict),
        st.booleans(),
        st.sets(st.integers(1, 3)),
        st.sampled_from(["NEUTRAL", "CONTRADICTED"]),
    ),
    max_size=5,
)


@given(ITEMS, ITEMS)
def test_no_fault_only_where_every_fact_is_stated_and_every_claim_backed(facts: list[Item], claims: list[Item]) -> None:
    cause, reason = found(facts, claims)
    assert cause in CAUSES
    assert reason
    backed = all(each.verdict == "SUPPORTED" or each.evidence for each in claims)
    if cause == "no fault":
        assert backed
        assert all(each.verdict == "SUPPORTED" for each in facts)


RECORDS = [
    {"answer": "The tower is red.", "reference": FACT, "contexts": ["The tower is red."]},
    {"answer": "It opened in 1889.", "reference": FACT, "contexts": ["The tower is red."]},
    {"answer": "The tower is red.", "reference": FACT, "contexts": []},
    {"answer": "The tower is red.", "reference": "I don't know.", "contexts": ["It rains."]},
    {"answer": "I don't know.", "reference": "I don't know.", "contexts": ["It rains."]},
    {"answer": "I don't know.", "reference": FACT, "contexts": ["The tower is red."]},
    {"answer": "The tower is red.", "reference": None, "contexts": ["The tower is red."]},
    {"answer": None, "reference": FACT, "contexts": ["The tower is red."]},
    {"answer": "The tower is red.", "reference": FACT, "contexts": None},
]
CAUSES_OF_RECORDS = [
    *("no fault", "generation", "retrieval", "not answerable", "no fault", "generation"),
    *("not measured", "not measured", "not measured"),
]


@pytest.fixture(scope="module")
def report() -> rm.Report:
    rows = [{"id": str(number), "question": "Which colour?", **record} for number, record in enumerate(RECORDS)]
    return rm.Suite.preset("diagnose").evaluate(rows, progress=False)


def test_each_row_of_a_report_has_its_cause(report: rm.Report) -> None:
    assert report.table["diagnosis"].tolist() == CAUSES_OF_RECORDS
    assert report.table["diagnosis_reason"][1].startswith("Generation: passage 1 says “The tower is red.”")
    assert all(report.table["diagnosis_reason"])


def test_causes_are_counted_in_the_run_and_add_up(report: rm.Report) -> None:
    from mlflow_ragmetrics.tracking.log import figures_of, run_metrics_of

    counted = {name: value for name, value in figures_of(report).items() if name.startswith("diagnosis/")}
    assert counted["diagnosis/n_not_measured"] == 3
    assert sum(counted.values()) == len(RECORDS)
    assert len(counted) == len(CAUSES)
    logged = {name: value for name, value in run_metrics_of(report).items() if name.startswith("diagnosis/")}
    assert logged == {name: value for name, value in counted.items() if value}


def test_reports_without_the_metrics_say_nothing(report: rm.Report) -> None:
    other = rm.Suite(["faithfulness"]).evaluate([{**RECORDS[0]}], progress=False)
    assert "diagnosis" not in other.table.columns
    assert other.diagnoses == []
    assert not any(name.startswith("diagnosis/") for name in other.metrics)


def test_a_prefix_and_russian() -> None:
    suite = rm.Suite.preset("diagnose", name_prefix="v2_", language="ru")
    found = suite.evaluate([{"id": "1", **RECORDS[1]}], progress=False).diagnoses[0]
    assert found.cause == "generation"
    assert found.reason.startswith("Генерация: в отрывке 1 сказано")


def test_columns_of_arrow_say_it_under_the_suites_prefix(report: rm.Report) -> None:
    from mlflow_ragmetrics.spark import ScoreColumns

    suite = rm.Suite.preset("diagnose", name_prefix="v2_")
    rows = list(suite.score_samples([row.sample for row in report.rows]))
    found = ScoreColumns(suite).batch(rows)
    assert found["v2_diagnosis"].to_pylist() == CAUSES_OF_RECORDS
    assert found["v2_diagnosis_reason"].to_pylist() == report.table["diagnosis_reason"].tolist()
    assert "diagnosis" not in ScoreColumns(rm.Suite(["faithfulness"])).schema.names


def test_markdown_and_json_of_a_comparison_say_it(report: rm.Report) -> None:
    other = rm.Suite.preset("diagnose").evaluate(
        [{"id": str(n), "question": "Which colour?", **RECORDS[0]} for n in range(len(RECORDS))], progress=False
    )
    comparison = rm.compare(report, other, allow_different=True)
    assert "- Diagnosis: retrieval 1 → 0, generation 2 → 0, not answerable 1 → 0" in comparison.to_markdown()
    assert "  - diagnosis: generation → no fault" in comparison.to_markdown()
    assert comparison.to_dict()["causes"]["not measured"] == [3, 0]
    assert ("generation", "no fault") in [row["causes"] for row in comparison.to_dict()["rows"]]
    assert "diagnosis: generation → no fault" in comparison.to_html()


def test_the_traces_of_a_run_carry_it(report: rm.Report) -> None:
    import mlflow

    run_id = report.log()
    assert "Diagnosis: retrieval 1, generation 2" in mlflow.get_run(run_id).data.tags["mlflow.note.content"]
    found = {}
    for trace in mlflow.search_traces(run_id=run_id, return_type="list"):
        (said,) = [each for each in trace.info.assessments if each.name == "diagnosis"]
        found[trace.info.client_request_id] = said.feedback.value
        assert said.rationale
        assert said.source.source_type == "CODE"
    assert [found[str(number)] for number in range(len(RECORDS))] == CAUSES_OF_RECORDS


def test_a_stored_row_is_scored_anew_without_it(report: rm.Report) -> None:
    from mlflow_ragmetrics.results.results import results_of, stored_samples

    results = results_of(report)
    assert results.diagnoses[1] == report.diagnoses[1]
    assert all("diagnosis" not in sample.metadata for sample in stored_samples(results))
