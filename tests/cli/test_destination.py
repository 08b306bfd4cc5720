from __future__ import annotations

import mlflow
import pytest

from mlflow_ragmetrics.cli.shared_options import Destination, destination_of


def test_options_beat_the_environment_which_beats_the_default(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert destination_of(None, None) == Destination("sqlite:///mlflow.db", "ragmetrics")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    assert destination_of(None, None) == Destination("http://server", "theirs")
    assert destination_of("sqlite:///x.db", "mine") == Destination("sqlite:///x.db", "mine")


@pytest.mark.parametrize(
    ("uri", "command"),
    [
        ("sqlite:///mlflow.db", "mlflow ui --backend-store-uri sqlite:///mlflow.db"),
        ("sqlite:///my runs.db", "mlflow ui --backend-store-uri 'sqlite:///my runs.db'"),
        ("http://server:5000", "http://server:5000"),
    ],
)
def test_the_command_can_be_pasted(uri, command):
    assert Destination(uri, "any").command() == command


def test_a_password_is_not_shown():
    shown = Destination("postgresql://me:hunter22@host/mlflow", "any").command()
    assert "hunter22" not in shown
    assert "host/mlflow" in shown


def test_a_deleted_experiment_names_the_option(ragmetrics, tmp_path, monkeypatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri := f"sqlite:///{tmp_path}/deleted.db")
    client = mlflow.MlflowClient(uri)
    client.delete_experiment(client.create_experiment("ragmetrics"))
    (tmp_path / "a.jsonl").write_text('{"answer": "a"}')
    assert "--experiment" in ragmetrics("evaluate", str(tmp_path / "a.jsonl"), "-m", "coherence").stderr
