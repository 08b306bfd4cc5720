"""Reads an evaluation back from a file or an MLflow run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.core.score import Item, Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.marks import Diagnosis
from mlflow_ragmetrics.results.pairing import weights_in
from mlflow_ragmetrics.results.tables import (
    DIAGNOSIS_COLUMNS,
    ITEM_COLUMNS,
    KEY,
    SCORE_COLUMNS,
    score_in,
    score_keys,
    score_of_columns,
    typed,
    value_of,
)
from mlflow_ragmetrics.rows.data import Groups, groups_of, with_ids
from mlflow_ragmetrics.rows.files import SUITE_SUFFIX, extension_of, read_file
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.rows.trace_records import SESSION, record_of_trace
from mlflow_ragmetrics.rows.values import as_number, is_missing

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Assessment, Run, Trace


Source = Union[Evaluation, str, Path]
_ROWS, _ITEMS, _SUITE = "rag_rows.json", "rag_claims.json", "ragmetrics_suite.json"
SUITE_METADATA = b"ragmetrics_suite"
_SOURCE_RUN = "mlflow.assessment.sourceRunId"
_RUN_ID = re.compile("[0-9a-f]{32}")


def stored(
    name: str,
    table: pd.DataFrame,
    items: pd.DataFrame,
    description: Mapping[str, Any] | None = None,
    run_id: str | None = None,
) -> Evaluation:
    """The evaluation with these tables; its rows are made when they are asked for.

    Tables have no mark of rows without contexts: this figure is the run's alone.
    """
    evaluation = Evaluation(_StoredRows(table, items, description or {}), description or {})
    keys, diagnosed = score_keys(table), {*DIAGNOSIS_COLUMNS} <= {*table.columns}
    causes = table[[*DIAGNOSIS_COLUMNS]].astype(object).fillna("").astype(str) if diagnosed else None
    vars(evaluation).update(
        _name=name,
        table=table,
        items=items,
        keys=keys,
        diagnoses=[] if causes is None else [Diagnosis(*values) for values in causes.itertuples(index=False)],
        _run_id=run_id,
    )
    return evaluation


def results_of(source: Source, name: str = "") -> Evaluation:
    """Read the evaluation ``source``: a report, a run's id or name, or a file from ``ragmetrics evaluate --output``.

    ``name``: the name of a report. Raises ``InvalidDataError`` if ``source`` is not found.
    """
    if isinstance(source, (str, Path)):
        return _from_file(Path(source)) if is_file(source) else _from_run(found_run(str(source)))
    results: object = source
    if not isinstance(results, Evaluation):
        message = f"{type(results).__name__} is not an evaluation; give a Report, a run's id or name, or a file of rows"
        raise InvalidDataError(message)
    return results.named(name) if name and "_name" not in vars(results) else results


def is_file(source: Union[str, Path]) -> bool:
    """Whether ``source`` is a file, by its type or extension, and not an MLflow run."""
    return isinstance(source, Path) or extension_of(source) is not None


def found_run(text: str) -> Run:
    """The run with this id or name; ``InvalidDataError`` if there is none or more than one."""
    import mlflow

    client, store = mlflow.MlflowClient(), redact(mlflow.get_tracking_uri())
    if _RUN_ID.fullmatch(text):
        try:
            return client.get_run(text)
        except mlflow.exceptions.MlflowException as error:
            raise InvalidDataError(f"there is no run {text} at {store}") from error
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    named = "attributes.run_name = '{}'".format(text.replace("'", "''"))
    runs = client.search_runs(experiments, named, max_results=2, order_by=["start_time DESC"])
    if not runs:
        raise InvalidDataError(f"{redact(text)!r} is neither a file of rows nor the id or name of a run at {store}")
    if len(runs) > 1:
        ids = " and ".join(run.info.run_id for run in runs)
        raise InvalidDataError(f"several runs are named {redact(text)!r}, such as {ids}; give an id")
    return runs[0]


def _from_run(run: Run) -> Evaluation:
    from mlflow import MlflowClient, artifacts
    from mlflow.exceptions import MlflowException

    run_id = run.info.run_id
    try:
        if _ROWS not in {artifact.path for artifact in MlflowClient().list_artifacts(run_id)}:
            return _from_traces(run)
        texts = {name: artifacts.load_text(f"runs:/{run_id}/{name}") for name in (_ROWS, _ITEMS, _SUITE)}
    except (MlflowException, OSError) as error:  # its traces may lack rows: they do not replace its tables
        raise InvalidDataError(f"the tables of run {run_id} cannot be read: {redact(str(error))}") from error
    about = json.loads(texts[_SUITE])
    large = about.get("large_tables", ())
    table, items = (_table(run_id, name, texts[name], name in large) for name in (_ROWS, _ITEMS))
    suite = about.get("suite", about)
    if suite.get("n_rows", len(table)) != len(table):
        raise InvalidDataError(
            f"the tables of run {run_id} lack rows: a process ended while it wrote them; log it again"
        )
    return stored(run.info.run_name or run_id, table, items, suite, run_id)


def _from_traces(run: Run) -> Evaluation:
    """Read a run without tables from the scores on the traces that were evaluated in it, in time order.

    A score that another row has and the trace lacks is an error: MLflow lost it, or the scorer failed.
    """
    from mlflow import artifacts, search_traces
    from mlflow.exceptions import MlflowException

    run_id, experiments = run.info.run_id, [run.info.experiment_id]
    name = str(run.info.run_name or run_id)
    traces: list[Trace] = search_traces(locations=experiments, run_id=run_id, return_type="list")
    evaluated = {trace.info.trace_id: trace for trace in traces if _assessed(trace, run_id)}
    in_order = sorted(evaluated.values(), key=lambda trace: trace.info.request_time)
    scores = [_scores(trace, run_id) for trace in in_order]
    absent = {key: _ABSENT for row in scores for key in row}
    if not absent:
        message = f"run {name} ({run_id}) has neither {_ROWS} nor traces with scores"
        raise InvalidDataError(f"{message}; evaluate its rows, or use scorers that return numbers or yes and no")
    judges = sorted({score.judge for row in scores for score in row.values() if score.judge is not None})
    description: dict[str, Any] = {"judge": judges}
    with suppress(MlflowException, OSError):
        description |= artifacts.load_dict(f"runs:/{run_id}/{_SUITE}")["suite"]
    samples = with_ids(to_sample(record_of_trace(trace)) for trace in in_order)
    rows = enumerate(zip(samples, scores, strict=True))
    evaluation = Evaluation([Row(sample, absent | of_trace, place) for place, (sample, of_trace) in rows], description)
    vars(evaluation).update(_name=name, _run_id=run_id)
    return evaluation


_ABSENT = Score(status="error", error="InvalidDataError: the trace has no score for this metric")


def _assessed(trace: Trace, run_id: str) -> list[Assessment]:
    """The valid assessments that ``run`` wrote, of any scorer."""
    valid = [assessment for assessment in trace.info.assessments if assessment.valid is not False]
    return [assessment for assessment in valid if (assessment.metadata or {}).get(_SOURCE_RUN, run_id) == run_id]


def _scores(trace: Trace, run_id: str) -> dict[str, Score]:
    """The scores by key; of two with one name, this package's is kept."""
    assessments = [(assessment, assessment.metadata or {}) for assessment in _assessed(trace, run_id)]
    others = {assessment.name: _score_of_others(assessment) for assessment, data in assessments if KEY not in data}
    ours = {data[KEY]: score_in(data) for _, data in assessments if KEY in data}
    return {key: score for key, score in (others | ours).items() if score is not None and "label" not in score.details}


