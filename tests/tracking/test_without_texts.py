"""A run logged without texts contains none: the whole store and all artifacts are searched for them."""

from __future__ import annotations

from pathlib import Path

import mlflow
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.rows import digest

SECRETS = ("zebraquestion", "zebraanswer", "zebrareference", "zebrapassage", "zebratopic", "zebraerror", "zebrahistory")


@rm.metric
def own_failing(answer: str) -> float:
    raise JudgeReplyError(f"the judge replied zebraerror to {answer}")


def records() -> list[dict[str, object]]:
    return [
        {
            "id": f"row-{number}",
            "question": f"Where is zebraquestion {number}?",
            "answer": f"The zebraanswer {number} stands in Paris. It is {number} metres high.",
            "reference": f"The zebrareference {number} stands in Paris.",
            "contexts": [{"text": f"The zebrapassage {number} stands in Paris.", "id": f"doc-{number}"}],
            "history": [{"role": "user", "content": "zebrahistory"}],
            "topic": "zebratopic",
        }
        for number in range(1, 6)
    ]


def stored(folder: Path) -> list[bytes]:
    """The content of every file of the store, databases and artifacts, with Parquet decompressed."""
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def test_no_text_is_anywhere_in_the_store(store: Path) -> None:
    report = rm.Suite(
        ["faithfulness", "correctness", "rouge", "lexical_groundedness", own_failing, rm.rag_score]
    ).evaluate(records(), groups="topic")
    run_id = report.log(texts=False)
    run = mlflow.get_run(run_id)
    everything = b"\n".join(stored(store)).lower()
    assert len(everything) > 100_000
    for secret in SECRETS:
        assert secret.encode() not in everything, secret
    assert {"row-1", "doc-1"} <= {each for each in ("row-1", "doc-1") if each.encode() in everything}
    assert run.data.metrics["faithfulness/mean"] == report.metrics["faithfulness/mean"]
    about = mlflow.artifacts.load_dict(f"runs:/{run_id}/ragmetrics_suite.json")["suite"]
    assert about["data_digest"] == digest(row.sample for row in report.rows)
    assert not mlflow.search_traces(run_id=run_id, return_type="list")


def test_scores_verdicts_and_ids_are_there_and_runs_can_be_compared(store: Path) -> None:
    report = rm.Suite(["faithfulness", "rouge"]).evaluate(records())
    run_id = report.log(texts=False)
    rows = mlflow.load_table("rag_rows.json", run_ids=[run_id])
    assert rows["id"].tolist() == [f"row-{number}" for number in range(1, 6)]
    assert rows["faithfulness"].tolist() == [row.scores["faithfulness"].value for row in report.rows]
    claims = mlflow.load_table("rag_claims.json", run_ids=[run_id])
    assert claims["verdict"].tolist() == report.items["verdict"].tolist()
    assert set(claims["text"]) | set(claims["reason"]) == {""}
    assert {each["quote"] for evidence in claims["evidence"] for each in evidence} <= {""}
    assert len(rm.compare(run_id, report.log()).pairs("faithfulness")[0]) == 5


def test_the_same_search_finds_the_texts_where_they_are_logged(store: Path) -> None:
    rm.Suite(["faithfulness"]).evaluate(records()).log()
    everything = b"\n".join(stored(store)).lower()
    assert all(
        secret.encode() in everything for secret in ("zebraquestion", "zebraanswer", "zebrapassage", "zebratopic")
    )


def test_the_command_line_logs_none_either(store: Path, tmp_path: Path) -> None:
    import json

    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(json.dumps(each) for each in records()))
    uri = f"sqlite:///{store}/mlflow.db"
    arguments = ["evaluate", str(data), "-m", "faithfulness", "--no-texts", "--tracking-uri", uri, "--experiment", "e"]
    assert CliRunner().invoke(main, arguments, catch_exceptions=False).exit_code == 0
    everything = b"\n".join(stored(store)).lower()
    assert b"faithfulness/mean" in everything
    assert not [secret for secret in SECRETS if secret.encode() in everything]
