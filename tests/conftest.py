"""Each test that uses MLflow has its own SQLite store, copied from one that is created once per session."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sqlite3
import ssl
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.quick_mlflow import close_stores, quicken_mlflow

collect_ignore = ["adapters/langchain/mcp_server.py", "mutation.py"]  # programs of their own

gc.set_threshold(50_000, 20, 50)  # modules of all frameworks are alive, and each pass looks at all their objects
settings.register_profile("busy", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")  # slowness of a busy machine is not a fault of the package
ssl.create_default_context = lru_cache(ssl.create_default_context)  # each client would read all certificates again
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # MLflow's own plugin, which uses the network

if find_spec("pyspark") is not None and find_spec("grpc") is None:
    # pyspark mistakes a pytest-xdist worker for a doctest without grpc and exits; elsewhere it raises ImportError
    sys.modules["pyspark.sql.connect"] = None  # type: ignore[assignment]

_FAULTS = Path(__file__).parent / "faults"
_SPEAKS_OF_MLFLOW = re.compile(r"\bmlflow(_store)?\b", re.IGNORECASE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether a path is not even imported: the faults, where they would be deselected."""
    is_unwanted = collection_path == _FAULTS and "not faults" in config.option.markexpr
    return is_unwanted or None


def pytest_collection_finish() -> None:
    """Spare what was imported from being looked at again each time that garbage is collected."""
    gc.freeze()


@pytest.fixture(autouse=True)
def mlflow_store(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """The tracking URI of the test's own store; ``None`` if the test file does not use MLflow."""
    if not _speaks_of_mlflow(request.path):
        yield None
        return
    template: Path = request.getfixturevalue("mlflow_template")
    folder: Path = request.getfixturevalue("tmp_path")
    uri = _copied(template, folder)
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("RAGMETRICS_OUTBOX", str(folder / "data"))
    monkeypatch.setattr("mlflow_ragmetrics.tracking.run._SETTLING", 0.01)  # no other process writes to this store
    # older versions of MLflow reset the root logger's handlers, pytest's among them, when they open a store
    monkeypatch.setattr("logging.config.fileConfig", lambda *arguments, **options: None)
    for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    try:
        yield uri
    finally:
        _forget()
        close_stores()
        if (outbox := sys.modules.get("mlflow_ragmetrics.tracking.outbox")) is not None:
            outbox._opened.cache_clear()  # a process has one outbox, here each test has its own


@pytest.fixture(scope="session")
def mlflow_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store with its tables; creating them takes seconds, copying them no time."""
    from mlflow import MlflowClient

    quicken_mlflow()
    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def store(tmp_path: Path, mlflow_template: Path) -> Path:
    """The folder of a store of its own, with its database and artifacts."""
    import mlflow

    folder = tmp_path / "store"
    folder.mkdir()
    shutil.copyfile(mlflow_template, folder / "mlflow.db")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("e", artifact_location=(folder / "files").as_uri()))
    return folder


@lru_cache
def _speaks_of_mlflow(path: Path) -> bool:
    return path.suffix == ".py" and bool(_SPEAKS_OF_MLFLOW.search(path.read_text(encoding="utf-8")))


def _copied(template: Path, folder: Path) -> str:
    path = folder / "mlflow.db"
    shutil.copyfile(template, path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("UPDATE experiments SET artifact_location = ?", [str(folder / "mlruns" / "0")])
    connection.close()
    return f"sqlite:///{path}"


def _forget() -> None:
    mlflow = sys.modules.get("mlflow")
    if mlflow is None:
        return
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri(None)
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)  # set_experiment sets it for child processes
    mlflow.tracking.fluent._active_experiment_id = None
    mlflow.clear_active_model()
    mlflow.tracing.reset()
