"""Writes params, metrics, tags, files and tables to MLflow runs, within MLflow's limits."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

from mlflow_ragmetrics.core.safe_text import as_json, plain_text, redact
from mlflow_ragmetrics.engine.memory import is_out_of_memory
from mlflow_ragmetrics.errors import RagMetricsError

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, LoggedModelInput, Metric


_logger = logging.getLogger(__name__)

T = TypeVar("T")
Content = Union[str, bytes, Callable[[Path], object]]
"""A file's text or bytes, or a function that writes the file."""

ROWS = "rag_rows.json"
CLAIMS = "rag_claims.json"
SUITE = "ragmetrics_suite.json"
FIGURES = "rag_figures.json"
PAGE = "ragmetrics_report.html"
STATUS_TAG = "ragmetrics.status"
WRITER_TAG = "mlflow.ragmetrics.writer"  # the page of a run does not show tags that begin with "mlflow."
ABSENT = "RESOURCE_DOES_NOT_EXIST"
"""MLflow's error code."""
LONGEST_PARAM = 6000
_TABLES_TAG = "mlflow.loggedArtifacts"
LONGEST_TAG = 5000
_SHOWN_OTHERWISE = ("correctness", "context_sufficiency")  # MLflow's judges, shown as yes and no


def mlflow_name(name: str) -> str:
    """The name in MLflow of a metric, or of a figure such as ``correctness/mean``.

    It is ``name``, or ``rag_<name>`` for a metric that MLflow displays differently.
    """
    return f"rag_{name}" if name.partition("/")[0] in _SHOWN_OTHERWISE else name


class RunWriter:
    """Writes to the run ``run_id`` in the store ``uri``, by default MLflow's current store.

    Writing again, for example after a failure, replaces earlier data; nothing is duplicated. Errors are those of the
    store; ``explained`` converts them to a ``RagMetricsError``.
    """

    def __init__(self, run_id: str, uri: str | None = None) -> None:
        self.run_id = run_id
        self._uri = uri

    @cached_property
    def _client(self) -> MlflowClient:
        import mlflow

        return mlflow.MlflowClient(self._uri)

    def tags(self, tags: Mapping[str, object]) -> None:
        """Set tags."""
        from mlflow.entities import RunTag

        run_tags = [RunTag(name, plain_text(str(value))) for name, value in tags.items()]
        self._client.log_batch(self.run_id, tags=run_tags, synchronous=True)

    def present_tags(self) -> dict[str, str]:
        """The run's tags; raises an error if the store does not answer."""
        return dict(self._client.get_run(self.run_id).data.tags)

    def params(self, params: Mapping[str, object]) -> None:
        """Write params; for params that exist already, see ``new_params``."""
        from mlflow.entities import Param

        present = self._client.get_run(self.run_id).data.params
        fresh = [Param(name, value) for name, value in new_params(params_of(params), present).items()]
        self._client.log_batch(self.run_id, params=fresh, synchronous=True)

    def suite(self, description: Mapping[str, Any]) -> None:
        """Write suite and judge as params, and the whole ``description`` as an artifact."""
        self.params({name: description.get(name) for name in ("suite", "judge")})
        self.files({SUITE: redact(as_json({"suite": description}, indent=2))})

    def inputs(self, datasets: Sequence[DatasetInput], models: Sequence[LoggedModelInput]) -> None:
        """Link datasets and models to the run."""
        if datasets or models:
            self._client.log_inputs(self.run_id, list(datasets), list(models))

    def figures(self, figures: Mapping[str, float], step: int = 0, **about: Any) -> None:
        """Write finite figures as run metrics; ``about`` has more arguments for MLflow's ``Metric``."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        finite = {name: float(value) for name, value in figures.items() if math.isfinite(value)}
        self.metrics([Metric(name, value, now, step, **about) for name, value in finite.items()])

    def metrics(self, metrics: Sequence[Metric]) -> None:
        """Write metric points; writing a point twice has no effect."""
        self._client.log_batch(self.run_id, metrics=metrics, synchronous=True)

    def files(self, files: Mapping[str, Content], tables: Collection[str] = ()) -> None:
        """Write artifacts by name, replacing existing ones; MLflow shows those in ``tables`` as tables."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                if callable(content):
                    content(path)
                else:
                    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
            self._client.log_artifacts(self.run_id, folder)
        known = json.loads(self.present_tags().get(_TABLES_TAG, "[]")) if tables else []
        missing = [table for name in tables if (table := {"path": name, "type": "table"}) not in known]
        if missing:
            self._client.set_tag(self.run_id, _TABLES_TAG, json.dumps([*known, *missing]))

    def end(self, failure: str | None = None) -> None:
        """Mark the run as finished, or as failed with the reason ``failure``; makes few attempts."""
        if failure is not None:
            self.note_failure(failure)
        with few_attempts():
            self._client.set_terminated(self.run_id, "FINISHED" if failure is None else "FAILED")

    def note_failure(self, reason: str) -> None:
        """Tag the run with the reason of a failure; if that fails too, log a warning."""
        status = f"failed: {reason}"[:LONGEST_TAG]
        try:
            with few_attempts():
                self._client.set_tag(self.run_id, STATUS_TAG, status)
        except write_errors() as error:
            message = "run %s could not be tagged as %r: %s"
            _logger.warning(message, self.run_id, status, reason_of(error))


def this_process(number: int | None = None) -> str:
    """The name of a process, by default this one: machine, number and, if available, start time."""
    return _own_name(os.getpid()) if number is None else _process_name(number)


def _process_name(number: int) -> str:
    began = ""
    with suppress(OSError, IndexError):
        began = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{platform.node()} {number} {began}"


