"""``ragmetrics watch``: what it prints, and its exit codes."""

from __future__ import annotations

import signal
from typing import Any

import mlflow
import pytest

from mlflow_ragmetrics.adapters.mlflow_watch import Pass, Watch
from mlflow_ragmetrics.errors import InvalidDataError, RagMetricsError


@pytest.fixture
def traces() -> None:
    mlflow.set_experiment("live")
    for answer in ("It is 330 metres high.", "It is red. It is 330 metres high."):
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": "How high is it?"})
            span.set_outputs(answer)
    mlflow.flush_trace_async_logging()


@pytest.mark.usefixtures("traces")
def test_a_pass_prints_what_it_did_and_the_figures(ragmetrics: Any) -> None:
    first = ragmetrics("watch", "live", "--once", "-m", "coherence", "--limit", "1")
    assert first.exit_code == 0, first.output
    assert "traces scored: 1, 1 left for the next pass (run " in first.output
    second = ragmetrics("watch", "live", "--once", "-m", "coherence")
    assert "coherence: 1.000, traces measured: 2 of 2" in second.output
    assert "No new traces" in ragmetrics("watch", "live", "--once", "-m", "coherence").output
    (run,) = mlflow.search_runs(experiment_names=["live"], output_format="list")
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    names = ("coherence/mean", "coherence/n_measured", "traces/scored")
    assert [run.data.metrics[name] for name in names] == [1.0, 2, 2]
    for trace in mlflow.search_traces(locations=[run.info.experiment_id], return_type="list"):
        (feedback,) = trace.info.assessments
        source = feedback.metadata["mlflow.assessment.sourceRunId"]
        assert (feedback.name, feedback.value, source) == ("coherence", 1.0, run.info.run_id)
    assert "context_relevance: " in ragmetrics("watch", "live", "--once").output


@pytest.mark.parametrize("way", [("--once",), ("--every", "1h")])
@pytest.mark.usefixtures("traces")
def test_a_signal_while_the_store_is_opened_ends_it(
    way: tuple[str, ...], ragmetrics: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No exception is raised there, which a library could lose."""
    monkeypatch.setattr(
        "mlflow_ragmetrics.cli.shared_options.open_store", lambda _: signal.raise_signal(signal.SIGTERM)
    )
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        result = ragmetrics("watch", "live", *way, "-m", "coherence")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert (result.exit_code, "Error" in result.output) == (143, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "there is no experiment 'nowhere'"),
        (("live", "--since", "yesterday"), "neither a duration"),
        (("live", "--every", "soon"), "not a duration"),
        (("live", "--sample", "2"), "sample=2"),
        (("live", "--filter", "colour = 'red'"), "not a valid trace filter of MLflow"),
    ],
)
@pytest.mark.usefixtures("traces")
def test_what_cannot_be_used_is_one_sentence(ragmetrics: Any, arguments: tuple[str, ...], says: str) -> None:
    result = ragmetrics("watch", *arguments, "--once", "-m", "coherence")
    assert result.exit_code == 2
    assert says in result.output.replace("\n", " ")


@pytest.mark.slow
def test_a_judge_that_is_silent_is_exit_code_3(ragmetrics: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "once", lambda self: Pass("run", waiting=2, incomplete="the key is refused"))
    result = ragmetrics("watch", "live", "--once", "-m", "coherence")
    assert (result.exit_code, "Not complete: the key is refused" in result.output) == (3, True)


@pytest.mark.slow
def test_it_continues_after_a_store_that_failed_until_the_experiment_is_gone(
    ragmetrics: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    endings = [RagMetricsError("the store is away"), RagMetricsError("the store is away"), InvalidDataError("deleted")]

    def once(self: Watch) -> Pass:
        raise endings.pop(0)

    monkeypatch.setattr(Watch, "once", once)
    result = ragmetrics("watch", "live", "--every", "0s", "-m", "coherence")
    assert (result.exit_code, result.output.count("the store is away"), endings) == (2, 2, [])