def _score_of_others(given: Assessment) -> Score | None:
    """The score of another package's scorer; ``None`` for human feedback and for words other than yes or no."""
    if given.feedback is None or given.source.source_type == "HUMAN":
        return None
    reason, judge = given.rationale or "", given.source.source_id
    if given.error is not None:
        error = f"{given.error.error_code}: {given.error.error_message}"
        return Score(status="error", error=error, reason=reason, judge=judge)
    try:
        value = as_number(given.feedback.value)
    except InvalidDataError:
        return None
    return Score(value=value, status="skipped" if value is None else "ok", reason=reason, judge=judge)


def _table(run_id: str, name: str, head: str, is_large: bool) -> pd.DataFrame:
    """Read the table ``name`` of a run. All rows of a large table are in a Parquet file, the first ones in ``head``."""
    import pandas as pd
    from mlflow import artifacts

    if not is_large:
        content = json.loads(head)
        return typed(pd.DataFrame(content["data"], columns=content["columns"]))
    with TemporaryDirectory() as folder:
        place = str(Path(name).with_suffix(".parquet"))
        return read_table(Path(artifacts.download_artifacts(run_id=run_id, artifact_path=place, dst_path=folder)))


def read_table(path: Path) -> pd.DataFrame:
    """Read a file of rows as a frame with typed scores; ``InvalidDataError`` if it cannot be read."""
    import pandas as pd

    return typed(pd.DataFrame(list(read_file(path))))


