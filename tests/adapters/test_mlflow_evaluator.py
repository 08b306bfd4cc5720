"""The plugin ``evaluators="ragmetrics"`` with real stores."""

from __future__ import annotations

from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.mlflow_evaluator import RagMetricsEvaluator
from mlflow_ragmetrics.errors import BudgetExceededError, InvalidOptionError, JudgeError
from tests.adapters.doors import FailingJudge

ONE = mlflow.metrics.make_metric(eval_fn=lambda predictions: 1.0, greater_is_better=True, name="one")
CONFIG = {"suite": ["rouge", "lexical_groundedness"]}


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "question": ["Where is it?", "When was it built?"],
            "answer": ["It is in Paris", "It was built in 1889"],
            "reference": ["It is in Paris", "In the year 1889"],
            "contexts": [["It is in Paris, France."], ["It was built in 1889."]],
        },
        index=[7, 3],
    )


def evaluate(config: dict[str, Any] | None = None, data: Any = None, **options: Any) -> Any:
    settings = {
        "predictions": "answer",
        "targets": "reference",
        "model_type": "rag",
        "evaluators": "ragmetrics",
        "evaluator_config": CONFIG if config is None else config,
        **options,
    }
    return mlflow.models.evaluate(data=frame() if data is None else data, **settings)


def test_the_entry_point_is_installed_and_loads_no_earlier_than_needed() -> None:
    assert "ragmetrics" in mlflow.models.list_evaluators()


@pytest.mark.parametrize("config", [CONFIG, {"ragmetrics": CONFIG}], ids=["flat", "nested"])
def test_flat_and_nested_configuration(config: dict[str, Any]) -> None:
    result = evaluate(config)
    assert result.metrics["rouge1_f1/mean"] == pytest.approx(11 / 18)
    stored = mlflow.get_run(result.run_id).data
    assert stored.metrics["rouge1_f1/mean"] == result.metrics["rouge1_f1/mean"]
    about = mlflow.artifacts.load_dict(f"runs:/{result.run_id}/ragmetrics_suite.json")["suite"]
    assert about["metrics"] == ["rouge", "lexical_groundedness"]


def test_tables_are_filled() -> None:
    tables = evaluate().tables
    assert tables["rag_rows"]["answer"].tolist() == ["It is in Paris", "It was built in 1889"]
    assert "lexical_groundedness" in set(tables["rag_claims"]["metric"])


def test_suites_as_preset_and_as_object_with_options() -> None:
    result = evaluate({"suite": "white_paper", "judge": "lexical", "weights": {"faithfulness": 1, "correctness": 1}})
    assert result.metrics["rag_score/mean"] > 0
    assert result.metrics["rag_score_1to5/mean"] >= 1
    assert "rouge1_f1/mean" in evaluate({"suite": rm.Suite(["rouge"])}).metrics


@pytest.mark.parametrize("name", ["columns", "col_mapping"])
def test_columns_are_mapped(name: str) -> None:
    data = frame().rename(columns={"contexts": "what was found"})
    config = {"suite": ["faithfulness"], name: {"contexts": "what was found"}}
    assert "faithfulness/n_no_context" not in evaluate(config, data).metrics


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {**CONFIG, "judges": "lexical"},
            "there is no option .judges.; did you mean .judge.",
        ),
        ({"suite": "white-papers"}, "'white-papers' is not a preset .*white_paper"),
        ({"suite": ["rouge"], "columns": {"nonsense": "answer"}}, "nonsense"),
    ],
)
def test_what_is_wrong_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        evaluate(config)
    (run,) = mlflow.MlflowClient().search_runs(["0"])
    assert run.info.status == "FAILED"


def test_a_judge_that_is_lost_fails_the_run_but_what_was_scored_is_kept() -> None:
    judge = FailingJudge(error=BudgetExceededError("the budget is spent", fatal=True))
    with pytest.raises(JudgeError, match="the budget is spent"):
        evaluate({"suite": ["rouge", "faithfulness"], "judge": judge})
    (run,) = mlflow.MlflowClient().search_runs(["0"])
    assert run.info.status == "FAILED"
    assert run.data.metrics["rouge1_f1/mean"] == pytest.approx(11 / 18)


def test_only_those_who_ask_for_it_get_it() -> None:
    assert not RagMetricsEvaluator.can_evaluate(model_type="rag", evaluator_config={})
    assert not RagMetricsEvaluator.can_evaluate(model_type="rag", evaluator_config=None)
    result = mlflow.models.evaluate(data=frame(), predictions="answer", extra_metrics=[ONE])
    assert result.metrics == {"one": 1.0}
    with pytest.raises(MlflowException, match="could not be evaluated by any of the registered evaluators"):
        evaluate({})


def test_beside_the_default_evaluator() -> None:
    config = {"ragmetrics": CONFIG, "default": {}}
    result = evaluate(config, evaluators=["default", "ragmetrics"], model_type=None, extra_metrics=[ONE])
    assert result.metrics["one"] == 1.0
    assert result.metrics["rouge1_f1/mean"] == pytest.approx(11 / 18)


@pytest.mark.parametrize("form", [pd.DataFrame, list, dict], ids=["frame", "records", "columns"])
def test_a_function_as_model(form: Any) -> None:
    def chain(inputs: pd.DataFrame) -> Any:
        assert list(inputs.columns) == ["question"]
        columns = {"text": frame()["answer"].tolist(), "contexts": frame()["contexts"].tolist()}
        records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return {pd.DataFrame: pd.DataFrame(columns), list: records, dict: columns}[form]

    data = frame()[["question", "reference"]]
    config = {"suite": ["faithfulness", "rouge"]}
    result = evaluate(config, data, model=chain, predictions="text")
    assert "faithfulness/n_no_context" not in result.metrics
    assert result.tables["rag_rows"]["answer"].tolist() == frame()["answer"].tolist()


def test_a_model_gets_columns_whose_names_are_no_texts() -> None:
    data = frame()[["question", "reference"]].assign(year=[1, 2]).rename(columns={"year": 5})
    result = evaluate({"suite": ["rouge"]}, data, model=lambda inputs: [f"It is {n}" for n in inputs[5]])
    assert result.tables["rag_rows"]["answer"].tolist() == ["It is 1", "It is 2"]


def test_a_model_of_several_outputs_needs_the_name_of_the_answer() -> None:
    def chain(inputs: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"text": ["a"] * len(inputs), "thought": ["b"] * len(inputs)})

    with pytest.raises(InvalidOptionError, match="returns the columns text, thought; set predictions="):
        evaluate(data=frame()[["question", "reference"]], model=chain, predictions=None)


def test_with_a_model_id_each_metric_is_logged_once() -> None:
    model = mlflow.create_external_model(name="chain")
    result = evaluate(model_id=model.model_id)
    history = mlflow.MlflowClient().get_metric_history(result.run_id, "rouge1_f1/mean")
    assert len(history) == 1
    logged = [metric for metric in mlflow.get_logged_model(model.model_id).metrics if metric.key == "rouge1_f1/mean"]
    assert len(logged) == 1
    assert logged[0].dataset_digest is not None


def test_a_second_evaluation_in_one_run_replaces_the_tables() -> None:
    with mlflow.start_run():
        evaluate()
        assert len(evaluate().tables["rag_rows"]) == 2
