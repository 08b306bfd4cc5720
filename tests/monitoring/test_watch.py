"""Passes over an experiment of MLflow: each trace scored and counted once, whatever happened before."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Span, TraceInfo, TraceLocation, TraceState
from mlflow.tracing.client import TracingClient

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.monitoring import watch as watching
from mlflow_ragmetrics.monitoring.watch import PassOutcome, Watch
from mlflow_ragmetrics.text.messages import render
from mlflow_ragmetrics.tracking import watch_run as tracking
from mlflow_ragmetrics.tracking.watch_run import WatchBusyError
from mlflow_ragmetrics.tracking.writer import WRITER_TAG, RunWriter

pytestmark = pytest.mark.slow


@pytest.fixture
def experiment() -> str:
    return str(mlflow.set_experiment("live").experiment_id)


def answered(answers: Iterable[str], **metadata: str) -> list[str]:
    ids = []
    for answer in answers:
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": "How high is the tower?", "id": "always the same"})
            if metadata:
                mlflow.update_current_trace(metadata=metadata)
            span.set_outputs(answer)
        ids.append(str(span.trace_id))
    mlflow.flush_trace_async_logging()
    return ids


def watch(experiment: str, *metrics: Any, **options: Any) -> Watch:
    return Watch(rm.Suite(list(metrics) or [length]), experiment, "live", **options)


@rm.metric
def length(answer: str) -> rm.Score:
    """How long the answer is, up to ten letters."""
    if answer == "fail":
        raise rm.JudgeError("no score for this one")
    return rm.Score(value=min(len(answer), 10) / 10)


@rm.metric
def letters(answer: str) -> rm.Score:
    """Whether all are letters."""
    return rm.Score(value=float(answer.isalpha()))


def names(trace_id: str) -> Counter[str]:
    return Counter(each.name for each in mlflow.get_trace(trace_id).info.assessments)


def counted(done: PassOutcome) -> float:
    return mlflow.MlflowClient().get_run(done.run_id).data.metrics["traces/scored"]


def test_each_pass_scores_what_came_since(experiment: str) -> None:
    first = answered(["a", "ab", "abc"])
    done = watch(experiment).once()
    assert (done.scored, done.number, done.figures["length/mean"]) == (3, 1, pytest.approx(0.2))
    second = answered(["abcd"])
    again = watch(experiment).once()
    assert (again.scored, again.number, again.run_id) == (1, 2, done.run_id)
    assert watch(experiment).once().scored == 0
    assert all(names(each) == {"length": 1} for each in (*first, *second))
    run = mlflow.get_run(done.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["length/anytime_n"] == 4
    assert "Pass 3" in run.data.tags["mlflow.note.content"]
    assert run.data.tags["ragmetrics.alarm"] == "none"
    feedback = mlflow.get_trace(first[0]).info.assessments[0]
    assert feedback.metadata["mlflow.assessment.sourceRunId"] == done.run_id


def test_failed_calls_are_counted_and_rows_of_evaluations_are_not_watched(experiment: str) -> None:
    answered(["a"])
    with pytest.raises(ValueError), mlflow.start_span("answer"):
        raise ValueError("no answer")
    mlflow.flush_trace_async_logging()
    rm.Suite([letters]).evaluate([{"question": "q", "answer": "a"}], progress=False).log()
    done = watch(experiment).once()
    assert (done.scored, done.failed, done.figures["traces/failed"]) == (1, 1, 1)
    assert watch(experiment).once().failed == 0


def test_what_others_scored_is_not_scored_again_and_what_is_missing_is_added(experiment: str) -> None:
    ids = answered(["a", "b"])
    rm.Suite([length]).evaluate("traces:/live?limit=1", progress=False).log(feedback=True)
    assert watch(experiment).once().scored == 1
    assert watch(experiment, length, letters).once().scored == 2
    assert all(names(each) == {"length": 1, "letters": 1} for each in ids)


class Killed(BaseException):
    """What no handler catches."""


@pytest.mark.parametrize("writes", [0, 1, 2, 3, 4, 5])
def test_a_pass_that_ends_anywhere_doubles_and_loses_nothing(
    experiment: str, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = answered(["a", "ab", "abc"])
    done = 0
    write = watching.add_scores

    def one_after_the_other(trace_id: str, scores: dict[str, rm.Score], run_id: str) -> None:
        nonlocal done
        for key, score in scores.items():
            if done == writes:
                raise Killed
            write(trace_id, {key: score}, run_id)
            done += 1

    with monkeypatch.context() as patch:
        patch.setattr(watching, "add_scores", one_after_the_other)
        with pytest.raises(Killed):
            watch(experiment, length, letters).once()
    after = watch(experiment, length, letters).once()
    assert after.scored + after.recovered == 3
    assert counted(after) == 3
    assert all(names(each) == {"length": 1, "letters": 1} for each in ids)
    assert after.figures["length/mean"] == pytest.approx(0.2)
    assert after.figures["length/anytime_n"] == 3


def test_a_pass_that_ends_before_its_state_is_kept_is_counted_by_the_next(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(["a", "ab", "abc"])
    with monkeypatch.context() as patch:
        patch.setattr(tracking.WatchRun, "save", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            watch(experiment).once()
    after = watch(experiment).once()
    assert (after.scored, after.recovered, counted(after)) == (0, 3, 3)
    assert after.figures["length/mean"] == pytest.approx(0.2)


def test_a_state_that_was_cut_short_is_not_used(experiment: str, tmp_path: Path) -> None:
    answered(["a", "ab"])
    done = watch(experiment).once()
    RunWriter(done.run_id).files({tracking._STATES[0]: "{", tracking._STATES[1]: '{"number": 9, "state": {}}'})
    after = watch(experiment).once()
    assert (after.scored, after.recovered, after.figures["length/anytime_n"]) == (0, 2, 2)


def test_a_trace_that_arrives_late_is_found_and_one_that_goes_on_is_waited_for(experiment: str) -> None:
    answered(["a"])
    watch(experiment).once()
    began = int(time.time() * 1000) - 600_000

    def begun(name: str, state: TraceState) -> None:
        location = TraceLocation.from_experiment_id(experiment)
        TracingClient().start_trace(TraceInfo(f"tr-{name}", location, request_time=began, state=state))

    begun("00000000000000000000000000000001", TraceState.IN_PROGRESS)
    begun("00000000000000000000000000000002", TraceState.OK)  # its spans are not there yet
    answered(["ab"])
    assert (done := watch(experiment).once()).scored == 1
    assert done.left == 1
    (trace,) = mlflow.search_traces(filter_string="trace.name = 'answer'", return_type="list", max_results=1)
    span = trace.data.spans[0].to_dict() | {"trace_id": "AAAAAAAAAAAAAAAAAAAAAg=="}
    span["attributes"]["mlflow.traceRequestId"] = '"tr-00000000000000000000000000000002"'
    TracingClient().log_spans(experiment, [Span.from_dict(span)])
    assert watch(experiment).once().scored == 1
    assert names("tr-00000000000000000000000000000002") == {"length": 1}


def test_a_trace_that_cannot_be_scored_is_tried_three_times_and_then_written_so(experiment: str) -> None:
    ids = answered(["fail", "good"])
    outcomes = [watch(experiment).once() for _ in range(4)]
    assert [(each.scored, each.left) for each in outcomes][:2] == [(1, 1), (0, 1)]
    assert sum(each.scored for each in outcomes) + outcomes[-1].left == 2
    assert names(ids[1]) == {"length": 1}


def test_a_limit_leaves_the_rest_to_the_next_pass(experiment: str) -> None:
    answered("abcde")
    assert [watch(experiment, limit=2).once().scored for _ in range(4)] == [2, 2, 1, 0]


def test_sample_and_filter_say_which_traces(experiment: str) -> None:
    answered(["a"] * 12)
    chosen = answered(["b"], kind="chosen")
    assert watch(experiment, letters, filter="metadata.kind = 'chosen'").once().scored == 1
    assert names(chosen[0]) == {"letters": 1}
    scored = watch(experiment, sample=0.5).once().scored
    assert 1 <= scored <= 12


def test_one_process_at_a_time(experiment: str) -> None:
    answered(["a"])
    done = watch(experiment).once()
    RunWriter(done.run_id).tags({WRITER_TAG: "elsewhere 12 0", "ragmetrics.watch.seen": 99_999_999_999})
    with pytest.raises(WatchBusyError, match="elsewhere 12"):
        watch(experiment).once()
    RunWriter(done.run_id).tags({"ragmetrics.watch.seen": 1})  # it has been silent for long
    assert watch(experiment).once().number == 2


def test_an_alarm_is_told_once_and_again_only_until_it_was_delivered(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    answers: list[str | None] = ["the webhook answered 500", None]

    def send(target: str, text: str, about: dict[str, Any]) -> str | None:
        told.append(text)
        return answers[min(len(told), 2) - 1]

    monkeypatch.setattr(watching, "send", send)
    options: dict[str, Any] = {"limits": {"length": 0.9}, "alert": "https://example.org/hook"}
    answered(["abc"] * 12)
    first = watch(experiment, **options).once()
    assert first.undelivered == "the webhook answered 500"
    assert [alarm.kind for alarm in first.new] == ["below limit"]
    answered(["abc"])
    second = watch(experiment, **options).once()
    assert (second.undelivered, second.new, len(second.standing), len(told)) == (None, [], 1, 2)
    assert "below 0.9" in mlflow.get_run(first.run_id).data.tags["ragmetrics.alarm"]
    watch(experiment, **options).once()
    assert len(told) == 2
    assert watch(experiment, **options).once(rebase=True).standing == []


def test_anchors_are_scored_with_each_pass_that_scores(experiment: str) -> None:
    from mlflow_ragmetrics.rows import read_samples

    anchors = list(read_samples([{"id": str(n), "answer": "a" * (n % 10), "label": n % 10 >= 5} for n in range(20)]))
    answered(["abc"])
    done = watch(experiment, anchors=anchors).once()
    assert done.figures["anchors/length/agreement"] == 1.0
    assert done.figures["anchors/length/shift"] == 0.0
    assert mlflow.get_run(done.run_id).data.params["watch.anchors"] == "20"


def test_what_cannot_be_watched_is_named(experiment: str) -> None:
    with pytest.raises(InvalidOptionError, match="no alarm can be raised on 'nosuch'; there are length"):
        watch(experiment, alarm_on=["nosuch"])
    with pytest.raises(InvalidOptionError, match="sample=0"):
        watch(experiment, sample=0)
    with pytest.raises(InvalidOptionError, match="2 anchors cannot show"):
        watch(experiment, anchors=[1, 2])
    labelled = [Sample(id=str(number), answer="a", metadata={"label": number % 5 + 1}) for number in range(20)]
    with pytest.raises(InvalidOptionError, match="the label 2 of an anchor does not lie in 0 to 1"):
        watch(experiment, anchors=labelled)
    with pytest.raises(InvalidDataError, match="label 'perhaps'"):
        watch(experiment, anchors=[replace(each, metadata={"label": "perhaps"}) for each in labelled])
    with pytest.raises(InvalidOptionError, match="better the higher"):
        watch(experiment, "hallucination_rate", limits={"hallucination_rate": 0.1})


def test_a_store_that_fails_is_one_sentence(experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.exceptions import MlflowException

    def fails(self: object, trace_id: str) -> None:
        raise MlflowException("database is locked")  # an error of the server's, not of what was asked

    answered(["a"])
    with monkeypatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, "get_trace", fails)
        with pytest.raises(RagMetricsError, match="the next one goes on: database is locked"):
            watch(experiment).once()
    assert watch(experiment).once().scored == 1


def asked(count: int, answer: str | None) -> None:
    for _ in range(count):
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": "How high is the tower?"})
            with mlflow.start_span("search", span_type="RETRIEVER") as found:
                found.set_outputs([{"page_content": "The tower is 330 metres high."}])
            span.set_outputs(answer)
    mlflow.flush_trace_async_logging()


def test_what_was_not_measured_is_said_and_is_not_of_good_quality(experiment: str) -> None:
    answered(["It is 330 metres high."] * 2)  # nothing says what was retrieved
    asked(1, None)
    none = watch(experiment, "faithfulness").once()
    assert none.lines == ["faithfulness: not measured in any of 3 traces"]
    asked(2, "")  # an answer that claims nothing
    asked(1, "It is 330 metres high.")
    asked(1, "It is 12 metres high.")
    done = watch(experiment, "faithfulness").once()
    assert (done.figures["faithfulness/mean"], done.figures["faithfulness/anytime_n"]) == (0.5, 2)
    (line,) = done.lines
    assert line.endswith("; 5 of 7 traces not measured")
    assert render(line, "ru").endswith("; не измерено: 5 из 7 трасс")
    assert line in mlflow.get_run(done.run_id).data.tags["mlflow.note.content"]


def test_what_a_killed_pass_left_uncounted_is_as_measured_as_it_was(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(2, "")
    with monkeypatch.context() as patch:
        patch.setattr(tracking.WatchRun, "save", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            watch(experiment, "faithfulness").once()
    after = watch(experiment, "faithfulness").once()
    assert (after.recovered, after.lines) == (2, ["faithfulness: not measured in any of 2 traces"])


def test_anchors_none_of_which_can_be_measured_are_said(experiment: str) -> None:
    answered(["abc"])
    done = watch(experiment, anchors=[Sample(id=str(number)) for number in range(12)]).once()
    assert "length: none of the 12 anchors was measured; whether the judge changes does not show" in done.lines


def test_an_alarm_that_a_killed_pass_could_not_raise_is_raised_though_nothing_new_came(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(["abc"] * 12)
    with monkeypatch.context() as patch:
        patch.setattr(watching._Pass, "_anchors_and_alarms", lambda _: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            watch(experiment, limits={"length": 0.9}).once()
    after = watch(experiment, limits={"length": 0.9}).once()
    assert (after.scored, [alarm.kind for alarm in after.new]) == (0, ["below limit"])


def test_a_state_that_the_store_does_not_give_is_no_new_beginning(experiment: str) -> None:
    answered(["abc"] * 12)
    done = watch(experiment, limits={"length": 0.9}).once()
    artifacts = Path(mlflow.get_run(done.run_id).info.artifact_uri.removeprefix("file://"))
    states = artifacts / "ragmetrics_watch"
    for name in ("state_0.json", "state_1.json"):
        shutil.copy(states / name, artifacts / name)
        (states / name).unlink()
        (states / name).symlink_to("/nowhere/at/all")
    with pytest.raises(RagMetricsError):
        watch(experiment, limits={"length": 0.9}).once()
    for name in ("state_0.json", "state_1.json"):
        (states / name).unlink()
        shutil.copy(artifacts / name, states / name)
    after = watch(experiment, limits={"length": 0.9}).once()
    assert [alarm.kind for alarm in after.standing] == ["below limit"]


def test_a_trace_that_is_deleted_while_it_is_scored_holds_up_no_other(experiment: str) -> None:
    ids = answered(["ab", "abcd"])

    @rm.metric
    def deletes(answer: str) -> rm.Score:
        """Deletes the first trace."""
        if answer == "ab":
            mlflow.MlflowClient().delete_traces(experiment, trace_ids=ids[:1])
        return rm.Score(value=0.5)

    assert watch(experiment, deletes).once().scored == 1
    assert names(ids[1]) == {"deletes": 1}


def test_a_clock_that_was_ahead_leaves_no_trace_out_and_one_that_is_behind_is_said(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = time.time
    answered(["ab"])
    with monkeypatch.context() as patch:
        patch.setattr(watching.time, "time", lambda: clock() + 100_000)
        assert watch(experiment).once().scored == 1
    answered(["abcd"])
    assert watch(experiment).once().scored == 1
    with monkeypatch.context() as patch:
        patch.setattr(watching.time, "time", lambda: clock() - 100_000)
        with pytest.raises(RagMetricsError, match=r"the clock is 27\.\d hours behind the last trace"):
            watch(experiment).once()


def test_alarms_and_figures_are_said_in_the_language_of_the_suite(experiment: str) -> None:
    answered(["abc"] * 12)
    done = Watch(rm.Suite([length], language="ru"), experiment, "live", limits={"length": 0.9}).once()
    tags = mlflow.get_run(done.run_id).data.tags
    assert tags["ragmetrics.alarm"].startswith("length: среднее ниже предела 0.9: оно изменилось до 0.300. Неизвестно")
    assert "**Проход 1**, взято 12 трасс." in tags["mlflow.note.content"]
    assert "- length: 0.300 (от 0." in tags["mlflow.note.content"]
