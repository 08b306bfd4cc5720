"""``mlflow.genai.evaluate(scorers=…)`` with real stores."""

from __future__ import annotations

import inspect
import json
from typing import Any

import mlflow
import pytest
from mlflow.entities import SpanType

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims
from mlflow_ragmetrics.errors import InvalidOptionError
from tests.adapters.doors import WordJudge, quiet  # noqa: F401

pytest.importorskip("mlflow.genai.evaluation.harness", reason="this MLflow cannot evaluate outside Databricks")


def rows(count: int = 3) -> list[dict[str, Any]]:
    return [
        {
            "inputs": {"question": f"q{i}?"},
            "outputs": {"answer": f"fact {i}. made up", "contexts": [{"text": f"it says fact {i}", "id": f"d{i}"}]},
            "expectations": {"expected_response": f"fact {i}"},
        }
        for i in range(count)
    ]


def assessments(result: Any) -> dict[str, list[Any]]:
    traces = mlflow.search_traces(run_id=result.run_id, return_type="list")
    found: dict[str, list[Any]] = {}
    for trace in sorted(traces, key=lambda trace: trace.data.request):
        for each in trace.info.assessments:
            if each.feedback is not None:
                found.setdefault(each.name, []).append(each)
    return found


def evaluate(data: Any, scorers: list[Any], **options: Any) -> Any:
    return mlflow.genai.evaluate(data=data, scorers=scorers, **options)


def test_one_scorer_gives_a_feedback_for_each_metric(suite: rm.Suite) -> None:
    result = evaluate(rows(), [rm.scorer(suite)])
    assert result.metrics["faithfulness/mean"] == 0.5
    assert set(result.metrics) == {f"{key}/mean" for key in suite.keys}
    found = assessments(result)
    assert [feedback.value for feedback in found["faithfulness"]] == [0.5] * 3
    assert "1" in found["faithfulness"][0].rationale
    sources = [found[key][0].source.source_type for key in ("faithfulness", "rouge1_f1")]
    assert sources == ["LLM_JUDGE", "CODE"]


def test_metadata_carries_the_claims_as_json(suite: rm.Suite) -> None:
    metadata = assessments(evaluate(rows(1), [rm.scorer(suite)]))["faithfulness"][0].metadata
    claims = json.loads(metadata["ragmetrics.items"])
    assert [(claim["text"], claim["verdict"]) for claim in claims] == [("fact 0", "SUPPORTED"), ("made up", "NEUTRAL")]
    assert json.loads(metadata["ragmetrics.scaled"]) == 3.0
    assert all(isinstance(value, str) for value in metadata.values())


def test_many_scorers_share_the_work_of_a_row(suite: rm.Suite, judge: WordJudge) -> None:
    made = rm.scorers(suite)
    result = evaluate(rows(), made)
    assert [scorer.name for scorer in made] == [suite.keys[-1], *suite.keys[:-1]]  # the composite first
    assert set(judge.asked.values()) == {1}
    assert result.metrics["overall/mean"] == pytest.approx((0.5 + result.metrics["rouge1_f1/mean"]) / 2, abs=1e-4)


def test_evaluating_again_asks_again(suite: rm.Suite, judge: WordJudge) -> None:
    made = rm.scorers(suite)
    traces = mlflow.search_traces(run_id=evaluate(rows(), made).run_id)
    for times in (2, 3):
        evaluate(traces, made)
        assert max(judge.asked.values()) == times


def test_never_nan_and_a_skipped_score_says_why(suite: rm.Suite) -> None:
    data = rows()
    data[0]["expectations"] = {}
    data[1]["expectations"] = {}
    result = evaluate(data, [rm.scorer(suite)])
    skipped = assessments(result)["rouge1_f1"][:2]
    assert [feedback.value for feedback in skipped] == [None, None]
    assert all(feedback.rationale.startswith("not measured: no reference. rouge needs") for feedback in skipped)
    assert [feedback.error for feedback in skipped] == [None, None]
    assert result.metrics["rouge1_f1/mean"] == 0.3333
    assert len(mlflow.search_traces(run_id=result.run_id)) == 3


