"""``mlflow.models.evaluate(extra_metrics=…)`` with real stores: one test for each of MLflow's pitfalls."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims
from mlflow_ragmetrics.errors import MissingFieldError
from tests.adapters.doors import WordJudge


def frame(count: int = 4) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "question": [f"q{i}?" for i in range(count)],
            "answer": [f"fact {i}. made up" for i in range(count)],
            "reference": [f"fact {i}" for i in range(count)],
            "contexts": [[f"it says fact {i} here", "other"] for i in range(count)],
        },
        index=[10 * (i + 1) for i in range(count)],
    )


def evaluate(suite: rm.Suite, data: pd.DataFrame, **options: Any) -> Any:
    settings = {"predictions": "answer", "targets": "reference", "extra_metrics": rm.extra_metrics(suite), **options}
    return mlflow.models.evaluate(data=data, **settings)


def run_of(result: Any) -> Any:
    return mlflow.get_run(result.run_id)


def table_of(result: Any, name: str) -> dict[str, Any]:
    path = mlflow.artifacts.download_artifacts(run_id=result.run_id, artifact_path=name)
    return json.loads(Path(path).read_text(encoding="utf-8"))


def test_means_intervals_counts_and_reasons(suite: rm.Suite) -> None:
    result = evaluate(suite, frame())
    assert result.metrics["faithfulness/mean"] == 0.5
    assert {name for name in result.metrics if name.startswith("faithfulness/")} == {"faithfulness/mean"}
    figures = table_of(result, "rag_figures.json")
    assert (figures["rouge1_f1/n_scored"], "faithfulness/ci_low" in figures) == (4, True)
    table = result.tables["eval_results_table"]
    assert table["faithfulness/score"].tolist() == [0.5] * 4
    assert table["overall/justification"].str.len().gt(10).all()


def test_nan_and_arrays_beside_the_texts_do_not_make_questions_asked_again(suite: rm.Suite, judge: WordJudge) -> None:
    data = frame()
    data["contexts"] = [json.dumps([{"text": f"it says fact {i} here", "score": math.nan}]) for i in range(4)]
    data["metadata"] = [{"vector": np.arange(3.0), "score": math.nan} for _ in range(4)]
    evaluate(suite, data)
    assert set(judge.asked.values()) == {1}
    assert sum(isinstance(question, Claims) for question in judge.asked) == 4


def test_tables_hold_each_row_once_although_row_0_is_tried(suite: rm.Suite) -> None:
    result = evaluate(suite, frame())
    rows, claims = (table_of(result, name) for name in ("rag_rows.json", "rag_claims.json"))
    ids = [row[rows["columns"].index("id")] for row in rows["data"]]
    assert len(ids) == len(set(ids)) == 4
    keys = [row[claims["columns"].index("metric")] for row in claims["data"]]
    assert Counter(keys)["faithfulness"] == 8
    assert "rag_claims.json" in run_of(result).data.tags["mlflow.loggedArtifacts"]


def test_traces_are_written_once_unless_they_are_not_wanted(suite: rm.Suite) -> None:
    assert len(mlflow.search_traces(run_id=evaluate(suite, frame()).run_id)) == 4
    result = evaluate(suite, frame(), extra_metrics=rm.extra_metrics(suite, traces=False))
    assert len(mlflow.search_traces(run_id=result.run_id)) == 0


def test_each_evaluation_asks_anew_in_the_same_run_too(suite: rm.Suite, judge: WordJudge) -> None:
    metrics = rm.extra_metrics(suite)
    for data in (frame(3), frame(1)):
        with mlflow.start_run():
            for times in (1, 2):
                evaluate(suite, data, extra_metrics=metrics)
                assert set(judge.asked.values()) == {times}
        judge.asked.clear()


def test_a_failing_row_never_fails_the_run(suite: rm.Suite) -> None:
    data = frame()
    data["answer"] = ["FAIL", "fact 1", "FAIL", "fact 3"]
    result = evaluate(suite, data)
    assert run_of(result).info.status == "FINISHED"
    assert (result.metrics["faithfulness/n_error"], result.metrics["faithfulness/mean"]) == (2, 1.0)
    table = result.tables["eval_results_table"]
    assert table["faithfulness/score"].isna().tolist() == [True, False, True, False]
    assert "status 429: rate limit" in table["faithfulness/justification"][0]


def test_none_and_nan_never_reach_mlflow(suite: rm.Suite) -> None:
    data = frame()
    data["reference"] = ["fact 0", None, math.nan, "fact 3"]
    result = evaluate(suite, data)
    metrics = run_of(result).data.metrics
    assert all(math.isfinite(value) for value in metrics.values())
    assert metrics["rouge1_f1/n_measured"] == 2
    assert result.tables["eval_results_table"]["rouge1_f1/score"].isna().tolist() == [False, True, True, False]


def test_a_field_that_no_row_has_is_one_clear_error_for_a_named_metric(suite: rm.Suite) -> None:
    with pytest.raises(MissingFieldError, match="'reference' and no row has it"):
        evaluate(suite, frame().drop(columns="reference"), targets=None)
    (run,) = mlflow.MlflowClient().search_runs(["0"])
    assert run.info.status == "FAILED"


def test_rows_are_aligned_by_position_whatever_the_index(suite: rm.Suite) -> None:
    data = frame(6).sample(frac=1, random_state=1)
    result = evaluate(suite, data)
    rows = table_of(result, "rag_rows.json")
    by_name = {name: [row[i] for row in rows["data"]] for i, name in enumerate(rows["columns"])}
    assert by_name["question"] == data["question"].tolist()
    assert by_name["answer"] == data["answer"].tolist()
    assert by_name["faithfulness"] == [0.5] * 6


@pytest.mark.parametrize("by", ["columns", "col_mapping"])
def test_columns_of_any_name_are_mapped(suite: rm.Suite, by: str) -> None:
    columns = {"contexts": "what we found", "question": "Frage"}
    mlflows = {"evaluator_config": {"col_mapping": columns}}
    options = {"extra_metrics": rm.extra_metrics(suite, columns=columns)} if by == "columns" else mlflows
    result = evaluate(suite, frame().rename(columns=columns), **options)
    assert result.metrics["faithfulness/mean"] == 0.5
    rows = table_of(result, "rag_rows.json")
    assert rows["data"][0][rows["columns"].index("question")] == "q0?"


def test_predictions_are_the_answer_even_beside_a_column_of_that_name(suite: rm.Suite) -> None:
    data = frame().rename(columns={"answer": "generated", "reference": "answer"})
    result = evaluate(suite, data, predictions="generated", targets="answer")
    assert result.metrics["faithfulness/mean"] == 0.5
    data["answer"] = "a gold answer"
    result = evaluate(rm.Suite(["faithfulness"], judge=WordJudge()), data, predictions="generated", targets=None)
    assert result.metrics["faithfulness/mean"] == 0.5


CHAIN = """
import mlflow
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

