"""A handler without texts: traces, feedback and the outbox contain only scores, verdicts and ids."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mlflow
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.results.tables import score_in
from tests.tracking.test_without_texts import own_failing

SECRETS = ("zebraquestion", "zebraanswer", "zebrapassage", "zebrareference", "zebratag", "zebraerror", "zebrahistory")
CONFIG: dict[str, Any] = {
    "metadata": {"id": "row-1", "gold_doc_ids": ["doc-1"], "reference": "The zebrareference.", "user": "zebratag"},
    "tags": ["zebratag"],
    "run_name": "zebratag",
}


def answer(asked: Any) -> dict[str, Any]:
    """Inputs and outputs belong to the call that started the trace, which is not ours."""
    passage = Document("The zebrapassage stands in Paris.", id="doc-1")
    return {"answer": "The zebraanswer stands in Paris. It is 300 metres high.", "documents": [passage]}


def asked(traced: bool, **options: Any) -> rm.RagMetricsCallback:
    """A call without a trace or, if ``traced``, within one that has no inputs or outputs itself."""
    suite = ["faithfulness", "context_precision", own_failing]
    with rm.RagMetricsCallback(suite, **options) as handler:
        with mlflow.start_span("call") if traced else nullcontext():
            history = [("human", "zebrahistory"), ("ai", "yes")]
            inputs = {"question": "Where is the zebraquestion?", "chat_history": history}
            RunnableLambda(answer).invoke(inputs, {**CONFIG, "callbacks": [handler]})
        assert handler.flush()
    return handler


def found_in(folder: Path) -> set[str]:
    everything = b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file()).lower()
    return {secret for secret in SECRETS if secret.encode() in everything}


@pytest.mark.parametrize("traced", [True, False])
def test_no_text_is_anywhere_in_the_store(traced: bool, store: Path) -> None:
    handler = asked(traced, texts=False)
    assert found_in(store) == set()

    (run,) = mlflow.search_runs(output_format="list")
    assert run.data.metrics["own_failing/n_error"] == 1
    (trace,) = mlflow.search_traces([run.info.experiment_id], return_type="list")
    feedback = {each.name: each for each in trace.info.assessments}
    assert (feedback["faithfulness"].value, feedback["context_precision"].value) == (0.5, 1.0)
    assert feedback["own_failing"].error.error_code == "JudgeReplyError"
    claims = score_in(feedback["faithfulness"].metadata).items
    assert [claim.verdict for claim in claims] == ["SUPPORTED", "NEUTRAL"]
    assert {claim.text + claim.reason for claim in claims} == {""}
    assert not any(each.rationale for each in feedback.values())
    assert handler.counts["written"] == 1


def test_the_same_search_finds_them_where_they_are_written(store: Path) -> None:
    asked(False)
    assert found_in(store) == set(SECRETS) - {"zebratag", "zebrahistory"}


def test_what_waits_on_disk_has_none_and_ones_own_function_gets_them(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow_ragmetrics.tracking.writer import RunWriter

    def fail(*_: Any) -> None:
        raise OSError("no")

    monkeypatch.setattr(RunWriter, "metrics", fail)
    seen: list[Any] = []
    with rm.RagMetricsCallback(
        ["faithfulness"], texts=False, log=True, sink=lambda sample, _: seen.append(sample)
    ) as handler:
        RunnableLambda(answer).invoke({"question": "Where is the zebraquestion?"}, {**CONFIG, "callbacks": [handler]})
        assert not handler.close(0.5)
    assert any((tmp_path / "data" / "outbox").iterdir())
    assert found_in(tmp_path / "data") == set()
    assert seen[0].question == "Where is the zebraquestion?"
