"""Evaluations read back: from a report, from a file that one was written to, or from an MLflow run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol, Union

from mlflow_ragmetrics.core.score import Better
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.files import extension_of, read_file
from mlflow_ragmetrics.rows.schema import BETTER, DIAGNOSIS, score_keys, typed

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Run

__all__ = [
    "Results",
    "Source",
    "found_run",
    "is_file",
    "latest_results",
    "read_table",
    "results_of",
]

Source = Union["Evaluation", "Results", str, Path]
_ROWS, _ITEMS, _SUITE = "rag_rows.json", "rag_claims.json", "ragmetrics_suite.json"
_RUN_ID = re.compile("[0-9a-f]{32}")
_LATEST = re.compile(r"latest\s+(?:(?P<count>\d+|two|three)\s+)?of(?:\s+experiment)?\s+(?P<name>.+)", re.IGNORECASE)
_COUNTS = {"two": 2, "three": 3}


class Evaluation(Protocol):
    """What is read of a finished evaluation; a ``Report`` is one."""

    @property
    def source(self) -> str | Path | None: ...
    @property
    def table(self) -> pd.DataFrame: ...
    @property
    def items(self) -> pd.DataFrame: ...
    @property
    def description(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Results:
    """The tables of one evaluation as ``Report`` has them, wherever they come from."""

    name: str
    table: pd.DataFrame
    items: pd.DataFrame
    description: Mapping[str, Any] = field(default_factory=dict)
    run_id: str | None = None

    @property
    def keys(self) -> list[str]:
        """The keys of the scores: the columns that have a ``<key>_status`` beside them."""
        return score_keys(self.table)

    @property
    def composites(self) -> list[str]:
        """The keys of the weighted composites; of a file, which does not say its weights, the key of ``rag_score``."""
        weighed = self.description.get("weights") if "metrics" in self.description else ("rag_score",)
        return [key for key in self.keys if key in (weighed or ())]

    @property
    def diagnoses(self) -> dict[str, tuple[str, str]]:
        """By row id: which part failed, and the sentence that says why; empty where the metrics did not tell."""
        if not {*DIAGNOSIS} <= {*self.table.columns}:
            return {}
        found = self.table[["id", *DIAGNOSIS]].astype(object).fillna("").astype(str)
        return {name: (cause, reason) for name, cause, reason in found.itertuples(index=False)}

    def better(self, key: str) -> Better:
        """Whether a higher value of ``key`` is better, a lower one (``False``), or neither (``None``)."""
        said = self.table[f"{key}_better"].dropna() if f"{key}_better" in self.table.columns else ()
        return next((side for side, name in BETTER.items() if name in set(said)), True)


def results_of(source: Source, name: str = "") -> Results:
    """The evaluation ``source``: a report, a run's id or name, or a file written by ``ragmetrics evaluate --output``.

    ``name`` is used for one that has no name of its own. ``InvalidDataError`` where ``source`` is not found.
    """
    if isinstance(source, Results):
        return source
    if isinstance(source, (str, Path)):
        return _from_file(Path(source)) if is_file(source) else _from_run(found_run(str(source)))
    if not hasattr(source, "table") or not hasattr(source, "items"):
        message = f"{type(source).__name__} is not an evaluation; give a Report, a run's id or name, or a file of rows"
        raise InvalidDataError(message)
    stem = Path(source.source).stem if source.source is not None else ""
    return Results(name or stem or "report", source.table, source.items, source.description)


def is_file(source: Union[str, Path]) -> bool:
    """Whether ``source`` names a file, by its type or its extension, and not an MLflow run."""
    return isinstance(source, Path) or extension_of(source) is not None


def latest_results(text: str) -> list[Results] | None:
    """The runs that "latest two of experiment X" means, oldest first; ``None`` for any other text."""
    found = _LATEST.fullmatch(text.strip())
    if found is None:
        return None
    count = found["count"] or "2"
    wanted = _COUNTS.get(count.lower()) or int(count)
    runs = _evaluations(found["name"].strip().strip("'\""))[:wanted]
    if len(runs) < wanted:
        raise InvalidDataError(f"experiment {found['name']!r} has {len(runs)} evaluated runs, fewer than {wanted}")
    return [_from_run(run) for run in reversed(runs)]


def _evaluations(experiment: str) -> list[Run]:
    import mlflow

    client = mlflow.MlflowClient()
    found = client.get_experiment_by_name(experiment)
    if found is None:
        raise InvalidDataError(f"there is no experiment {experiment!r} at {redact(mlflow.get_tracking_uri())}")
    wanted = "tags.`ragmetrics.status` = 'complete'"
    return list(client.search_runs([found.experiment_id], wanted, max_results=50, order_by=["start_time DESC"]))


def found_run(text: str) -> Run:
    """The run of this id or name; ``InvalidDataError`` where there is none, or there are several."""
    import mlflow
    from mlflow.exceptions import MlflowException

    client = mlflow.MlflowClient()
    if _RUN_ID.fullmatch(text):
        try:
            return client.get_run(text)
        except MlflowException as error:
            raise InvalidDataError(f"there is no run {text} at {redact(mlflow.get_tracking_uri())}") from error
    experiments = [each.experiment_id for each in client.search_experiments()]
    quoted = text.replace("'", "''")
    runs = client.search_runs(
        experiments, f"attributes.run_name = '{quoted}'", max_results=2, order_by=["start_time DESC"]
    )
    if not runs:
        store = redact(mlflow.get_tracking_uri())
        raise InvalidDataError(f"{redact(text)!r} is neither a file of rows nor the id or name of a run at {store}")
    if len(runs) > 1:
        ids = " and ".join(run.info.run_id for run in runs)
        message = f"several runs are named {redact(text)!r}, such as {ids}; give an id"
        raise InvalidDataError(message)
    return runs[0]


def _from_run(run: Run) -> Results:
    from mlflow import artifacts
    from mlflow.exceptions import MlflowException

    run_id = run.info.run_id
    try:
        texts = {name: artifacts.load_text(f"runs:/{run_id}/{name}") for name in (_ROWS, _ITEMS, _SUITE)}
    except (MlflowException, OSError) as error:
        message = f"run {run.info.run_name} ({run_id}) has no {_ROWS}; compare runs that ragmetrics evaluated"
        raise InvalidDataError(message) from error
    about = json.loads(texts[_SUITE])
    parts = about.get("parts", {})
    table, items = (_table(run_id, name, texts[name], parts.get(name, 0)) for name in (_ROWS, _ITEMS))
    return Results(run.info.run_name or run_id, table, items, about.get("suite", about), run_id)


def _table(run_id: str, name: str, head: str, parts: int) -> pd.DataFrame:
    """The table ``name`` of a run; of a large one the head is there only, and the whole is in Parquet parts."""
    import pandas as pd
    from mlflow import artifacts

    if not parts:
        content = json.loads(head)
        return typed(pd.DataFrame(content["data"], columns=content["columns"]))
    rows: list[Any] = []
    with TemporaryDirectory() as folder:
        for number in range(parts):
            place = f"{Path(name).stem}/part-{number:05}.parquet"
            rows += read_file(artifacts.download_artifacts(run_id=run_id, artifact_path=place, dst_path=folder))
    return typed(pd.DataFrame(rows))


def read_table(path: Path) -> pd.DataFrame:
    """A file of rows as a frame, its scores with their types; ``InvalidDataError`` where it cannot be read."""
    import pandas as pd

    table = pd.DataFrame(list(read_file(path)))
    return typed(table.mask(table == "") if extension_of(path) in (".csv", ".tsv") else table)


def _from_file(path: Path) -> Results:
    import pandas as pd

    table = read_table(path)
    columns = [name for name in table.columns if str(name).endswith("_judge")]
    judges = {each for name in columns for each in table[name] if isinstance(each, str) and each}
    items = pd.DataFrame(columns=["id", "metric", "kind", "text", "verdict"])
    results = Results(path.stem, table, items, {"judge": sorted(judges)} if judges else {})
    if not results.keys:
        message = f"{path.name} holds no scores; write it with ragmetrics evaluate --output {path.name}"
        raise InvalidDataError(message)
    return results
