"""``score_spark`` and its UDF on a small local Spark."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.spark import score_spark, spark_udf

from .conftest import RECORDS
from .needs import needs_spark

pytestmark = needs_spark
METRICS = ["lexical_groundedness", "faithfulness", "rouge", "context_recall"]


def test_scores_equal_those_of_a_suite_and_columns_are_typed(frame: Any) -> None:
    scored = score_spark(frame, METRICS)
    types = dict(scored.dtypes)
    assert (types["rank"], types["faithfulness"], types["faithfulness_1to5"]) == ("int", "double", "double")
    assert types["lexical_groundedness_passed"] == "boolean"
    assert types["faithfulness_items"] == (
        "array<struct<kind:string,text:string,verdict:string,against:string,reason:string,support:double,"
        "judge:string,evidence:array<struct<chunk:int,id:string,quote:string>>,unbacked:array<string>>>"
    )
    found = {row["id"]: row for row in scored.collect()}
    expected = {row.sample.id: row for row in rm.Suite(METRICS).stream(RECORDS)}
    assert found.keys() == expected.keys()
    for identity, row in expected.items():
        for key, score in row.scores.items():
            assert found[identity][key] == score.value
            assert found[identity][f"{key}_reason"] == score.reason
            assert [item["text"] for item in found[identity][f"{key}_items"]] == [item.text for item in score.items]
    first = next(row for row in found.values() if row["contexts"])["faithfulness_items"][0]
    assert first["evidence"][0]["chunk"] == 1
    assert sum(row["rank"] is None for row in found.values()) == 15


def test_names_of_other_libraries_ids_and_missing_contexts(spark: Any) -> None:
    rows = [
        ("a", "Where is Paris?", "In France.", [("Paris is in France.", {"doc_uri": "u1"}), ("Rome.", {})], ["u1"]),
        ("b", "Where is Paris?", "In France.", None, ["u1"]),
        ("c", "Where is Paris?", None, [], None),
    ]
    schema = (
        "request_id string, user_input string, response string, "
        "source_documents array<struct<page_content:string, metadata:map<string,string>>>, document_ids array<string>"
    )
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    scored = score_spark(frame, ["faithfulness", "context_recall"])
    assert "id" not in scored.columns
    found = {row["request_id"]: row for row in scored.collect()}
    assert found["a"]["faithfulness"] == 1.0
    assert found["a"]["faithfulness_items"][0]["evidence"][0].asDict()["id"] == "u1"
    assert found["a"]["context_recall"] == 1.0
    assert (found["b"]["faithfulness_status"], found["b"]["faithfulness_no_context"]) == ("skipped", False)
    assert [found[identity]["context_recall_status"] for identity in "bc"] == ["skipped", "skipped"]
    assert found["c"]["faithfulness_status"] == "skipped"
    assert "is missing in sample" in found["c"]["faithfulness_reason"]


def test_columns_that_pass_through_stay_as_they_are(spark: Any) -> None:
    """The pandas path would turn NaN into null, and such timestamps would fail the job."""
    frame = spark.sql(
        "SELECT 'yes' AS answer, CAST('NaN' AS double) AS price, timestamp'9999-12-31 00:00:00' AS until, "
        "CAST('+12000-01-01 00:00:00' AS timestamp) AS never, CAST(9007199254740993 AS bigint) AS number "
        "UNION ALL SELECT 'no', null, null, null, null"
    ).coalesce(1)
    scored = score_spark(frame, ["coherence"])
    shown = scored.selectExpr("isnan(price)", "price IS NULL", "until", "CAST(never AS string)", "number", "coherence")
    first, second = (tuple(row) for row in shown.collect())
    assert first[:-1] == (True, False, datetime(9999, 12, 31), "+12000-01-01 00:00:00", 9007199254740993)
    assert second[:-1] == (False, True, None, None, None)
    assert first[-1] is not None


def test_a_suite_from_a_file(frame: Any, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("metrics: [rouge, {rouge: {rouge_type: rougeL, measure: recall}}]\nlanguage: ru\n")
    row = score_spark(frame.select("answer", "reference"), str(path)).first()
    assert "из" in row["rouge1_f1_reason"]
    assert 0 < row["rougeL_recall"] <= 1


def test_a_column_mapping_and_an_own_id(frame: Any) -> None:
    renamed = frame.selectExpr("answer as said", "reference as wanted", "concat('r', rank) as key").where("rank = 3")
    columns = {"id": "key", "answer": "said", "reference": "wanted"}
    scored = score_spark(renamed, ["rouge"], columns=columns)
    assert "id" not in scored.columns
    assert scored.first()["rouge1_f1"] == rm.score("rouge", RECORDS[3]).value


def test_the_plan_is_one_narrow_step(frame: Any) -> None:
    scored = score_spark(frame.select("answer", "reference"), ["rouge"])
    plan = scored._jdf.queryExecution().executedPlan().toString()
    assert "MapInArrow" in plan
    assert plan.count("Exchange") == 1, "the test's own repartition"


def test_a_registered_udf(spark: Any, frame: Any) -> None:
    spark.udf.register("ragmetrics", spark_udf(["rouge", "faithfulness"]))
    frame.selectExpr(
        "*", "transform(contexts, c -> struct(c AS text, 'i' AS id)) AS documents"
    ).createOrReplaceTempView("answers")
    query = "SELECT rank, ragmetrics(struct(answer, reference, documents)) AS scores FROM answers"
    rows = {row["rank"]: row["scores"] for row in spark.sql(query).collect()}
    assert rows[3]["rouge1_f1"] == rm.score("rouge", RECORDS[3]).value
    assert rows[3]["faithfulness"] == rm.score("faithfulness", RECORDS[3]).value
    assert rows[3]["faithfulness_items"][0]["evidence"][0]["id"] == "i"
    assert (rows[5]["faithfulness_status"], rows[5]["faithfulness_no_context"]) == ("skipped", False)


def test_inside_a_model_of_mlflow(spark: Any, frame: Any, tmp_path: Path) -> None:
    class Scorer(mlflow.pyfunc.PythonModel):
        def load_context(self, context):  # type: ignore[no-untyped-def]
            self.suite = rm.Suite(["rouge", "coherence"])

        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            table = self.suite.evaluate(model_input, progress=False).table
            return table[["rouge1_f1", "rouge1_f1_reason"]].astype({"rouge1_f1": float})

    mlflow.pyfunc.save_model(tmp_path / "model", python_model=Scorer(), pip_requirements=[])
    result = "rouge1_f1 double, rouge1_f1_reason string"
    udf = mlflow.pyfunc.spark_udf(spark, str(tmp_path / "model"), result_type=result, env_manager="local")
    rows = frame.withColumn("scores", udf(pyspark_struct("answer", "reference"))).where("rank = 3").collect()
    expected = rm.score("rouge", RECORDS[3])
    assert tuple(rows[0]["scores"]) == (expected.value, expected.reason)


def pyspark_struct(*names: str) -> Any:
    from pyspark.sql.functions import struct

    return struct(*names)


def test_what_cannot_be_used_is_refused(frame: Any) -> None:
    with pytest.raises(InvalidOptionError, match="cannot be sent"):
        score_spark(frame, rm.Suite(["rouge"]))
    with pytest.raises(InvalidOptionError, match="said"):
        score_spark(frame, ["rouge"], columns={"answer": "said"})
    with pytest.raises(InvalidOptionError, match="already has a column 'rouge1_f1'"):
        score_spark(frame.selectExpr("*", "1.0 as rouge1_f1"), ["rouge"])
    assert "id" not in score_spark(frame.selectExpr("*", "rank as ID"), ["rouge"]).columns
    with pytest.raises(MissingFieldError, match="reference"):
        score_spark(frame.select("answer"), ["rouge"])
