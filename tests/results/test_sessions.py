"""Conversations: which have no failing turn, where the first one failed, and which are unknown."""

from __future__ import annotations

from typing import Any

import mlflow
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.core.score import Message, Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import GateError, InvalidOptionError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.sessions import Session, Turn, in_order, session_figures, session_score

CLAIMS_NOTHING = Score(1.0, details={"rule": "no_claims", "unmeasured": "no_claims"})
NO_CONTEXT = Score(1.0, details={"no_context": True, "unmeasured": "no_context"})
ERROR = Score(error="JudgeError: away")


def row(session: str | None, turn: int, score: Score, **metadata: Any) -> Row:
    known = {} if session is None else {"session_id": session}
    return Row(Sample(id=f"{session}{turn}", metadata={**known, **metadata}), {"faithfulness": score})


def report(**sessions: list[Score]) -> Report:
    return Report([row(name, turn, score) for name, own in sessions.items() for turn, score in enumerate(own, 1)])


def outcomes(found: Report, *arguments: Any, **options: Any) -> dict[str, str]:
    frame = found.sessions("faithfulness", *arguments, **options)
    return dict(zip(frame["session"], frame["outcome"], strict=True))


def test_a_session_passes_only_where_every_turn_is_known_to() -> None:
    found = report(
        good=[Score(1.0), CLAIMS_NOTHING],
        bad=[Score(1.0), Score(0.5), ERROR, Score(0.0)],
        failed=[Score(1.0), ERROR],
        ruled=[Score(1.0), NO_CONTEXT],
        skipped=[Score(1.0), Score()],
        silent=[CLAIMS_NOTHING, CLAIMS_NOTHING],
    )
    expected = {"good": "passed", "bad": "failed"}
    assert outcomes(found) == {**expected, **dict.fromkeys(("failed", "ruled", "skipped", "silent"), "not measured")}
    bad = found.sessions("faithfulness").set_index("session").loc["bad"]
    assert (bad["turns"], bad["measured"], bad["mean"], bad["worst"]) == (4, 3, 0.5, 0.0)
    assert (bad["first_failure"], bad["first_failure_id"], bad["worst_id"]) == (2, "bad2", "bad4")
    figures = {name: value for name, value in found.metrics.items() if "session" in name}
    assert figures["faithfulness/session_pass_rate"] == 0.5
    assert (figures["faithfulness/n_sessions"], figures["faithfulness/n_sessions_unmeasured"]) == (2, 4)
    assert figures["faithfulness/session_first_failure"] == 2
    assert figures["faithfulness/session_worst"] == 0.5
    assert figures["faithfulness/session_ci_low"] < 0.5 < figures["faithfulness/session_ci_high"]
    assert found.notes == [
        "Sessions (session_id): 1 of 2 has no turn that fails faithfulness (0.50, 95 % 0.00–1.00); the others first "
        "fail in turn 2.0 on average; 4 more sessions unknown because turns were not measured"
    ]


def test_where_nothing_is_known_there_is_no_rate() -> None:
    found = report(a=[ERROR, Score(1.0)], b=[NO_CONTEXT, NO_CONTEXT])
    assert "faithfulness/session_pass_rate" not in found.metrics
    assert found.metrics["faithfulness/n_sessions_unmeasured"] == 2
    assert found.notes == [
        "Sessions (session_id): faithfulness is unknown for all sessions (2) because turns were not measured"
    ]


def test_the_threshold_is_the_metrics_own_or_the_one_that_is_given() -> None:
    own = Report([row("a", 1, Score(0.7, threshold=0.6)), row("a", 2, Score(0.9, threshold=0.6))])
    assert outcomes(own) == {"a": "passed"}
    assert outcomes(own, 0.8) == {"a": "failed"}
    assert outcomes(report(a=[Score(0.7), Score(0.9)])) == {"a": "failed"}
    lower = Report([Row(Sample(id="1"), {"rate": Score(0.0, higher_is_better=False)})])
    assert lower.sessions("rate", by="id")["outcome"].tolist() == ["passed"]


def test_worst_is_highest_where_lower_is_better() -> None:
    turns = (Turn("a", 0.2, True), Turn("b", 0.6, False), Turn("c", None, True))
    assert Session("s", turns, False).record()["worst_id"] == "b"
    assert Session("s", turns, True).record()["worst_id"] == "a"