_own_name = lru_cache(maxsize=1)(_process_name)  # stays the same even if ``/proc`` becomes unreadable


def params_of(given: Mapping[str, object]) -> dict[str, str]:
    """Values as params: lists joined, mappings as JSON, cut to MLflow's limit, without empty values and secrets."""
    texts = {name: redact(_param(value)) for name, value in given.items()}
    return {
        name: text if len(text) <= LONGEST_PARAM else text[: LONGEST_PARAM - 1] + "…"
        for name, text in texts.items()
        if text
    }


def _param(value: object) -> str:
    if isinstance(value, Mapping):
        return as_json(value) if value else ""
    if isinstance(value, (list, tuple)):
        return plain_text(", ".join(map(str, value)))
    return "" if value is None else plain_text(str(value))


def new_params(wanted: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """The ``wanted`` params that the run does not have yet; params in MLflow cannot be changed.

    If the run has another value for a name, the param is named ``ragmetrics.<name>``.
    """
    fresh: dict[str, str] = {}
    for name, value in wanted.items():
        free = next((key for key in (name, f"ragmetrics.{name}") if present.get(key, value) == value), None)
        if free is None:
            message = f"the run already has another value for the param {name}, and MLflow cannot change params"
            warnings.warn(message, stacklevel=2)
        elif free not in present:
            fresh[free] = value
    return fresh


_LONGEST_REASON = 500
_STATEMENT = re.compile(r"(?<!\s)\s*(?:\[SQL:|\(Background on this error).*", re.DOTALL)
_UNREACHED = re.compile(
    r"API request to (?P<server>\w+://[^/\s]+)\S* failed with.*?"
    r"(?P<why>\[Errno \d+\] [\w ]+|Read timed out|Connection aborted)",
    re.DOTALL,
)
_FEW_ATTEMPTS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


def write_errors() -> tuple[type[Exception], ...]:
    """The exceptions that a store may raise."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return (MlflowException, SQLAlchemyError, OSError, ValueError, TypeError, RuntimeError, MemoryError)


def reason_of(error: BaseException) -> str:
    """The reason of an error on one line, without secrets, SQL statements and URL paths."""
    if is_out_of_memory(error):
        return "memory ran out"
    text = _STATEMENT.sub("", str(error)).strip()
    unreached = _UNREACHED.search(text)
    if unreached is not None:
        text = f"the MLflow server {unreached['server']} does not answer ({unreached['why']})"
    return redact(plain_text(" ".join(text.split()) or type(error).__name__))[:_LONGEST_REASON]


def explained(run_id: str) -> AbstractContextManager[None]:
    """Convert errors of the store to a ``RagMetricsError``."""
    return named_failure(f"cannot write to run {run_id}")


@contextmanager
def named_failure(what: str) -> Iterator[None]:
    """Convert errors of the store to a ``RagMetricsError`` that begins with ``what`` failed."""
    try:
        yield
    except RagMetricsError:
        raise
    except write_errors() as error:
        raise RagMetricsError(f"{what}: {reason_of(error)}") from error


def unless_absent(action: Callable[[], T]) -> T | None:
    """The result of ``action``; ``None`` if the store does not have what it reads or removes."""
    from mlflow.exceptions import MlflowException

    try:
        return action()
    except MlflowException as error:
        if error.error_code != ABSENT:
            raise
        return None


@contextmanager
def few_attempts() -> Iterator[None]:
    """Reduce MLflow's retries, which may take minutes, for requests after a failure."""
    added = {name: value for name, value in _FEW_ATTEMPTS.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


_LARGEST = 40 * 2**20  # characters: MLflow shows files up to 50 MB
_HEAD = 1000


def table_rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a frame, with ``None`` in empty cells."""
    columns = [column.astype(object).where(column.notna(), None) for _, column in frame.items()]
    return list(zip(*columns, strict=True))


def table_json(frame: pd.DataFrame) -> str:
    """A frame in the form of MLflow's ``log_table`` artifacts: columns, and data row by row."""
    return as_json({"columns": list(frame.columns), "data": table_rows(frame)})


def write_tables(writer: RunWriter, frames: Mapping[str, pd.DataFrame]) -> list[str]:
    """Write frames as tables by file name; returns the names of large tables.

    For a table of more than about 40 MB, MLflow shows the first 1,000 rows; all rows are in a Parquet file.
    """
    files: dict[str, Content] = {}
    large: list[str] = []
    for name, frame in frames.items():
        files[name] = head = table_json(frame.head(_HEAD))
        if len(head) * len(frame) > _LARGEST * _HEAD:
            files[str(Path(name).with_suffix(".parquet"))] = partial(storable(frame).to_parquet, index=False)
            large.append(name)
        elif len(frame) > _HEAD:
            files[name] = table_json(frame)
    writer.files(files, tables=list(frames))
    return large


def storable(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with one type per column; a column of mixed types, such as texts and lists, becomes JSON text."""
    import pyarrow as pa

    mixed: dict[Any, Any] = {}
    for name, column in frame.items():
        try:
            pa.array(column, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            mixed[name] = [value if value is None or isinstance(value, str) else as_json(value) for value in column]
    return frame.assign(**mixed) if mixed else frame


def is_alive(process: str, seen: float, silence: float = 600.0) -> bool:
    """Whether a process (a name from ``this_process``) is alive.

    Of a process on another machine, only the time when it was last ``seen`` is known: whether that was in the last
    ``silence`` seconds.
    """
    machine, _, name = process.partition(" ")
    if machine != platform.node() or os.name != "posix":
        return time.time() - seen < silence
    number, _, began = name.partition(" ")
    try:
        os.kill(int(number), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    # process numbers are reused
    return not began or this_process(int(number)).partition(" ")[2] in (f"{number} {began}", f"{number} ")
