"""MLflow's scorers are members of suites, together with metrics of the package."""

from __future__ import annotations

import time
from typing import Any

import mlflow
import pytest
from mlflow.entities import AssessmentSource, Feedback
from mlflow.genai.scorers import scorer

import mlflow_ragmetrics as rm

ROW = {
    "question": "How high is it?",
    "answer": "It is 330 metres high.",
    "reference": "330 metres",
    "contexts": ["The tower is 330 metres high.", "It is red."],
}


def scored(*members: Any, **row: Any) -> dict[str, rm.Score]:
    return dict(rm.Suite(list(members)).evaluate([{**ROW, **row}], progress=False).rows[0].scores)


@scorer
def agrees(inputs: dict[str, Any], outputs: str, expectations: dict[str, Any]) -> bool:
    """Whether the answer contains the reference."""
    assert inputs == {"question": "How high is it?"}
    return expectations["expected_response"] in outputs


def test_a_scorer_is_a_metric_by_its_name() -> None:
    found = scored(agrees, "coherence")
    assert list(found) == ["agrees", "coherence"]
    assert found["agrees"].value == 1.0
    assert scored(agrees, reference="111 metres")["agrees"].value == 0.0


def test_it_sees_the_passages_as_what_a_retriever_found() -> None:
    @scorer
    def passages(trace: Any) -> Feedback:
        (span,) = trace.search_spans(span_type="RETRIEVER")
        return Feedback(
            value="yes",
            rationale=" ".join(each["page_content"] for each in span.outputs),
            source=AssessmentSource(source_type="LLM_JUDGE", source_id="some-model"),
        )

    score = scored(passages)["passages"]
    assert (score.value, score.reason, score.judge) == (1.0, " ".join(ROW["contexts"]), "some-model")


def test_what_fails_or_says_nothing_fails_its_own_score_only() -> None:
    @scorer
    def raising(outputs: str) -> float:
        raise ValueError("no model, token=hush-hush-0123")

    @scorer
    def silent(outputs: str) -> Feedback:
        return Feedback(value=None, rationale="nothing to judge")

    @scorer
    def strange(outputs: str) -> str:
        return "sideways"

    @scorer
    def several(outputs: str) -> list[Feedback]:
        return [Feedback(name="a", value=1), Feedback(name="b", value=1)]

    found = scored(raising, silent, strange, several, agrees)
    assert found["agrees"].scored
    assert found["raising"].status == "error"
    assert "hush" not in str(found["raising"].error)
    assert (found["silent"].status, found["silent"].reason) == ("skipped", "nothing to judge")
    assert "neither a number nor yes or no" in str(found["strange"].error)
    assert "2 feedbacks" in str(found["several"].error)


def test_rows_are_asked_about_at_the_same_time() -> None:
    @scorer
    def slow(outputs: str) -> float:
        time.sleep(0.3)
        return 0.5

    began = time.monotonic()
    report = rm.Suite([slow], concurrency=8).evaluate([{**ROW, "id": str(n)} for n in range(16)], progress=False)
    assert report.metrics["slow/mean"] == 0.5
    assert time.monotonic() - began < 16 * 0.3


def test_a_judge_of_mlflow_asks_its_own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.genai import judges

    polite = judges.make_judge("politeness", "Is {{ outputs }} polite?", model="openai:/gpt-4o-mini")
    asked: list[Any] = []

    def answers(self: Any, **given: Any) -> Feedback:
        asked.append(given["outputs"])
        return Feedback(name="politeness", value=True, rationale="It is.")

    monkeypatch.setattr(type(polite), "run", answers)
    suite = rm.Suite([polite, "coherence"])
    report = suite.evaluate([ROW], progress=False)
    assert asked == [ROW["answer"]]
    assert report.rows[0].scores["politeness"].value == 1.0
    run_id = report.log()
    assert mlflow.get_run(run_id).data.metrics["politeness/mean"] == 1.0
    assert suite.replace(language="ru").keys == ["politeness", "coherence"]


def test_a_grade_in_whole_numbers_stands_as_it_is() -> None:
    judges = pytest.importorskip("mlflow.genai.judges")
    polite = judges.make_judge("grade", "{{ outputs }}?", model="openai:/gpt-4o-mini", feedback_value_type=int)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(polite), "run", lambda self, **given: Feedback(name="grade", value=4))
        assert scored(polite)["grade"].value == 4.0
