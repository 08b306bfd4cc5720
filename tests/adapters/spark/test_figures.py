"""Figures computed by the cluster, compared with those of a report on the same rows."""

from __future__ import annotations

import json
from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import GateError, InvalidOptionError
from mlflow_ragmetrics.spark import log_spark, score_spark, summarize_spark
from mlflow_ragmetrics.statistics.intervals import bootstrap_intervals
from mlflow_ragmetrics.tracking.log import run_metrics_of

from .conftest import RECORDS
from .needs import needs_spark

pytestmark = needs_spark


@pytest.mark.parametrize("preset", ["lexical", "white_paper", "retrieval"])
def test_figures_equal_those_of_a_report(frame: Any, preset: str) -> None:
    summary = summarize_spark(score_spark(frame, preset, name_prefix="v1_"))
    report = rm.Suite.preset(preset, name_prefix="v1_").evaluate(RECORDS, progress=False)
    assert len(report.metrics) > 15
    assert summary.metrics == pytest.approx(dict(report.metrics), abs=1e-9)
    assert summary.banner == report.banner
    assert (len(summary), summary.keys, summary.incomplete) == (len(RECORDS), report.keys, None)
    assert run_metrics_of(summary) == pytest.approx(
        {n: v for n, v in run_metrics_of(report).items() if not n.startswith("usage/")}
    )


def test_gates_are_those_of_a_report(frame: Any) -> None:
    summary = summarize_spark(score_spark(frame, "white_paper"))
    with pytest.raises(GateError, match=r"faithfulness/mean = \S+ ≥ 0\.1, but 24 of 30 rows were measured"):
        summary.check(faithfulness=0.1)
    summary.check(faithfulness=0.1, min_scored={"faithfulness": 0.8})


def test_limits_know_their_side_and_range_as_a_reports_do(frame: Any) -> None:
    summary = summarize_spark(score_spark(frame, ["hallucination_rate", "faithfulness"]))
    few = {"min_scored": 0.5}
    with pytest.raises(InvalidOptionError, match="hallucination_rate: lower is better; use fail_over"):
        summary.check(hallucination_rate=0.1, **few)
    with pytest.raises(
        InvalidOptionError, match="hallucination_rate=5: the limit must be within the figure's range, from 0 to 1"
    ):
        summary.check(fail_over={"hallucination_rate": 5}, **few)
    with pytest.raises(
        InvalidOptionError, match="faithfulness=80: the limit must be within the figure's range, from 0 to 1"
    ):
        summary.check(faithfulness=80, **few)
    summary.check(fail_over={"hallucination_rate": 1}, **few)


def test_equal_scores_have_an_interval_from_their_range(spark: Any) -> None:
    rows = [{"id": str(n), "answer": "a b", "reference": "a b"} for n in range(10)]
    scored = score_spark(
        spark.createDataFrame(rows, "id string, answer string, reference string"), ["semantic_similarity"]
    )
    figures = summarize_spark(scored).metrics
    assert figures["semantic_similarity/mean"] == pytest.approx(1)
    assert figures["semantic_similarity/ci_low"] == pytest.approx(1 - 2 * (1 - 0.025 ** (1 / 10)))


def test_intervals_of_many_rows_are_those_of_the_bootstrap(spark: Any) -> None:
    scored = spark.range(20_500).selectExpr(
        "IF(id % 50 = 0, null, pow(pmod(xxhash64(id), 1000003) / 1000003, 3)) AS skewed",
        "IF(id % 50 = 0, 'skipped', 'ok') AS skewed_status",
        "'' AS skewed_reason", "CAST(id % 4 = 0 AS double) AS binary", "'ok' AS binary_status", "'' AS binary_reason",
        "404 AS http", "'ok' AS http_status", "skewed IS NOT NULL AS skewed_measured", "true AS binary_measured",
    )  # fmt: skip
    figures = summarize_spark(scored).metrics
    rows = scored.select("skewed", "binary").limit(20_500).toPandas()
    for key in ("skewed", "binary"):
        interval = bootstrap_intervals([rows[key].dropna().astype(float).tolist()])[0]
        assert (figures[f"{key}/ci_low"], figures[f"{key}/ci_high"]) == pytest.approx(interval, rel=1e-9)
    assert figures["skewed/n_scored"] == 20_500 - 410
    assert not any(name.startswith("http") for name in figures)


