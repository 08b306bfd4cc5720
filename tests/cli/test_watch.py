"""``ragmetrics watch``: what it says, and its exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import pytest

from mlflow_ragmetrics.tracking.watch_run import WatchBusyError

METRIC = """
def half(answer: str) -> float:
    return 0.5
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def traces() -> None:
    mlflow.set_experiment("live")
    for answer in ("It is 330 metres high.", "It is red. It is 330 metres high."):
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": "How high is it?"})
            span.set_outputs(answer)
    mlflow.flush_trace_async_logging()


@pytest.mark.usefixtures("traces")
def test_a_pass_says_what_it_did_and_a_standing_alarm_is_exit_code_1(ragmetrics: Any, tmp_path: Path) -> None:
    first = ragmetrics("watch", "live", "--once", "-m", "coherence", "--sample", "1")
    assert first.exit_code == 0, first.output
    assert "Pass 1 (" in first.output
    assert "scored 2" in first.output
    assert "coherence: 1.000 (0" in first.output
    (tmp_path / "mine.py").write_text(METRIC)
    options = ("-m", "mine:half", "--fail-under", "half=0.9", "--alert", "false")
    for _ in range(5):
        with mlflow.start_span("answer") as span:
            span.set_outputs("yes")
    mlflow.flush_trace_async_logging()
    second = ragmetrics("watch", "live", "--once", *options)
    assert second.exit_code == 1, second.output
    assert "below 0.9" in second.output
    assert "the alert's command ended with 1" in second.output
    third = ragmetrics("watch", "live", "--once", *options, "--rebase")
    assert third.exit_code == 0, third.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "there is no experiment 'nowhere'"),
        (("live", "--since", "yesterday"), "neither a duration"),
        (("live", "--every", "soon"), "not a duration"),
        (("live", "--sample", "2"), "sample=2"),
        (("live", "--groups", "topic"), "by the traces' sessions"),
        (("live", "--alarm-on", "rouge"), "no alarm can be raised on 'rouge'"),
        (("live", "--filter", "colour = 'red'"), "not one of MLflow's"),
    ],
)
@pytest.mark.usefixtures("traces")
def test_what_cannot_be_used_is_one_sentence(ragmetrics: Any, arguments: tuple[str, ...], says: str) -> None:
    result = ragmetrics("watch", *arguments, "--once", "-m", "coherence")
    assert result.exit_code == 2
    assert says in result.output.replace("\n", " ")


@pytest.mark.usefixtures("traces")
def test_a_pass_beside_another_one_does_nothing(ragmetrics: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow_ragmetrics.monitoring.watch import Watch

    def busy(self: Watch, **options: Any) -> None:
        raise WatchBusyError("another process (host 12) is at work on this watch")

    monkeypatch.setattr(Watch, "once", busy)
    result = ragmetrics("watch", "live", "--once", "-m", "coherence")
    assert (result.exit_code, "Nothing done: another process" in result.output) == (0, True)


@pytest.mark.usefixtures("traces")
def test_it_goes_on_until_it_is_stopped_whatever_a_pass_ends_with(
    ragmetrics: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow_ragmetrics.errors import RagMetricsError
    from mlflow_ragmetrics.monitoring.watch import Watch

    passes: list[bool] = []

    def once(self: Watch, *, rebase: bool) -> None:
        passes.append(rebase)
        if len(passes) == 3:
            raise KeyboardInterrupt
        raise RagMetricsError("the store is away")

    monkeypatch.setattr(Watch, "once", once)
    result = ragmetrics("watch", "live", "--every", "0s", "-m", "coherence", "--rebase")
    assert result.exit_code == 130
    assert result.output.count("the store is away") == 2
    assert passes == [True] * 3