def test_a_judge_that_fails_is_an_error_on_its_row_and_is_not_asked_again(suite: rm.Suite, judge: WordJudge) -> None:
    data = rows()
    data[1]["outputs"]["answer"] = "FAIL"
    result = evaluate(data, [rm.scorer(suite)])
    failed = assessments(result)["faithfulness"][1]
    assert failed.value is None
    assert "status 429: rate limit" in failed.error.error_message
    assert failed.error.error_code == "AllJudgesFailedError"
    assert sum(times for asked, times in judge.asked.items() if isinstance(asked, Claims) and asked.text == "FAIL") == 1
    assert result.metrics["faithfulness/mean"] == 0.5


def test_intervals_counts_params_and_tables_go_to_the_run_afterwards(suite: rm.Suite) -> None:
    made = rm.scorer(suite)
    result = evaluate(rows(), [made])
    made.log(result)
    run = mlflow.get_run(result.run_id)
    figures = mlflow.artifacts.load_dict(f"runs:/{result.run_id}/rag_figures.json")
    assert figures["faithfulness/n_scored"] == 3
    assert figures["faithfulness/ci_low"] == pytest.approx(0.5 * 0.025 ** (1 / 3))  # three equal values
    assert len(mlflow.MlflowClient().get_metric_history(result.run_id, "faithfulness/mean")) == 1
    assert run.data.params["judge"] == "words"
    table = mlflow.load_table("rag_rows.json", run_ids=[result.run_id])
    assert sorted(table["question"]) == ["q0?", "q1?", "q2?"]
    assert made.report(result).metrics["rouge1_f1/mean"] == pytest.approx(result.metrics["rouge1_f1/mean"], abs=5e-5)


def test_contexts_from_retriever_spans_at_any_depth_with_their_ids(judge: WordJudge) -> None:
    @mlflow.trace(span_type=SpanType.RETRIEVER)
    def search(text: str) -> list[dict[str, Any]]:
        return [{"page_content": f"it says {text}", "metadata": {"doc_uri": f"uri-{text}"}, "id": f"id-{text}"}]

    @mlflow.trace(span_type=SpanType.RETRIEVER)
    def ensemble(text: str) -> list[dict[str, Any]]:
        return [*search(text), *search(text)][:1]

    @mlflow.trace(span_type=SpanType.CHAIN)
    def step() -> None:
        search("fact 1")
        ensemble("fact 2")

    def chain(question: str) -> str:
        step()
        return "fact 1. fact 2. made up"

    made = rm.scorer(rm.Suite(["faithfulness", "context_recall"], judge=judge))
    data = [{"inputs": {"question": "q?"}, "expectations": {"gold_doc_ids": ["uri-fact 1", "other"]}}]
    result = evaluate(data, [made], predict_fn=chain)
    assert result.metrics == {"faithfulness/mean": 0.6667, "context_recall/mean": 0.5}
    (row,) = made.report(result).rows
    assert [chunk.id for chunk in row.sample.contexts or ()] == ["id-fact 1", "id-fact 2"]


def test_a_row_whose_predict_function_failed_is_an_error_that_is_counted(suite: rm.Suite) -> None:
    def chain(question: str) -> str:
        if question == "q1?":
            raise RuntimeError("index offline")
        return "fact 0"

    made = rm.scorer(suite)
    data = [{k: row[k] for k in ("inputs", "expectations")} for row in rows()]
    result = evaluate(data, [made], predict_fn=chain)
    for key in suite.keys:
        feedback = assessments(result)[key][1]
        assert feedback.value is None
        assert feedback.rationale == "the predict function failed: RuntimeError: index offline"
        assert (feedback.error.error_code, feedback.error.error_message) == ("RuntimeError", "index offline")
    figures = made.report(result).metrics
    assert (figures["rouge1_f1/n_error"], figures["rouge1_f1/n_scored"]) == (1, 2)
    assert not result.passed


