from __future__ import annotations

import pytest

from mlflow_ragmetrics import __version__
from mlflow_ragmetrics.tracking import outbox as module
from mlflow_ragmetrics.tracking.outbox import Home, open_outbox
from mlflow_ragmetrics.tracking.run import pool_shortage


def test_a_sound_installation_has_no_fault(ragmetrics, mlflow_store):
    result = ragmetrics("doctor", "--judge", "lexical")
    assert result.exit_code == 0, result.output
    assert f"mlflow_ragmetrics: {__version__}" in result.stdout
    assert f"MLflow store {mlflow_store}: answers" in result.stdout
    assert "judge lexical: answers" in result.stdout


def test_what_an_ended_process_left_in_the_outbox_is_said_and_left_there(ragmetrics, mlflow_store, monkeypatch):
    outbox = open_outbox()
    monkeypatch.setattr(module, "this_process", lambda: "node 7")  # a process on another machine, seen a moment ago
    number = outbox.join(Home(mlflow_store, mlflow_store, "", "suite"), "service", None)
    for _ in range(3):
        outbox.count(number, "seen")
    outbox.append(number, "{}")
    assert "live answers" not in ragmetrics("doctor").stdout
    outbox._db.execute("UPDATE processes SET active = 0")
    for _ in range(2):
        said = ragmetrics("doctor").stdout
        assert "answers of ended processes: 1 scored and waiting, at least 2 lost before they were scored" in said


def test_a_store_is_not_made_by_looking(ragmetrics, tmp_path):
    result = ragmetrics("doctor", "--tracking-uri", "sqlite:///new.db")
    assert result.exit_code == 0
    assert "does not exist yet" in result.stdout
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("uri", ["sqlite:////dev/null/all.db", "http://127.0.0.1:9"])
def test_a_store_that_cannot_be_used_is_a_fault(ragmetrics, uri):
    result = ragmetrics("doctor", "--tracking-uri", uri)
    assert result.exit_code == 1
    assert f"✗ MLflow store {uri}" in result.stdout


def test_a_judge_that_is_none_is_a_fault(ragmetrics):
    result = ragmetrics("doctor", "--judge", "nobody")
    assert result.exit_code == 1
    assert "✗ judge nobody" in result.stdout


@pytest.mark.parametrize(("workers", "is_noted"), [("", True), ("10", False), ("15", True)])
def test_more_threads_than_connections_are_noted(ragmetrics, monkeypatch, workers, is_noted):
    for name in ("MLFLOW_SQLALCHEMYSTORE_POOL_SIZE", "MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", workers)
    assert ("the store has 15 connections" in " ".join(ragmetrics("doctor").stdout.split())) == is_noted
    assert pool_shortage("http://server") is None
