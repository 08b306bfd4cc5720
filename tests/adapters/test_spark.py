"""Suites on a small Spark of this machine: typed columns, errors as rows, figures without collecting, UDFs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError

pyspark = pytest.importorskip("pyspark")
pytest.importorskip("pyspark.sql")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java"),
]

RECORDS: list[dict[str, Any]] = [
    {"question": f"What is {n}?", "answer": f"It is the number {n}. I don't know.", "reference": f"The number {n}.",
     "contexts": [f"{n} is a number.", "Paris is in France."], "retrieved_doc_ids": ["a", f"d{n}"],
     "gold_doc_ids": [f"d{n}"], "rank": n if n % 2 else None}
    for n in range(30)
]  # fmt: skip
METRICS = ["lexical_groundedness", "faithfulness", "rouge", "context_recall"]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = pyspark.sql.SparkSession.builder.master("local[2]").appName("ragmetrics")
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def frame(spark: Any) -> Any:
    schema = (
        "question string, answer string, reference string, contexts array<string>, "
        "retrieved_doc_ids array<string>, gold_doc_ids array<string>, rank int"
    )
    return spark.createDataFrame(RECORDS, schema).repartition(3)


def test_scores_equal_those_of_a_suite_and_columns_are_typed(frame: Any) -> None:
    scored = rm.score_spark(frame, METRICS)
    types = dict(scored.dtypes)
    assert (types["rank"], types["faithfulness"], types["faithfulness_1to5"]) == ("int", "double", "double")
    assert types["lexical_groundedness_passed"] == "boolean"
    assert types["faithfulness_items"] == (
        "array<struct<kind:string,text:string,verdict:string,reason:string,support:double,"
        "evidence:array<struct<chunk:int,id:string,quote:string>>>>"
    )
    found = {row["id"]: row for row in scored.collect()}
    expected = {row.sample.id: row for row in rm.Suite(METRICS).stream(RECORDS)}
    assert found.keys() == expected.keys()
    for identity, row in expected.items():
        for key, score in row.scores.items():
            assert found[identity][key] == score.value
            assert found[identity][f"{key}_reason"] == score.reason
            assert [item["text"] for item in found[identity][f"{key}_items"]] == [item.text for item in score.items]
    first = next(iter(found.values()))["faithfulness_items"][0]
    assert first["evidence"][0]["chunk"] == 1
    assert sum(row["rank"] is None for row in found.values()) == 15


def test_what_fails_is_a_row_with_an_error(spark: Any) -> None:
    rows = [("fine", ["a"], ["a"]), (None, ["a"], None)]
    frame = spark.createDataFrame(rows, "answer string, contexts array<string>, gold_doc_ids array<string>")

    @rm.metric
    def fragile(answer: str) -> float:
        """Fails."""
        raise ZeroDivisionError("by design")

    scored = rm.score_spark(frame.coalesce(1), [fragile, "content_safety"]).collect()
    assert [row["fragile_status"] for row in scored] == ["error", "skipped"]
    assert scored[0]["fragile_reason"] == "ZeroDivisionError: by design"
    assert [row["content_safety"] for row in scored] == [1.0, None]


def test_figures_equal_those_of_a_report_and_are_logged(frame: Any) -> None:
    scored = rm.score_spark(frame, "lexical", name_prefix="lex_").cache()
    figures = rm.summarize_spark(scored)
    expected = rm.Suite.preset("lexical", name_prefix="lex_").evaluate(RECORDS, progress=False).metrics
    shared = {name for name in expected if not name.endswith(("/ci_low", "/ci_high"))}
    assert {name: figures[name] for name in shared} == pytest.approx({name: expected[name] for name in shared})
    assert figures["n_rows"] == len(RECORDS)
    key = "lex_lexical_relevance"
    assert figures[f"{key}/ci_low"] == pytest.approx(expected[f"{key}/ci_low"], abs=0.02)
    run = mlflow.get_run(rm.log_spark(scored, "lexical", name_prefix="lex_", run_name="cluster"))
    assert run.data.metrics["lex_rouge1_f1/mean"] == pytest.approx(expected["lex_rouge1_f1/mean"])
    assert run.data.params["n_rows"] == str(len(RECORDS))
    assert "lexical_groundedness" in run.data.params["metrics"]


def test_a_suite_from_a_file(frame: Any, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("metrics: [rouge, {rouge: {rouge_type: rougeL, measure: recall}}]\nlanguage: ru\n")
    row = rm.score_spark(frame.select("answer", "reference"), str(path)).first()
    assert "из" in row["rouge1_f1_reason"]
    assert 0 < row["rougeL_recall"] <= 1


def test_a_column_mapping_and_an_own_id(frame: Any) -> None:
    renamed = frame.selectExpr("answer as said", "reference as wanted", "concat('r', rank) as qid").where("rank = 3")
    scored = rm.score_spark(renamed, ["rouge"], columns={"answer": "said", "reference": "wanted"})
    assert "id" not in scored.columns
    assert scored.first()["rouge1_f1"] > 0


def test_the_plan_reads_arrow_and_shuffles_nothing(frame: Any) -> None:
    scored = rm.score_spark(frame.select("answer", "reference"), ["rouge"])
    plan = scored._jdf.queryExecution().executedPlan().toString()
    assert "MapInArrow" in plan
    assert plan.count("Exchange") == 1, "the test's own repartition"


def test_a_registered_udf(spark: Any, frame: Any) -> None:
    spark.udf.register("ragmetrics", rm.spark_udf(["rouge", "lexical_factuality"]))
    frame.createOrReplaceTempView("answers")
    rows = spark.sql("SELECT rank, ragmetrics(struct(answer, reference)) AS scores FROM answers").collect()
    expected = rm.score("rouge", RECORDS[3]).value
    assert next(row["scores"]["rouge1_f1"] for row in rows if row["rank"] == 3) == expected
    assert rows[0]["scores"]["lexical_factuality_items"][0]["kind"] == "sentence"


def test_inside_a_model_of_mlflow(spark: Any, frame: Any, tmp_path: Path) -> None:
    class Scorer(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            return rm.Suite(["rouge"]).evaluate(model_input, progress=False).table["rouge1_f1"].astype(float)

    mlflow.pyfunc.save_model(tmp_path / "model", python_model=Scorer(), pip_requirements=[])
    udf = mlflow.pyfunc.spark_udf(spark, str(tmp_path / "model"), result_type="double", env_manager="local")
    row = frame.where("rank = 3").withColumn("score", udf(pyspark.sql.functions.struct("answer", "reference"))).first()
    assert row["score"] == rm.score("rouge", RECORDS[3]).value


def test_what_cannot_be_used_is_refused(frame: Any) -> None:
    with pytest.raises(InvalidOptionError, match="cannot be sent"):
        rm.score_spark(frame, rm.Suite(["rouge"]))
    with pytest.raises(InvalidOptionError, match="said"):
        rm.score_spark(frame, ["rouge"], columns={"answer": "said"})
    with pytest.raises(InvalidOptionError, match="already has a column 'rouge1_f1'"):
        rm.score_spark(frame.selectExpr("*", "1.0 as rouge1_f1"), ["rouge"])