def _from_file(path: Path) -> Evaluation:
    import pandas as pd

    table = read_table(path)
    columns = [table[name] for name in table.columns if str(name).endswith("_judge")]
    judges = {name for column in columns for name in column if isinstance(name, str) and name}
    description = _suite_of(path) or ({"judge": sorted(judges)} if judges else {})
    results = stored(path.stem, table, pd.DataFrame(columns=ITEM_COLUMNS), description)
    if not results.keys:
        message = f"{path.name} has no scores; write it with ragmetrics evaluate --output {path.name}"
        raise InvalidDataError(message)
    return results


def suite_file(path: Path) -> Path:
    """The file beside a file of rows that describes its suite; a Parquet file has ``SUITE_METADATA`` instead."""
    return path.with_name(f"{path.name}{SUITE_SUFFIX}")


def _suite_of(path: Path) -> dict[str, Any]:
    """The suite that a file of rows was made with; empty if it is not recorded, or the file was changed since."""
    beside = suite_file(path)
    try:
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet as pq

            return dict(json.loads((pq.read_schema(path).metadata or {}).get(SUITE_METADATA, b"{}")))
        about = json.loads(beside.read_bytes()) if beside.is_file() else {}
        return dict(about["suite"]) if about.get("bytes") == path.stat().st_size else {}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidDataError(f"the suite of {path.name} cannot be read; delete {beside.name} if it exists") from error


def stored_samples(results: Evaluation) -> list[Sample]:
    """The scored samples without columns added by the evaluation; ``InvalidDataError`` without answers."""
    if "answer" not in results.table.columns:
        raise InvalidDataError(f"{results.name} has no answers to score again")
    return [row.sample for row in results.rows]


class _StoredRows(Sequence[Row]):
    """Rows rebuilt from tables: values, reasons, items and evidence."""

    def __init__(self, table: pd.DataFrame, items: pd.DataFrame, description: Mapping[str, Any]) -> None:
        self._table, self._items, self._description = table, items, description

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    @cached_property
    def _rows(self) -> list[Row]:
        items: dict[tuple[str, str], list[Item]] = {}
        for record in self._items.to_dict("records"):
            items.setdefault((str(record["id"]), str(record["metric"])), []).append(value_of(Item, _known(record)))
        thresholds = self._description.get("thresholds") or {}
        judges = ", ".join(map(str, self._description.get("judge") or ())) or None
        keys = score_keys(self._table)
        weights = {key: shares for key in keys if (shares := weights_in(self._description, key))}
        rows = []
        for place, record in enumerate(self._table.to_dict("records")):
            row = Row(_sample(record, keys), {}, place)
            for key in keys:
                values = _known({column.suffix: record.get(f"{key}{column.suffix}") for column in SCORE_COLUMNS})
                if "_status" in values:
                    own_items = items.get((row.sample.id, key), [])
                    judge = judges if own_items else None
                    row.scores[key] = score_of_columns(
                        values, threshold=thresholds.get(key), items=own_items, judge=judge
                    )
            for key, shares in weights.items():
                present = [share for name, share in shares.items() if row.scores.get(name, _ABSENT).measured]
                if key in row.scores:
                    coverage = sum(present) / sum(shares.values())
                    row.scores[key] = row.scores[key].with_details(coverage=coverage)
            rows.append(row)
        return rows


def _sample(record: Mapping[Any, Any], keys: Sequence[str]) -> Sample:
    added = {f"{key}{column.suffix}" for key in keys for column in SCORE_COLUMNS}
    added |= {*DIAGNOSIS_COLUMNS} if {*DIAGNOSIS_COLUMNS} <= record.keys() else set()
    panel = tuple(f"{key}_judge_" for key in keys)
    fields = {}
    for name, value in _known(record).items():
        if name not in added and not name.startswith(panel):
            given = name.removesuffix("_given")
            fields[given if given in added else name] = value
    sample = to_sample(fields)
    return sample if sample.id == str(record.get("id")) else replace(sample, id=str(record.get("id", sample.id)))


def _known(record: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in record.items() if not is_missing(value)}


def results_groups(results: Evaluation, groups: Union[Groups, None] = None) -> Union[list[str], None]:
    """The group of each row: by ``groups``, else by the evaluation's own groups, else by the sessions of its traces;
    ``None`` if there are no groups."""
    if groups is None:
        groups = results.description.get("groups") or (SESSION if SESSION in results.table.columns else None)
    return None if groups is None else groups_of(results.table, groups)