def answer(inputs):
    number = inputs["question"][1:-1]
    found = [Document(page_content=f"it says fact {number} here", id=f"doc-{number}::chunk-1")]
    return {"answer": f"fact {number}. made up", "source_documents": found}

mlflow.models.set_model(RunnableLambda(answer))
"""


def test_a_logged_langchain_model_with_documents_in_its_output(judge: WordJudge, tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text(CHAIN, encoding="utf-8")
    with mlflow.start_run():
        info = mlflow.langchain.log_model(
            str(tmp_path / "chain.py"), name="chain", input_example={"question": "q1?"}, pip_requirements=[]
        )
    data = pd.DataFrame({"question": ["q0?", "q1?"], "gold": [["doc-0"], ["doc-7"]]})
    metrics = rm.extra_metrics(rm.Suite(["faithfulness", "context_recall"], judge=judge), {"gold_doc_ids": "gold"})
    result = mlflow.models.evaluate(model=info.model_uri, data=data, predictions="answer", extra_metrics=metrics)
    assert result.metrics["faithfulness/mean"] == 0.5
    assert result.metrics["context_recall/mean"] == 0.5
    rows = table_of(result, "rag_rows.json")
    assert rows["data"][1][rows["columns"].index("retrieved_doc_ids")] == ["doc-1::chunk-1"]


def test_metric_prefix_and_a_second_default_metric_do_no_harm(suite: rm.Suite) -> None:
    result = evaluate(suite, frame(), evaluator_config={"metric_prefix": "val_"})
    assert result.metrics["val_faithfulness/val_mean"] == 0.5


def test_a_metric_of_mlflows_own_takes_ours_as_its_input(suite: rm.Suite) -> None:
    def doubled(predictions: pd.Series, overall: Any, faithfulness: Any) -> float:
        return 2 * faithfulness.aggregate_results["mean"]

    own = mlflow.metrics.make_metric(eval_fn=doubled, greater_is_better=True, name="doubled")
    result = evaluate(suite, frame(), extra_metrics=[own, *rm.extra_metrics(suite)])
    assert result.metrics["doubled"] == 1.0


def test_a_dataset_and_a_model_id(suite: rm.Suite) -> None:
    model = mlflow.create_external_model(name="chain")
    data = mlflow.data.from_pandas(frame(), predictions="answer", targets="reference", name="set")
    metrics = rm.extra_metrics(suite)
    result = mlflow.models.evaluate(data=data, extra_metrics=metrics, model_id=model.model_id)
    logged = {metric.key: metric.value for metric in mlflow.get_logged_model(model.model_id).metrics}
    assert logged["faithfulness/mean"] == result.metrics["faithfulness/mean"] == 0.5
