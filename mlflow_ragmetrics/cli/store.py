"""Where an evaluation is logged: the MLflow store, the experiment, and how to look at the run."""

from __future__ import annotations

import logging
import os
import re
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.errors import InvalidOptionError


def open_store(tracking_uri: str | None) -> None:
    """Make ``tracking_uri`` (else the environment's, else a SQLite file here) MLflow's own, and see that it answers.

    ``InvalidOptionError`` where it does not.
    """
    from mlflow_ragmetrics.cli.store import destination_of, reaching, silence_mlflow

    silence_mlflow()
    import mlflow

    destination = destination_of(tracking_uri, None)
    with reaching(destination):
        mlflow.set_tracking_uri(destination.uri)
        mlflow.MlflowClient().search_experiments(max_results=1)


_STORE = "sqlite:///mlflow.db"
_EXPERIMENT = "ragmetrics"
_SQLITE = re.compile(r"sqlite:///(?P<path>[^?]+)(?:\?.*)?")
_HALF_MADE = re.compile(
    r"no such (?:table|column)|already exists|duplicate column|out-of-date database schema|Can't locate revision"
)
_RETRIES = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


@dataclass(frozen=True)
class Destination:
    """A tracking URI and the name of an experiment there."""

    uri: str
    experiment: str

    @property
    def shown(self) -> str:
        """The URI without passwords."""
        return redact(self.uri)

    @property
    def sqlite_path(self) -> Path | None:
        """The file of a SQLite store."""
        match = _SQLITE.fullmatch(self.uri)
        return Path(match["path"]).resolve() if match else None

    @property
    def is_server(self) -> bool:
        """Whether a tracking server answers at the URI."""
        return self.uri.startswith(("http://", "https://"))

    def open(self) -> str:
        """Make the store MLflow's own and the experiment, whose id is returned, the active one; creates both.

        ``InvalidOptionError`` where the store cannot be used.
        """
        silence_mlflow()
        import mlflow

        artifacts = self._artifacts()
        with reaching(self):
            mlflow.set_tracking_uri(self.uri)
            if artifacts is not None and mlflow.get_experiment_by_name(self.experiment) is None:
                mlflow.create_experiment(self.experiment, artifact_location=artifacts)
            return str(mlflow.set_experiment(self.experiment).experiment_id)

    def command(self) -> str:
        """What to run, or which address to open, in order to look at the store."""
        if self.is_server:
            return self.shown
        if self.uri == "databricks" or self.uri.startswith("databricks://"):
            return "the workspace's Experiments page"
        return f"mlflow ui --backend-store-uri {shlex.quote(self.shown)}"

    def _artifacts(self) -> str | None:
        """Beside a SQLite file that lies elsewhere; MLflow's own choice, the working folder, fits otherwise."""
        path = self.sqlite_path
        if path is None or path.parent == Path.cwd():
            return None
        return (path.parent / "mlruns" / quote(self.experiment, safe="")).as_uri()


def destination_of(tracking_uri: str | None, experiment: str | None) -> Destination:
    """The options, else ``MLFLOW_TRACKING_URI`` and ``MLFLOW_EXPERIMENT_NAME``, else a SQLite file here."""
    return Destination(
        tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or _STORE,
        experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT,
    )


@contextmanager
def reaching(destination: Destination) -> Iterator[None]:
    """Ask the store without long retries; what it raises becomes one ``InvalidOptionError``."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    from mlflow_ragmetrics.tracking.writer import reason_of

    added = {name: value for name, value in _RETRIES.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError, ImportError, ValueError) as error:
        advice = "give another with --tracking-uri, or --no-log to only show the figures"
        if destination.sqlite_path is not None and _HALF_MADE.search(str(error)):
            advice = (
                "its tables look half made, as by a process that was killed, or are those of another MLflow; move the "
                f"file away, or run: mlflow db upgrade {destination.shown}"
            )
        if isinstance(error, ImportError) and re.match(r"postgres(ql)?://", destination.uri):
            advice = (  # SQLAlchemy 2.1 takes psycopg 3 for a PostgreSQL that names no driver
                "name the driver that you have, as in postgresql+psycopg2://…, or run: pip install 'psycopg[binary]'"
            )
        message = f"cannot use the MLflow store {destination.shown} ({reason_of(error)}); {advice}"
        raise InvalidOptionError(message, param="tracking_uri") from None
    finally:
        for name in added:
            os.environ.pop(name, None)


def silence_mlflow() -> None:
    """No migration notes, hints and links of MLflow among our own lines."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import mlflow  # sets up its loggers when it is imported, so they can only be silenced after

    for name in (mlflow.__name__, "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(mlflow|pydantic|sqlalchemy)\b.*")