def test_a_metric_by_itself_gives_one_feedback() -> None:
    made = rm.get_scorer("faithfulness", threshold=0.5)
    given = {"question": "What?", "contexts": ["The tower is red."]}
    feedback = made(inputs=given, outputs="The tower is red.")
    assert (feedback.name, feedback.value, feedback.source.source_type) == ("faithfulness", 1.0, "CODE")
    names = [each(inputs=given, outputs="Red.").name for each in rm.scorers(["coherence", "content_safety"])]
    assert names == ["coherence", "content_safety"]


def test_get_scorer_refuses_options_of_neither_metric_nor_suite() -> None:
    with pytest.raises(InvalidOptionError, match="treshold"):
        rm.get_scorer("faithfulness", treshold=0.5)
    with pytest.raises(InvalidOptionError, match="two names of one option"):
        rm.get_scorer("faithfulness", model=rm.LexicalJudge(), judge="lexical")
    assert rm.get_scorer("faithfulness", judge=rm.LexicalJudge()).name == "faithfulness"
    assert rm.get_scorer("faithfulness", language="ru", name_prefix="v2_").name == "v2_faithfulness"


def test_thresholds_decide_what_passed() -> None:
    data = [{"inputs": {"question": "What is it?"}, "outputs": "The tower is red and tall. It stands at the sea."}]
    one = evaluate(data, [rm.get_scorer("coherence", threshold=0.6)])
    assert one.passed
    assert evaluate(data, rm.scorers(["coherence", "lexical_relevance(threshold=0)"])).passed
    missed = evaluate(data, [rm.get_scorer("lexical_relevance", threshold=0.9)])
    assert not missed.passed
    assert "lexical_relevance" in missed.reason
    many = rm.scorer(["coherence", "lexical_relevance(threshold=0.9)"])
    result = evaluate(data, [many])
    many.log(result)
    assert result.reason.startswith("lexical_relevance")
    assert "coherence" not in result.reason


def test_a_predict_function_that_gives_a_list_of_one() -> None:
    made = rm.get_scorer("coherence")
    result = evaluate([{"inputs": {"question": "What?"}}], [made], predict_fn=lambda question: ["It is a red tower."])
    assert result.metrics["coherence/mean"] == 1.0
    message = [{"role": "assistant", "content": "It is a red tower."}]
    assert made(outputs=message).value == made(outputs=[{"answer": "It is a red tower."}]).value == 1.0


def test_unknown_contexts_are_not_scored_and_that_is_said() -> None:
    made = rm.get_scorer("faithfulness")
    result = evaluate([{"inputs": {"question": "What?"}, "outputs": "It is red."}] * 2, [made])
    assert "faithfulness/mean" not in result.metrics
    traces = mlflow.search_traces(run_id=result.run_id, return_type="list")
    feedback = [each for trace in traces for each in trace.info.assessments]
    assert [each.value for each in feedback] == [None, None]
    assert all(each.rationale.startswith("not measured: ") and "contexts" in each.rationale for each in feedback)
    nothing = made(inputs={"question": "What?", "contexts": []}, outputs="It is red.")
    assert nothing.value is None
    assert nothing.rationale.startswith("not measured: no contexts (by rule 1). No context to verify")
    assert nothing.error is not None


def test_columns_name_entries_of_inputs_outputs_and_expectations(judge: WordJudge) -> None:
    data = [{"inputs": {"frage": "q?"}, "outputs": {"text": "fact 1", "found": ["it says fact 1"]}}]
    columns = {"question": "frage", "answer": "text", "contexts": "found"}
    made = rm.scorer(rm.Suite(["faithfulness"], judge=judge), columns=columns)
    assert evaluate(data, [made]).metrics["faithfulness/mean"] == 1.0