def test_turns_are_in_the_order_of_traces_or_of_histories() -> None:
    newest_first = [row("a", turn, Score(0.0 if turn > 1 else 1.0), request_time=turn) for turn in (3, 2, 1)]
    assert Report(newest_first).sessions("faithfulness")["first_failure_id"].tolist() == ["a2"]
    said = Message("user", "Hi")
    mixed = [Row(Sample(id=str(n), history=(said,) * n or None), {}) for n in (4, 0, 2)]
    assert [each.sample.id for each in in_order(mixed)] == ["0", "2", "4"]
    assert [each.sample.id for each in in_order([row("a", 2, ERROR), row("a", 1, ERROR)])] == ["a2", "a1"]


def test_rows_without_a_session_belong_to_none_and_a_name_may_be_given() -> None:
    found = Report([row(None, 1, Score(0.0), talk="x"), *report(a=[Score(1.0), Score(1.0)]).rows])
    assert outcomes(found) == {"a": "passed"}
    assert outcomes(found, by="talk") == {"x": "failed"}
    grouped = Report(found.rows, description={"groups": "talk"})
    assert outcomes(grouped) == {"x": "failed"}
    with pytest.raises(InvalidOptionError, match="'rouge' is not a metric here; use one of faithfulness"):
        found.sessions("rouge")
    with pytest.raises(InvalidOptionError, match="no row has 'chat'"):
        found.sessions("faithfulness", by="chat")


def test_without_sessions_nothing_is_said() -> None:
    alone = Report([row(name, 1, Score(1.0)) for name in "ab"])  # all different: no conversation
    assert not any("session" in name for name in alone.metrics)
    with pytest.raises(InvalidOptionError, match="name the column of the conversation"):
        alone.sessions("faithfulness")


@given(st.lists(st.lists(st.sampled_from([Score(1.0), Score(0.3), ERROR, NO_CONTEXT, CLAIMS_NOTHING]), min_size=1)))
def test_an_unknown_turn_never_makes_a_session_pass(sessions: list[list[Score]]) -> None:
    found = [Session("", tuple(_turn(score) for score in own)) for own in sessions]
    for session, own in zip(found, sessions, strict=True):
        if session.outcome == "passed":
            assert not any(score in (ERROR, NO_CONTEXT) or score.value == 0.3 for score in own)
    figures = session_figures(found)
    assert figures["n_sessions"] + figures["n_sessions_unmeasured"] == len(sessions)


def _turn(score: Score) -> Turn:
    from mlflow_ragmetrics.results.sessions import turn_of

    return turn_of("", score, 1.0)


def test_a_session_as_a_score_names_the_first_failure() -> None:
    rows = [row("a", 1, Score(1.0)), row("a", 2, Score(0.0, reason="No passage says it.", judge="j"))]
    failed = session_score(rows, "faithfulness")
    assert (failed.value, failed.reason, failed.judge) == (0.0, "Turn 2 of 2 fails first: No passage says it.", "j")
    passed = session_score(rows[:1], "faithfulness")
    assert (passed.value, passed.reason) == (1.0, "No failing turn in 1 turn.")
    rows = [rows[0], row("a", 2, ERROR), row("a", 3, ERROR)]
    unknown = session_score(rows, "faithfulness", language="ru")
    assert (unknown.value, unknown.reason) == (None, "Неизвестно: не измерено реплик — 2 из 3; остальные прошли.")
    assert session_score([row("a", 1, CLAIMS_NOTHING)], "faithfulness").value is None


def test_sessions_are_in_the_run_and_in_gates(mlflow_store: str) -> None:
    found = report(a=[Score(1.0), Score(1.0)], b=[Score(1.0), Score(0.0)])
    run_id = found.log(traces=False, dataset=False)
    figures = mlflow.artifacts.load_dict(f"runs:/{run_id}/rag_figures.json")
    assert figures["faithfulness/session_pass_rate"] == 0.5
    assert figures["faithfulness/n_sessions"] == 2
    assert figures["faithfulness/n_sessions_unmeasured"] == 0
    assert not [name for name in mlflow.get_run(run_id).data.metrics if "session" in name]
    table = mlflow.load_table("rag_sessions.json", run_ids=[run_id])
    assert table["first_failure_id"].tolist() == [None, "b2"] or pd.isna(table["first_failure_id"][0])
    assert "1 of 2 has no turn that fails faithfulness" in mlflow.get_run(run_id).data.tags["mlflow.note.content"]
    found.check(**{"faithfulness/session_pass_rate": 0.5})
    with pytest.raises(GateError):
        found.check(**{"faithfulness/session_pass_rate": 0.6})
    private = found.log(texts=False, dataset=False)
    artifacts = [each.path for each in mlflow.MlflowClient().list_artifacts(private)]
    assert "rag_sessions.json" not in artifacts  # a session's name may be a person's
