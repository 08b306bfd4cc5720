"""Figures that the cluster computes, against those of a report on the same rows."""

from __future__ import annotations

from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.statistics import bootstrap_interval

from .conftest import RECORDS
from .needs import needs_spark

pytestmark = needs_spark


@pytest.mark.parametrize("preset", ["lexical", "white_paper", "retrieval"])
def test_means_and_counts_equal_those_of_a_report(frame: Any, preset: str) -> None:
    figures = rm.summarize_spark(rm.score_spark(frame, preset, name_prefix="v1_"))
    metrics = rm.Suite.preset(preset, name_prefix="v1_").evaluate(RECORDS, progress=False).metrics
    # what was measured is not among the columns of a scored frame, which n_no_context and n_error are
    expected = {n: value for n, value in metrics.items() if "/" in n and not n.endswith("/n_measured")}
    assert len(expected) > 15
    ends = {name for name in expected if name.endswith(("/ci_low", "/ci_high"))}
    assert expected.keys() <= figures.keys()
    assert {name: figures[name] for name in expected.keys() - ends} == pytest.approx(
        {name: expected[name] for name in expected.keys() - ends}, abs=1e-12
    )
    for name in ends:
        key = name.rpartition("/")[0]
        width = expected[f"{key}/ci_high"] - expected[f"{key}/ci_low"]
        assert figures[name] == pytest.approx(expected[name], abs=0.1 * width + 1e-12), name
    assert {name for name, value in figures.items() if name not in expected and value} == {"n_rows"}


def test_intervals_of_many_rows_are_those_of_the_bootstrap(spark: Any) -> None:
    scored = spark.range(20_500).selectExpr(
        "IF(id % 50 = 0, null, pow(pmod(xxhash64(id), 1000003) / 1000003, 3)) AS skewed", "'ok' AS skewed_status",
        "'' AS skewed_reason", "CAST(id % 4 = 0 AS double) AS binary", "'ok' AS binary_status", "'' AS binary_reason",
        "404 AS http", "'ok' AS http_status",
    )  # fmt: skip
    figures = rm.summarize_spark(scored)
    rows = scored.select("skewed", "binary").limit(20_500).toPandas()
    for key in ("skewed", "binary"):
        interval = bootstrap_interval(rows[key].dropna().astype(float).tolist())
        assert (figures[f"{key}/ci_low"], figures[f"{key}/ci_high"]) == pytest.approx(interval, rel=1e-9)
    assert figures["skewed/n_scored"] == 20_500 - 410
    assert not any(name.startswith("http") for name in figures)


def test_figures_are_logged_without_a_row_being_collected(spark: Any) -> None:
    noise = "transform(sequence(1, 40), n -> hex(xxhash64(id, n)))"
    frame = spark.range(3000).selectExpr(
        "CAST(id AS string) AS id", f"array_join({noise}, ' ') AS answer", "'the number' AS reference"
    )
    scored = rm.score_spark(frame, ["rouge"]).cache()
    with pytest.raises(Exception, match="maxResultSize"):
        scored.collect()
    run = mlflow.get_run(rm.log_spark(scored, ["rouge"], run_name="cluster"))
    assert run.data.metrics["rouge1_f1/n_scored"] == 3000
    assert run.data.params["n_rows"] == "3000"
    assert "rouge" in run.data.params["metrics"]
    assert "Edgeworth" in run.data.params["intervals"]
    scored.unpersist()


@pytest.mark.parametrize("number", [12, 60])
def test_intervals_over_groups_are_those_of_a_report(spark: Any, number: int) -> None:
    records = [
        {"chat": f"c{chat}", "m": ((chat * 7919) % 101 + turn) / 105}
        for chat in range(number)
        for turn in range(chat % 5 + 1)
    ]
    frame = spark.createDataFrame(records).selectExpr("*", "'ok' AS m_status", "'' AS m_reason")
    figures = rm.summarize_spark(frame, groups="chat")
    expected = rm.summarize([each["m"] for each in records], groups=[each["chat"] for each in records])
    names = {"ci_low", "ci_high", "n_groups", "design_effect"} | ({"few_groups"} & expected.keys())
    assert {name: figures[f"m/{name}"] for name in names} == pytest.approx({name: expected[name] for name in names})
    with pytest.raises(rm.InvalidOptionError, match="the frame has no column 'talk'"):
        rm.summarize_spark(frame, groups="talk")