def test_too_few_connections_for_the_workers_are_warned_of_with_both_remedies(
    suite: rm.Suite, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "40")
    with pytest.warns(UserWarning, match=r"MLFLOW_GENAI_EVAL_MAX_WORKERS=10 or MLFLOW_SQLALCHEMYSTORE_POOL_SIZE=100"):
        rm.scorer(suite)
    monkeypatch.setenv("MLFLOW_SQLALCHEMYSTORE_POOL_SIZE", "100")
    recwarn.clear()
    rm.scorers(suite)
    monkeypatch.delenv("MLFLOW_SQLALCHEMYSTORE_POOL_SIZE")
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "10")
    rm.scorer(suite)
    assert [each for each in recwarn if "connections" in str(each.message)] == []


def test_a_suite_with_other_weights_is_another_scorer_to_mlflow(judge: WordJudge) -> None:
    suites = [rm.Suite(["rouge", "coherence"], weights={"rouge1_f1": weight, "coherence": 1}) for weight in (1, 2)]
    runs = [mlflow.get_run(evaluate(rows(1), [rm.scorer(suite)]).run_id) for suite in suites]
    digests = [run.data.tags.get("mlflow.genaiEvaluate.scorersDigest") for run in runs]
    if digests == [None, None]:
        pytest.skip("this MLflow does not record its scorers")
    assert len(set(digests)) == 2


def test_mlflow_need_not_parse_this_package_to_tell_scorers_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    utilities = pytest.importorskip("mlflow.genai.scorers.scorer_utils")
    if not hasattr(utilities, "get_scorer_definition_digest"):
        pytest.skip("this MLflow does not tell scorers apart")
    made = [rm.scorer("coherence"), rm.scorer(["rouge", "coherence"]), *rm.scorers(["faithfulness", "coherence"])]
    monkeypatch.setattr("inspect.getsource", None)  # the source cannot be read
    digests = list(map(utilities.get_scorer_definition_digest, made))
    assert None not in digests
    assert len(set(digests)) == len(made)


def test_scorers_of_one_metric_can_be_combined_by_mlflow() -> None:
    if not hasattr(mlflow.genai, "make_scorer_ensemble"):
        pytest.skip("this MLflow combines no scorers")
    members = rm.scorers(["coherence", "content_safety"])
    both = mlflow.genai.make_scorer_ensemble(name="both", scorers=members, ensemble_fn="mean")
    result = evaluate([{"inputs": {"question": "What?"}, "outputs": "It is a red tower."}], [both])
    assert result.metrics["both/mean"] == 1.0


def test_which_part_failed_is_a_feedback_of_its_own_and_counted(judge: WordJudge) -> None:
    data = rows(2)
    data[1]["expectations"] = {}
    made = rm.scorer(rm.Suite.preset("diagnose", judge=judge))
    result = evaluate(data, [made])
    found = [each.feedback.value for each in assessments(result)["diagnosis"]]
    assert len(found) == 2
    assert found[1] == "not measured"
    made.log(result)
    counted = {k: v for k, v in mlflow.get_run(result.run_id).data.metrics.items() if k.startswith("diagnosis/")}
    assert (counted["diagnosis/n_not_measured"], sum(counted.values())) == (1, 2)
    assert "diagnosis" not in result.reason


def test_a_scorer_of_one_metric_gives_no_diagnosis() -> None:
    for made in rm.scorers("diagnose"):
        feedback = made(**rows(1)[0])
        assert feedback.name == made.name


def test_a_suite_with_a_composite_is_called_by_it_for_quality_criteria() -> None:
    assert rm.scorer("white_paper").name == "rag_score"
    assert rm.scorer(rm.Suite(["rouge", "coherence"])).name == "ragmetrics"
    if "quality_criteria" in inspect.signature(mlflow.genai.evaluate).parameters:  # since MLflow 3.18
        row = {"inputs": {"question": "How high?"}, "outputs": {"answer": "It is high.", "contexts": ["It is high."]}}
        result = mlflow.genai.evaluate(
            data=[{**row, "expectations": {"expected_response": "It is high."}}],
            scorers=[rm.scorer("white_paper")],
            quality_criteria="rag_score >= 0.5",
        )
        assert "rag_score/mean" in result.metrics
