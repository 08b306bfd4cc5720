"""Passes over an MLflow experiment: each trace is scored and counted once, whatever happened before."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import mlflow
import pytest
from mlflow.entities import Span, TraceInfo, TraceLocation, TraceState
from mlflow.exceptions import MlflowException
from mlflow.tracing.client import TracingClient

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters import mlflow_watch
from mlflow_ragmetrics.adapters.mlflow_watch import Pass, Watch
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError, JudgeError, RagMetricsError
from tests.adapters.doors import FailingJudge

pytestmark = pytest.mark.slow


@pytest.fixture
def experiment() -> str:
    return str(mlflow.set_experiment("live").experiment_id)


def answered(answers: Iterable[str | None], *, is_retrieved: bool = False, **metadata: str) -> list[str]:
    ids = []
    for answer in answers:
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": "How high is the tower?", "id": "always the same"})
            if metadata:
                mlflow.update_current_trace(metadata=metadata)
            if is_retrieved:
                with mlflow.start_span("search", span_type="RETRIEVER") as found:
                    found.set_outputs([{"page_content": "The tower is 330 metres high."}])
            span.set_outputs(answer)
        ids.append(str(span.trace_id))
    mlflow.flush_trace_async_logging()
    return ids


def watch(*metrics: Any, judge: Any = "lexical", **options: Any) -> Watch:
    return Watch(rm.Suite(list(metrics) or [length], judge=judge), "live", **options)


@rm.metric
def length(answer: str) -> rm.Score:
    """The number of letters in the answer, up to ten."""
    return rm.Score(value=min(len(answer), 10) / 10)


@rm.metric
def letters(answer: str) -> rm.Score:
    """Whether all characters are letters."""
    return rm.Score(value=float(answer.isalpha()))


def names(trace_id: str) -> Counter[str]:
    return Counter(each.name for each in mlflow.get_trace(trace_id).info.assessments)


def logged(done: Pass) -> dict[str, float]:
    """The figures of the outcome; the run must have them, except for counts that were always 0."""
    metrics = dict(mlflow.get_run(done.run_id).data.metrics)
    assert metrics.items() <= done.figures.items()
    assert not any(done.figures[name] for name in done.figures.keys() - metrics.keys())
    return done.figures


def test_each_pass_scores_what_came_since_and_the_run_has_the_figures_of_all(experiment: str) -> None:
    first = answered(["a", "ab", "abc"])
    done = watch().once()
    assert (done.scored, done.waiting, logged(done)["length/mean"]) == (3, 0, pytest.approx(0.2))
    second = answered(["abcd"])
    again = watch().once()
    assert (again.scored, again.run_id) == (1, done.run_id)
    assert logged(again)["length/mean"] == pytest.approx(0.25)
    assert watch().once().scored == 0
    assert all(names(each) == {"length": 1} for each in (*first, *second))
    run = mlflow.get_run(done.run_id)
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert (run.data.metrics["traces/scored"], run.data.metrics["length/n_measured"]) == (4, 4)
    feedback = mlflow.get_trace(first[0]).info.assessments[0]
    assert feedback.metadata["mlflow.assessment.sourceRunId"] == done.run_id


def test_another_judge_or_metric_is_another_run_and_scores_only_what_is_missing(experiment: str) -> None:
    ids = answered(["a", "b"])
    rm.Suite([length]).evaluate([mlflow.get_trace(ids[0])], progress=False).log(feedback=True)
    first = watch().once()
    assert (first.scored, logged(first)["traces/scored"]) == (1, 1)
    second = watch(length, letters).once()
    assert (second.scored, second.run_id == first.run_id) == (2, False)
    assert "length/mean" not in logged(second)  # these scores belong to the other run
    assert all(names(each) == {"length": 1, "letters": 1} for each in ids)


def test_failed_calls_are_counted_and_rows_of_evaluations_are_left_alone(experiment: str) -> None:
    answered(["a"])
    with pytest.raises(ValueError), mlflow.start_span("answer"):
        raise ValueError("no answer")
    mlflow.flush_trace_async_logging()
    rm.Suite([letters]).evaluate([{"question": "q", "answer": "a"}], progress=False).log()
    done = watch().once()
    assert (done.scored, done.figures["traces/failed_calls"]) == (1, 1)
    assert watch().once().figures["traces/failed_calls"] == 1


def test_what_was_not_measured_counts_in_no_mean(experiment: str) -> None:
    answered(["It is 330 metres high."] * 2)  # the retrieved passages are unknown
    answered([None, "", "It is 330 metres high.", "It is 12 metres high."], is_retrieved=True)
    figures = logged(watch("faithfulness").once())
    assert (figures["faithfulness/mean"], figures["faithfulness/n_measured"]) == (0.5, 2)
    assert figures["faithfulness/n_unmeasured"] + figures["faithfulness/n_skipped"] == 4
    assert watch("faithfulness").once().scored == 0


class Killed(BaseException):
    """An exception that no handler catches."""


@pytest.mark.parametrize("writes", range(6))
def test_a_pass_that_ends_anywhere_doubles_and_loses_nothing(
    experiment: str, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = answered(["a", "ab", "abc"])
    write, done = mlflow_watch.write_assessment, Counter[str]()

    def some(*arguments: Any) -> None:
        if done["writes"] == writes:
            raise Killed
        write(*arguments)
        done["writes"] += 1

    with monkeypatch.context() as patch:
        patch.setattr(mlflow_watch, "write_assessment", some)
        with pytest.raises(Killed):
            watch(length, letters).once()
    after = watch(length, letters).once()
    assert all(names(each) == {"length": 1, "letters": 1} for each in ids)
    assert (after.figures["traces/scored"], after.figures["length/mean"]) == (3, pytest.approx(0.2))


@pytest.mark.parametrize("name", ["figures", "tags"])
def test_a_pass_that_ends_before_its_figures_are_written_is_made_up_for_by_the_next(
    experiment: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(["a", "ab", "abc"])
    with monkeypatch.context() as patch:
        target = mlflow_watch.RunWriter if name == "figures" else mlflow.MlflowClient
        method = "figures" if name == "figures" else "set_experiment_tag"
        patch.setattr(target, method, lambda *_, **__: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            watch().once()
    after = watch().once()
    assert (after.scored, after.figures["traces/scored"]) == (0, 3)
    assert logged(after)["length/mean"] == pytest.approx(0.2)


def test_a_judge_that_fails_leaves_an_error_and_is_tried_three_times_in_all(experiment: str) -> None:
    (trace_id,) = answered(["It is 330 metres high."], is_retrieved=True)
    judge = FailingJudge()
    outcomes = []
    for attempt in (1, 2, 3):
        outcomes.append(watch("faithfulness", judge=judge).once())
        (left,) = mlflow.get_trace(trace_id).info.assessments
        assert (left.error is not None, left.metadata["ragmetrics.attempt"]) == (True, str(attempt))
    times = judge.asked
    assert watch("faithfulness", judge=judge).once().scored == 0
    assert judge.asked == times
    assert [each.waiting for each in outcomes] == [1, 1, 0]
    assert outcomes[-1].figures["faithfulness/n_error"] == 1
    assert mlflow.get_run(outcomes[-1].run_id).info.status == "FINISHED"


def test_a_score_that_succeeds_at_the_second_attempt_takes_the_place_of_the_error(experiment: str) -> None:
    (trace_id,) = answered(["It is 330 metres high."], is_retrieved=True)
    suite = rm.Suite(["faithfulness"], judge=rm.ScriptedJudge(error="no reply"))
    assert Watch(suite, "live").once().waiting == 1
    works = suite.replace(judge=rm.ScriptedJudge(facts=[{"text": "It is 330 metres high.", "ok": True}]))
    done = Watch(works, "live").once()
    assert (done.scored, done.waiting, done.figures["faithfulness/mean"]) == (1, 0, 1.0)
    (feedback,) = mlflow.get_trace(trace_id).info.assessments
    assert (feedback.value, feedback.metadata["ragmetrics.attempt"]) == (1.0, "2")


def test_a_refused_key_is_no_failed_attempt_and_ends_the_pass(experiment: str) -> None:
    (trace_id,) = answered(["It is 330 metres high."], is_retrieved=True)
    refused = FailingJudge(error=JudgeError("the key is refused", fatal=True))
    done = watch("faithfulness", judge=refused).once()
    assert (done.scored, done.waiting) == (0, 1)
    assert "the key is refused" in str(done.incomplete)
    assert names(trace_id) == {}
    run = mlflow.get_run(done.run_id)
    assert run.info.status == "FAILED"
    assert "the key is refused" in run.data.tags["ragmetrics.status"]


def test_two_watches_at_once_double_nothing(experiment: str) -> None:
    ids = answered([f"number {n}" for n in range(12)])
    done: list[Pass] = []
    watches = [watch(), watch(), watch(length, letters)]
    threads = [threading.Thread(target=lambda each=each: done.append(each.once())) for each in watches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 3
    assert all(names(each) == {"length": 1, "letters": 1} for each in ids)
    assert {each.run_id for each in done} == {watch().once().run_id, watch(length, letters).once().run_id}


def test_a_watch_whose_run_another_one_deleted_as_a_double_goes_on_in_the_other_run(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trace_id,) = answered(["number"])
    made: list[str] = []
    create = mlflow_watch.new_run

    def overtaken(name: str, creation_id: str) -> str:
        run_id = create(name, creation_id)
        if not made:
            client = mlflow.MlflowClient()
            tags = client.get_run(run_id).data.tags
            made.extend([run_id, client.create_run(experiment, start_time=1, tags=tags).info.run_id])
            client.delete_run(run_id)
        return run_id

    monkeypatch.setattr(mlflow_watch, "new_run", overtaken)
    done = watch().once()
    deleted, kept = made
    assert (done.run_id, done.scored) == (kept, 1)
    assert names(trace_id) == {"length": 1}
    assert "length/mean" not in mlflow.get_run(deleted).data.metrics


def test_a_trace_that_arrives_late_is_found_and_one_that_goes_on_is_waited_for(experiment: str) -> None:
    answered(["a"])
    watch().once()
    began = int(time.time() * 1000) - 600_000

    def begun(name: str, state: TraceState) -> None:
        location = TraceLocation.from_experiment_id(experiment)
        TracingClient().start_trace(TraceInfo(f"tr-{name}", location, request_time=began, state=state))

    begun("00000000000000000000000000000001", TraceState.IN_PROGRESS)
    begun("00000000000000000000000000000002", TraceState.OK)  # its spans are not stored yet
    answered(["ab"])
    done = watch().once()
    assert (done.scored, done.waiting) == (1, 1)
    (trace,) = mlflow.search_traces(filter_string="trace.name = 'answer'", return_type="list", max_results=1)
    span = trace.data.spans[0].to_dict() | {"trace_id": "AAAAAAAAAAAAAAAAAAAAAg=="}
    span["attributes"]["mlflow.traceRequestId"] = '"tr-00000000000000000000000000000002"'
    TracingClient().log_spans(experiment, [Span.from_dict(span)])
    assert watch().once().scored == 1
    assert names("tr-00000000000000000000000000000002") == {"length": 1}


def test_the_cursor_moves_on_with_the_sums_of_what_lies_before_it(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_watch, "_HOUR", 0)
    for answer in ("a", "ab", "abc"):
        answered([answer])
        time.sleep(0.01)
    watch().once()
    looked_at: list[str] = []
    infos = mlflow_watch.TraceSearch.infos

    def noted(self: Any) -> Any:
        for info in infos(self):
            looked_at.append(info.trace_id)
            yield info

    monkeypatch.setattr(mlflow_watch.TraceSearch, "infos", noted)
    answered(["abcd"])
    done = watch().once()
    assert len(set(looked_at)) <= 2
    assert (done.figures["traces/scored"], done.figures["length/mean"]) == (4, pytest.approx(0.25))


def test_a_limit_leaves_the_rest_to_the_next_pass(experiment: str) -> None:
    answered("abcde")
    outcomes = [watch(limit=2).once() for _ in range(4)]
    assert [(each.scored, each.waiting) for each in outcomes] == [(2, 3), (2, 1), (1, 0), (0, 0)]


def test_sample_and_filter_choose_the_traces(experiment: str) -> None:
    answered(["a"] * 12)
    chosen = answered(["b"], kind="chosen")
    assert watch(letters, filter="metadata.kind = 'chosen'").once().scored == 1
    assert names(chosen[0]) == {"letters": 1}
    assert 1 <= watch(sample=0.5).once().scored <= 12
    with pytest.raises(InvalidOptionError, match="sample=0"):
        watch(sample=0)


def test_a_deleted_experiment_is_named(experiment: str) -> None:
    watch().once()
    mlflow.delete_experiment(experiment)
    with pytest.raises(InvalidDataError, match="the experiment 'live' is deleted"):
        watch().once()


def test_a_trace_that_is_deleted_while_it_is_scored_holds_up_no_other(experiment: str) -> None:
    ids = answered(["ab", "abcd"])

    @rm.metric
    def deletes(answer: str) -> rm.Score:
        """Deletes the first trace."""
        if answer == "ab":
            mlflow.MlflowClient().delete_traces(experiment, trace_ids=ids[:1])
        return rm.Score(value=0.5)

    assert watch(deletes).once().scored == 1
    assert names(ids[1]) == {"deletes": 1}


def test_a_store_that_fails_is_one_sentence(experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: object, trace_id: str) -> None:
        raise MlflowException("database is locked")  # a server error, not a client error

    answered(["a"])
    with monkeypatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, "get_trace", fails)
        with pytest.raises(RagMetricsError, match="the next pass continues: database is locked"):
            watch().once()
    assert watch().once().scored == 1