def test_figures_are_logged_without_a_row_being_collected(spark: Any) -> None:
    noise = "transform(sequence(1, 40), n -> hex(xxhash64(id, n)))"
    frame = spark.range(3000).selectExpr(
        "CAST(id AS string) AS id", f"array_join({noise}, ' ') AS answer", "'the number' AS reference"
    )
    scored = score_spark(frame, ["rouge"]).cache()
    with pytest.raises(Exception, match="maxResultSize"):
        scored.collect()
    run = mlflow.get_run(log_spark(scored, ["rouge"], run_name="cluster"))
    assert run.data.params == {"suite": "custom", "judge": "lexical"}
    about = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/ragmetrics_suite.json")["suite"]
    assert (about["n_rows"], about["metrics"]) == (3000, ["rouge"])
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert set(run.data.metrics) == {"rouge1_f1/mean"}
    figures = json.loads(mlflow.artifacts.load_text(f"{run.info.artifact_uri}/rag_figures.json"))
    assert figures["rouge1_f1/n_measured"] == 3000
    scored.unpersist()


@pytest.mark.parametrize("number", [12, 60])
def test_intervals_over_groups_are_those_of_a_report(spark: Any, number: int) -> None:
    records = [
        {"chat": f"c{chat}", "m": ((chat * 7919) % 101 + turn) / 105}
        for chat in range(number)
        for turn in range(chat % 5 + 1)
    ]
    frame = spark.createDataFrame(records).selectExpr("*", "'ok' AS m_status", "'' AS m_reason", "true AS m_measured")
    figures = summarize_spark(frame, groups="chat").metrics
    expected = rm.summarize([each["m"] for each in records], groups=[each["chat"] for each in records])
    names = {"ci_low", "ci_high", "n_groups", "design_effect"} | ({"few_groups"} & expected.keys())
    assert {name: figures[f"m/{name}"] for name in names} == pytest.approx({name: expected[name] for name in names})
    assert all(figures[f"m/{name}"] == pytest.approx(expected[name], abs=1e-9) for name in names)
    with pytest.raises(InvalidOptionError, match="the frame has no column 'talk'"):
        summarize_spark(frame, groups="talk")


def test_which_part_failed_and_unbacked_words_are_columns(spark: Any) -> None:
    rows = [
        {"id": str(number), "question": "Which?", "answer": answer, "reference": "The tower is red.", "contexts": held}
        for number, (answer, held) in enumerate(
            [
                ("The tower is red.", ["The tower is red."]),
                ("The tower was painted green in 1968.", ["The tower is old."]),
                ("The tower is red.", None),
            ]
        )
    ]
    scored = score_spark(
        spark.createDataFrame(
            rows, "id string, question string, answer string, reference string, contexts array<string>"
        ),
        "diagnose",
        name_prefix="v1_",
    )
    report = rm.Suite.preset("diagnose", name_prefix="v1_").evaluate(rows, progress=False)
    found = {row["id"]: row for row in scored.collect()}
    assert [found[str(n)]["v1_diagnosis"] for n in range(3)] == report.table["diagnosis"].tolist()
    assert found["1"]["v1_diagnosis_reason"] == report.diagnoses[1].reason
    unbacked = [item["unbacked"] for item in found["1"]["v1_faithfulness_items"]]
    items = report.items[(report.items["id"] == "1") & (report.items["metric"] == "v1_faithfulness")]
    assert unbacked == items["unbacked"].tolist()
    assert unbacked[0]
    summary = summarize_spark(scored)
    counted = {name: value for name, value in report.metrics.items() if name.startswith("diagnosis/")}
    assert {name: value for name, value in summary.metrics.items() if name.startswith("diagnosis/")} == counted
    assert summary.notes == report.notes
