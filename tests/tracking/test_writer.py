"""Reports in real SQLite MLflow stores: complete, valid, written once."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.display.document import to_markdown
from mlflow_ragmetrics.display.text import report_blocks
from mlflow_ragmetrics.rows import digest
from mlflow_ragmetrics.tracking.log import questions_digest
from mlflow_ragmetrics.tracking.run import new_target
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, RunWriter

RECORDS = [
    {"id": "a", "question": "Where?", "answer": "In Paris.", "reference": "Paris.", "contexts": ["It is in Paris."]},
    {"id": "b", "question": "When?", "answer": "In 1889.", "contexts": ["It was built in 1889.", "It is tall."]},
    {"id": "c", "question": "Who?", "answer": "Eiffel \x00 \ud800", "reference": "Eiffel", "contexts": []},
]


@pytest.fixture
def report() -> rm.Report:
    judge = rm.ScriptedJudge(facts=[{"text": "one", "ok": True}, {"text": "two", "ok": False}], used_chunks=[1])
    overall = rm.composite("overall", {"faithfulness": 3, "rouge1_f1": 1})
    return rm.Suite(["faithfulness", "chunk_precision", "rouge", overall], judge=judge).evaluate(RECORDS)


def artifact(run_id: str, name: str) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{name} holds {constant}, which is no JSON")

    path = mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path=name)
    return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=refuse)


def test_a_new_run_is_finished_and_holds_everything(report: rm.Report) -> None:
    run = mlflow.get_run(report.log(run_name="first", tags={"team": "search", "number": 3}, params={"k": 5}))
    assert (run.info.status, run.info.run_name) == ("FINISHED", "first")
    assert run.data.metrics.keys() < report.metrics.keys()
    assert {name for name in run.data.metrics if name.startswith("chunk_precision/")} == {
        f"chunk_precision/{name}" for name in ("mean", "n_measured", "n_no_context")
    }
    figures = artifact(run.info.run_id, "rag_figures.json")
    assert figures.items() >= report.metrics.items()
    assert figures["usage/wall_seconds"] > 0
    assert run.data.params == {"k": "5", "suite": "custom", "judge": "scripted"}
    about = artifact(run.info.run_id, "ragmetrics_suite.json")["suite"]
    assert about["weights"] == {"overall": {"faithfulness": 3.0, "rouge1_f1": 1.0}}
    assert about["data_digest"] == digest(row.sample for row in report.rows)
    assert run.data.tags.items() >= {"team": "search", "number": "3", STATUS_TAG: "complete"}.items()
    assert mlflow.active_run() is None


def test_tables_open_as_tables(report: rm.Report) -> None:
    run_id = report.log()
    tags = mlflow.get_run(run_id).data.tags
    expected = [{"path": name, "type": "table"} for name in ("rag_rows.json", "rag_claims.json")]
    assert json.loads(tags["mlflow.loggedArtifacts"]) == expected
    assert mlflow.load_table("rag_rows.json", run_ids=[run_id])["id"].tolist() == ["a", "b", "c"]
    claims = mlflow.load_table("rag_claims.json", run_ids=[run_id])
    assert len(claims) == len(report.items)
    assert claims["evidence"].map(type).eq(list).all()


def test_log_table_appends_but_logging_twice_does_not(report: rm.Report) -> None:
    run_id = report.log()
    mlflow.log_table({"x": [1]}, "mine.json", run_id=run_id)
    assert report.log(run_id=run_id) == run_id
    assert len(artifact(run_id, "rag_rows.json")["data"]) == 3
    run = mlflow.get_run(run_id)
    assert [table["path"] for table in json.loads(run.data.tags["mlflow.loggedArtifacts"])] == [
        "rag_rows.json",
        "rag_claims.json",
        "mine.json",
    ]
    assert len(run.inputs.dataset_inputs) == 1


def test_no_nan_anywhere_and_text_that_databases_refuse_is_replaced(report: rm.Report) -> None:
    run_id = replace(report, usage={"cost": math.nan, "calls": 2}).log()
    run = mlflow.get_run(run_id)
    assert all(math.isfinite(value) for value in run.data.metrics.values())
    assert "usage/cost" not in run.data.metrics
    rows = artifact(run_id, "rag_rows.json")
    table = {name: [row[i] for row in rows["data"]] for i, name in enumerate(rows["columns"])}
    assert table["rouge1_f1"][1] is None
    assert table["rouge1_f1_status"][1] == "skipped"
    assert table["answer"][2] == "Eiffel \ufffd \ufffd"


def test_two_versions_that_answer_the_same_questions_share_one_dataset(report: rm.Report) -> None:
    suite = rm.Suite(["faithfulness"], judge=rm.ScriptedJudge(facts=[], used_chunks=[]))
    changed = [{**each, "answer": "Another one.", "contexts": ["Another passage."]} for each in RECORDS]
    other = suite.evaluate(list(reversed(changed)))
    asked = suite.evaluate([{**RECORDS[0], "question": "Why?"}, *RECORDS[1:]])
    runs = [mlflow.get_run(each.log()) for each in (report, other, asked)]
    first, second, third = (run.inputs.dataset_inputs[0].dataset for run in runs)
    assert (first.name, first.digest) == (second.name, second.digest)
    assert first.digest == questions_digest(report.rows) != third.digest
    assert len({artifact(run.info.run_id, "ragmetrics_suite.json")["suite"]["data_digest"] for run in runs}) == 3


def test_a_dataset_can_be_named_or_left_out(report: rm.Report) -> None:
    named, without = (mlflow.get_run(report.log(dataset=each, run_name=str(each))) for each in ("towers", False))
    assert named.inputs.dataset_inputs[0].dataset.name.startswith("towers")
    assert without.inputs.dataset_inputs == []


def test_the_file_is_named_without_the_path_of_this_machine(report: rm.Report, tmp_path: Path) -> None:
    run = mlflow.get_run(replace(report, source=tmp_path / "answers.jsonl").log())
    assert run.data.params["data"] == "answers"
    assert run.inputs.dataset_inputs[0].dataset.name == "answers"
    assert str(tmp_path) not in json.dumps([run.data.params, artifact(run.info.run_id, "ragmetrics_suite.json")])


@pytest.mark.parametrize(
    ("suite", "judge", "name"),
    [
        ("white_paper", "lexical", "answers · white_paper · lexical"),
        ("rag", ["openai:/gpt-4o", "lexical"], "answers · rag · gpt-4o, lexical"),
        ("lexical", "lexical", "answers · lexical"),
        ("custom", "lexical", "answers · lexical"),
    ],
)
def test_runs_of_two_suites_on_the_same_data_have_two_names(
    report: rm.Report, suite: str, judge: str | list[str], name: str
) -> None:
    made = {**report.description, "suite": suite, "judge": judge}
    run = mlflow.get_run(replace(report, source="data/answers.jsonl", description=made).log(traces=False))
    assert run.info.run_name == name


def test_a_run_is_described_and_what_a_user_wrote_stays(report: rm.Report) -> None:
    run_id = report.log()
    note = mlflow.get_run(run_id).data.tags["mlflow.note.content"]
    assert note.startswith(to_markdown(report_blocks(report)))
    replace(report, rows=report.rows[:1]).log(run_id=run_id)
    assert "1 row" in mlflow.get_run(run_id).data.tags["mlflow.note.content"]
    mlflow.MlflowClient().set_tag(run_id, "mlflow.note.content", "mine")
    report.log(run_id=run_id)
    assert mlflow.get_run(run_id).data.tags["mlflow.note.content"] == "mine"


def test_steps_are_the_history_of_versions(report: rm.Report) -> None:
    run_id = report.log(step=0)
    replace(report, rows=report.rows[:2]).log(run_id=run_id, step=1)
    history = MlflowClient().get_metric_history(run_id, "faithfulness/mean")
    assert [point.step for point in history] == [0, 1]


def test_further_files_become_artifacts(report: rm.Report) -> None:
    run_id = report.log(files={"report.html": "<p>привет</p>", "plot.png": b"\x89PNG"})
    names = {each.path for each in mlflow.MlflowClient().list_artifacts(run_id)}
    ours = {"rag_rows.json", "rag_claims.json", "rag_figures.json", "ragmetrics_suite.json", "ragmetrics_report.html"}
    assert names == {"report.html", "plot.png", *ours}
    assert mlflow.artifacts.load_text(f"runs:/{run_id}/report.html") == "<p>привет</p>"


def test_a_param_too_long_for_mlflow_is_cut_and_whole_in_the_artifact(report: rm.Report) -> None:
    long = "x" * 20_000
    run = mlflow.get_run(replace(report, description={**report.description, "judge": long}).log(run_name="long"))
    assert run.data.params["judge"] == "x" * 5_999 + "…"
    assert artifact(run.info.run_id, "ragmetrics_suite.json")["suite"]["judge"] == long


def test_the_active_run_is_used_and_left_open(report: rm.Report) -> None:
    with mlflow.start_run(run_name="outer") as outer, mlflow.start_run(run_name="inner", nested=True) as inner:
        mlflow.log_param("judge", "the chain's own")
        assert report.log() == inner.info.run_id
        assert mlflow.active_run().info.run_id == inner.info.run_id
        assert MlflowClient().get_run(inner.info.run_id).info.status == "RUNNING"
    params = mlflow.get_run(inner.info.run_id).data.params
    assert (params["judge"], params["ragmetrics.judge"]) == ("the chain's own", "scripted")
    assert mlflow.get_run(outer.info.run_id).data.metrics == {}


def test_a_finished_run_is_resumed_by_its_id_beside_an_active_one(report: rm.Report) -> None:
    run_id = mlflow.MlflowClient().create_run("0").info.run_id
    with mlflow.start_run() as active:
        report.log(run_id=run_id)
    assert "faithfulness/mean" in mlflow.get_run(run_id).data.metrics
    assert mlflow.get_run(active.info.run_id).data.metrics == {}


def test_other_params_of_a_second_report_are_kept_apart_with_a_warning(report: rm.Report) -> None:
    run_id = report.log()
    for suite in ("one", "another"):
        changed = replace(report, description={**report.description, "suite": suite})
        if suite == "one":
            changed.log(run_id=run_id)
        else:
            with pytest.warns(UserWarning, match="suite"):
                changed.log(run_id=run_id)
    params = mlflow.get_run(run_id).data.params
    assert (params["suite"], params["ragmetrics.suite"]) == ("custom", "one")


def test_what_cannot_be_written_fails_the_run_and_says_why(report: rm.Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "hunter2hunter2")

    def refuse(*_: object, **__: object) -> None:
        raise OSError("disk full\nat https://me:hunter2hunter2@host/")

    monkeypatch.setattr(MlflowClient, "log_artifacts", refuse)
    with pytest.raises(rm.RagMetricsError, match=r"could not be written to run \w+: disk full at") as raised:
        report.log()
    (run,) = MlflowClient().search_runs(["0"])
    assert run.info.status == "FAILED"
    assert run.data.metrics == {}
    assert run.data.tags[STATUS_TAG].startswith("failed: disk full")
    assert "hunter2" not in run.data.tags[STATUS_TAG] + str(raised.value)


def test_a_file_is_there_as_it_was_until_it_is_whole(report: rm.Report) -> None:
    run_id = report.log()
    before = artifact(run_id, "rag_rows.json")

    def cut_off(path: Path) -> None:
        path.write_text('{"columns": ["i')
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RunWriter(run_id).files({"rag_rows.json": cut_off}, tables=["rag_rows.json"])
    assert artifact(run_id, "rag_rows.json") == before
    RunWriter(run_id).files({"rag_rows.json": "{}", "folder/more.json": "[]"})
    assert (artifact(run_id, "rag_rows.json"), artifact(run_id, "folder/more.json")) == ({}, [])


def test_a_failure_that_cannot_be_noted_is_logged(
    report: rm.Report, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_id, attempts = report.log(), []

    def refuse(*_: object) -> None:
        attempts.append(run_id)
        if len(attempts) < 2:
            raise OSError("locked")

    monkeypatch.setattr(MlflowClient, "set_tag", refuse)
    RunWriter(run_id).note_failure("interrupted")
    assert f"run {run_id} could not be tagged as 'failed: interrupted'" in caplog.text
    caplog.clear()
    RunWriter(run_id).note_failure("interrupted")
    assert not caplog.records


def test_an_interruption_does_not_leave_a_run_that_looks_finished(
    report: rm.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(MlflowClient, "log_artifacts", interrupt)
    with pytest.raises(KeyboardInterrupt):
        report.log()
    (run,) = MlflowClient().search_runs(["0"])
    assert (run.info.status, run.data.tags[STATUS_TAG]) == ("FAILED", "failed: interrupted")


@pytest.mark.parametrize("name", ["start_run", "end_run"])
def test_an_interruption_as_a_run_starts_or_ends_leaves_the_outer_run_active(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    call = getattr(mlflow, name)

    def interrupted(*values: object, **options: object) -> None:
        monkeypatch.setattr(mlflow, name, call)
        call(*values, **options)
        raise KeyboardInterrupt

    with mlflow.start_run() as outer:
        monkeypatch.setattr(mlflow, name, interrupted)
        with pytest.raises(KeyboardInterrupt), new_target("inner"):
            pass
        assert mlflow.active_run() is outer
        assert mlflow.get_run(outer.info.run_id).info.status == "RUNNING"


def test_a_run_that_the_store_made_before_the_interruption_is_marked(
    report: rm.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = mlflow.start_run

    def interrupted(**options: object) -> None:
        start(**options)
        mlflow.tracking.fluent._active_run_stack.set([])
        raise KeyboardInterrupt

    monkeypatch.setattr(mlflow, "start_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report.log()
    (run,) = mlflow.search_runs(output_format="list")
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FAILED", "failed: interrupted")


def test_a_run_that_is_not_there_is_one_clear_sentence(report: rm.Report) -> None:
    with pytest.raises(rm.RagMetricsError, match="nowhere"):
        report.log(run_id="nowhere")


def test_metrics_beyond_one_batch(report: rm.Report) -> None:
    many = {f"m{i}": float(i) for i in range(1_850)}
    run = mlflow.get_run(replace(report, figures={f"{name}/mean": value for name, value in many.items()}).log())
    assert sum(name.startswith("m") for name in run.data.metrics) == 1_850


def test_an_active_model_is_linked(report: rm.Report) -> None:
    model = mlflow.create_external_model(name="chain")
    run = mlflow.get_run(report.log(model_id=model.model_id))
    assert [each.model_id for each in run.inputs.model_inputs] == [model.model_id]
    logged = {metric.key: metric for metric in mlflow.get_logged_model(model.model_id).metrics}
    assert logged["faithfulness/mean"].value == report.metrics["faithfulness/mean"]
    assert (run.info.run_name, run.data.params["version"]) == ("chain · scripted", "chain")


def test_autologging_neither_changes_the_run_nor_is_changed(report: rm.Report) -> None:
    plain = set(mlflow.get_run(report.log()).data.params)
    mlflow.autolog(silent=True)
    try:
        run = mlflow.get_run(report.log(run_name="again"))
    finally:
        mlflow.autolog(disable=True, silent=True)
    assert set(run.data.params) == plain
    assert len(mlflow.MlflowClient().search_runs(["0"])) == 2
