"""Adds scores as columns to a Spark DataFrame, computed on the workers.

Summarises and logs the figures of scored rows from the driver.
"""

from __future__ import annotations

import gc
import logging
import pickle
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from typing_extensions import Unpack

from mlflow_ragmetrics import __version__
from mlflow_ragmetrics.core.options import check_count
from mlflow_ragmetrics.core.safe_text import as_json, plain_texts, redact
from mlflow_ragmetrics.core.score import FIELDS, Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.figures import Totals
from mlflow_ragmetrics.results.marks import cause_figures, count_causes, diagnose, has_diagnoses
from mlflow_ragmetrics.results.tables import (
    COUNTED_COLUMNS,
    DIAGNOSIS,
    DIAGNOSIS_COLUMNS,
    REASON,
    SCORE_COLUMNS,
    item_columns,
    score_of_columns,
)
from mlflow_ragmetrics.rows.aliases import (
    ALIASES_BY_NATURE,
    FIELD_OF,
    MLFLOW_COLUMNS,
    RECORD_NAMES,
    accepted_name,
)
from mlflow_ragmetrics.rows.record import check_columns, to_sample
from mlflow_ragmetrics.selection import check_presence
from mlflow_ragmetrics.suite import Suite, SuiteLike, SuiteOverrides, is_suite_file
from mlflow_ragmetrics.suite_file import read_yaml
from mlflow_ragmetrics.text.messages import render
from mlflow_ragmetrics.text.non_answers import gives_no_answer
from mlflow_ragmetrics.tracking.log import figures_of, log_findings, run_metrics_of
from mlflow_ragmetrics.tracking.run import status_of
from mlflow_ragmetrics.tracking.writer import FIGURES, SUITE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_logger = logging.getLogger(__name__)
RANGE = "range"
_BESIDE_FIELDS = (*MLFLOW_COLUMNS, "metadata", "doc_uri")
TEXTS = pa.list_(pa.string())
EVIDENCE = pa.struct({"chunk": pa.int32(), "id": pa.string(), "quote": pa.string()})
ITEM = pa.struct(
    {
        "kind": pa.string(),
        "text": pa.string(),
        "verdict": pa.string(),
        "against": pa.string(),
        "reason": pa.string(),
        "support": pa.float64(),
        "judge": pa.string(),
        "evidence": pa.list_(EVIDENCE),
        "unbacked": TEXTS,
    }
)
_TYPES = {"number": pa.float64(), "count": pa.int32(), "truth": pa.bool_(), "text": pa.string(), "texts": TEXTS}
_ABSENT = Score()
NON_ANSWER = "non_answer"


@dataclass(frozen=True)
class Recipe:
    """The arguments of ``Suite.of``, sent to the workers.

    A recipe equals only its copies, so that each recipe has its own limits.
    """

    suite: Any = field(compare=False)
    options: Mapping[str, Any] = field(compare=False)
    token: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def of(cls, suite: SuiteLike, options: SuiteOverrides) -> Recipe:
        """The recipe for ``suite``; ``InvalidOptionError`` for a ``Suite`` and other open connections."""
        if isinstance(suite, Suite):
            message = "a Suite cannot be sent to Spark's workers; give its YAML file, a preset, or metrics and options"
            raise InvalidOptionError(message, param="suite")
        what: Any = suite
        if isinstance(suite, (str, Path)) and is_suite_file(suite):
            Suite.of(suite, **options)  # raises if the file is invalid
            what, folder = read_yaml(Path(suite)), Path(suite).parent.absolute()
            what |= {name: str(folder / what[name]) for name in ("prompts", "cache") if what.get(name)}
        elif isinstance(suite, Iterable) and not isinstance(suite, (str, Mapping)):
            what = list(suite)
        recipe = cls(what, options)
        try:
            from pyspark import cloudpickle

            cloudpickle.dumps(recipe)
        except ImportError as error:
            raise MissingExtraError("score_spark needs PySpark 4: pip install 'mlflow_ragmetrics[spark]'.") from error
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            message = f"the suite cannot be sent to Spark's workers ({error}); name its judges and embeddings by URI"
            raise InvalidOptionError(message, param="judge") from error
        return recipe

    def build(self) -> Suite:
        """Build the suite."""
        return Suite.of(self.suite, **self.options)


@lru_cache(maxsize=4)
def suite_of(recipe: Recipe) -> Suite:
    """The suite of a recipe, built once per Python process."""
    suite = recipe.build()
    gc.freeze()  # repeated garbage collection of loaded modules would take a seventh of the time
    return suite


def is_remote(suite: Suite) -> bool:
    """Whether the suite uses models over a network."""
    services = {who for metric in suite.metrics for who in metric.definition.asks}
    judges = [judge.local for judge in suite.judges] if "judge" in services else []
    embeddings = [embedding.local for embedding in suite.embeddings] if "embeddings" in services else []
    return not all([*judges, *embeddings])


def columns_read(suite: Suite, names: Collection[str], columns: Mapping[str, str | None] | None) -> tuple[str, ...]:
    """The columns in ``names`` that the suite's metrics may read; warns of metrics that lack a field.

    Raises:
        InvalidOptionError: (``param="columns"``) for a mapping to a missing column, or a repeated column name.
        MissingFieldError: if an explicitly named metric needs a field that no column has.
    """
    mapping = check_columns(columns or {}, names)
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise InvalidOptionError(f"the frame has two columns {repeated!r}; rename or drop one", param="columns")
    accepted = {name: accepted_name(name) for name in names if name not in mapping.values()}
    fields = {*mapping, *(FIELD_OF[name] for name in accepted.values() if name is not None and name in FIELD_OF)}
    fields.update(field for field, aliases in ALIASES_BY_NATURE.items() if not {*aliases}.isdisjoint(accepted.values()))
    if "contexts" in fields or "doc_uri" in names:
        fields.add("retrieved_doc_ids")
    if not any(name in names for name in MLFLOW_COLUMNS):
        by_field: dict[str, Any] = {field: () for field in FIELDS if field in fields}
        references = by_field.pop("reference", None)
        unused = [name for name, known in accepted.items() if known not in RECORD_NAMES]
        row = Sample(references=None if references is None else ("",), metadata=dict.fromkeys(unused), **by_field)
        for warning in check_presence(suite.selection, [row])[1]:
            _logger.warning("%s", render(warning, suite.language))
    if any("metadata" in (*metric.definition.required, *metric.definition.optional) for metric in suite.metrics):
        return tuple(names)
    wanted = {*RECORD_NAMES, *_BESIDE_FIELDS, *mapping.values()}
    return tuple(name for name in names if name in wanted or accepted.get(name) in wanted)


def records_of(batch: pa.RecordBatch, names: Collection[str]) -> list[dict[str, Any]]:
    """One mapping per row, with the columns ``names``; an unreadable value is replaced by its error."""
    part = batch.select(list(names))
    try:
        return part.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]
    except (OverflowError, ValueError, KeyError):  # such as bytes that are not UTF-8, or a time after the year 9999
        columns = [list(map(_value, column)) for column in part.columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py(maps_as_pydicts="strict")
    except (OverflowError, ValueError, KeyError) as error:
        return error


class ScoreColumns:
    """The columns of a suite's scores.

    Each key has ``<key>`` (null if not scored), ``<key>_status``, ``<key>_reason`` and ``<key>_measured``, and, if they
    apply to the metric, ``<key>_1to5``, ``<key>_passed``, ``<key>_better``, ``<key>_support``, ``<key>_judge``,
    ``<key>_no_context``, ``<key>_warnings`` (codes), ``<key>_fewer_judges`` (not all judges of a panel answered),
    ``<key>_gold_docs`` and ``<key>_correct_docs`` (counts), ``<key>_coverage``, and ``<key>_items``, lists of structs.
    Suites with the metrics for a diagnosis have ``diagnosis`` and ``diagnosis_reason``. The last column is
    ``non_answer``: whether the answer is blank, a refusal or an error text. The suite's prefix precedes all names.
    """

    def __init__(self, suite: Suite) -> None:
        self._prefix = suite.name_prefix
        self._language = suite.language
        self._diagnosis = [f"{self._prefix}{name}" for name in DIAGNOSIS_COLUMNS] if has_diagnoses(suite.keys) else []
        self._keys: dict[str, set[str]] = {}
        for metric in suite.metrics:
            definition = metric.definition
            fields = (*definition.required, *definition.optional)
            judged = "judge" in definition.asks
            self._keys[self._prefix + metric.key] = _suffixes(
                _1to5=definition.scaled,
                _passed=metric.threshold is not None,
                _better=metric.key in suite.selection.better,
                _support=judged,
                _judge=judged,
                _warnings=judged,
                _no_context=judged and "contexts" in fields,
                _fewer_judges=judged and suite.several,
                _gold_docs="gold_doc_ids" in definition.required,
                _correct_docs="gold_doc_ids" in definition.required,
                _items=True,
            )
        for composite in suite.composites:
            self._keys[self._prefix + composite.key] = _suffixes(
                _1to5=composite.scaled, _passed=True, _coverage=True, _warnings=True
            )

    @property
    def schema(self) -> pa.Schema:
        """Names and types."""
        fields: list[tuple[str, pa.DataType]] = []
        for key, suffixes in self._keys.items():
            fields += [(f"{key}{column.suffix}", _TYPES[column.kind]) for column in _columns(suffixes)]
            fields += [(f"{key}_items", pa.list_(ITEM))] if "_items" in suffixes else []
        fields += [(name, pa.string()) for name in self._diagnosis]
        return pa.schema([*fields, (f"{self._prefix}{NON_ANSWER}", pa.bool_())])

    def arrays(self, rows: Sequence[Row]) -> list[pa.Array]:
        """One array per column, in the order of ``schema``."""
        arrays: list[pa.Array] = []
        for key, suffixes in self._keys.items():
            scores = [row.scores.get(key, _ABSENT) for row in rows]
            for column in _columns(suffixes):
                values = list(map(column.read, scores))
                arrays.append(pa.array(plain_texts(values) if column is REASON else values, _TYPES[column.kind]))
            if "_items" in suffixes:
                arrays.append(_items(scores, rows))
        if self._diagnosis:
            diagnoses = [diagnose(row.scores, self._language) for row in rows]
            arrays.append(pa.array(["not measured" if each is None else each.cause for each in diagnoses], pa.string()))
            arrays.append(pa.array([None if each is None else each.reason for each in diagnoses], pa.string()))
        return [*arrays, pa.array([gives_no_answer(row.sample.answer) for row in rows], pa.bool_())]


def _suffixes(**optional: bool) -> set[str]:
    return {"", "_status", "_reason", "_measured"} | {suffix for suffix, is_there in optional.items() if is_there}


def _columns(suffixes: set[str]) -> list[Any]:
    return [column for column in (*SCORE_COLUMNS, *COUNTED_COLUMNS) if column.suffix in suffixes]


def _items(scores: Sequence[Score], rows: Sequence[Row]) -> pa.Array:
    """The items of each score as structs; ``rows`` supply the passages that unsupported items were checked against."""
    sizes, columns = item_columns(zip(scores, (row.sample for row in rows), strict=True))
    members = pa.StructArray.from_arrays([pa.array(columns[each.name], each.type) for each in ITEM], fields=list(ITEM))
    return pa.ListArray.from_arrays(pa.array(accumulate(sizes, initial=0), pa.int32()), members)


_ROWS = 256


@dataclass(frozen=True)
class Scoring:
    """Scores the batches of a partition as they arrive; a slow row does not delay later rows or batches.

    ``read`` lists the columns to read, ``columns`` maps fields to columns, and ``adds_id`` adds the column ``id``
    before the scores.
    """

    recipe: Recipe
    columns: Mapping[str, str | None] | None
    read: Sequence[str]
    adds_id: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, in parts, with the new columns."""
        suite = suite_of(self.recipe)
        columns = ScoreColumns(suite)
        parts: deque[pa.RecordBatch] = deque()
        rows = suite.score_samples(self._samples(batches, parts))
        for first in rows:
            part = parts.popleft()
            added = self.added([first, *islice(rows, part.num_rows - 1)], columns)
            arrays, names = [*part.columns, *added.columns], [*part.schema.names, *added.schema.names]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def score(self, records: Iterable[Mapping[Any, Any]]) -> pa.RecordBatch:
        """The new columns of these records."""
        suite = suite_of(self.recipe)
        rows = list(suite.score_samples(to_sample(record, self.columns) for record in records))
        return self.added(rows, ScoreColumns(suite))

    def added(self, rows: Sequence[Row], columns: ScoreColumns) -> pa.RecordBatch:
        """The new columns of scored rows."""
        ids = [pa.array([row.sample.id for row in rows], pa.string())] if self.adds_id else []
        return pa.RecordBatch.from_arrays([*ids, *columns.arrays(rows)], schema=self.schema(columns))

    def schema(self, columns: ScoreColumns) -> pa.Schema:
        """Names and types of the new columns."""
        return columns.schema.insert(0, pa.field("id", pa.string())) if self.adds_id else columns.schema

    def _samples(self, batches: Iterable[pa.RecordBatch], parts: deque[pa.RecordBatch]) -> Iterator[Sample]:
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS):
                part = batch.slice(start, _ROWS)
                parts.append(part)
                for record in records_of(part, self.read):
                    yield to_sample(record, self.columns)


def score_spark(
    frame: DataFrame,
    suite: SuiteLike,
    *,
    columns: Mapping[str, str | None] | None = None,
    workers: int = 1,
    **options: Unpack[SuiteOverrides],
) -> DataFrame:
    """``frame`` with the columns of ``ScoreColumns``: values, reasons, and items as arrays of structs.

    ``suite`` is a YAML file's path or content, a preset's name, or metrics. ``options`` are those of ``Suite``. Models
    over a network are asked by ``workers`` parallel tasks; each has all limits (``concurrency``, ``max_calls``, …).
    ``columns`` maps sample fields to columns. A frame without ids gets the column ``id``, computed from question and
    reference. A row that cannot be scored has the status ``error`` and the reason in ``<key>_reason``; the job
    continues. Rows are scored by each action on the result, so ``cache()`` or write it before you use it twice.

    Raises:
        InvalidOptionError: for an invalid suite or mapping, or if a new column already exists.
        MissingFieldError: if an explicitly named metric needs a field that no column has.
    """
    check_count("workers", workers)
    recipe = Recipe.of(suite, options)
    built = recipe.build()
    read = columns_read(built, frame.columns, columns)
    adds_id = "id" not in (columns or ()) and not any(
        FIELD_OF.get(accepted_name(name) or "") == "id" for name in frame.columns
    )
    scoring = Scoring(recipe, columns, read, adds_id)
    if is_remote(built):
        frame = frame.repartition(workers)
    schema = _widened(frame, _spark_schema(scoring.schema(ScoreColumns(built)), built.ranges))
    return frame.mapInArrow(scoring, schema)


def spark_udf(
    suite: SuiteLike,
    *,
    columns: Mapping[str, str | None] | None = None,
    **options: Unpack[SuiteOverrides],
) -> Any:
    """A pandas UDF from a struct of a row's columns to a struct of scores: ``frame.select(udf(struct("*")))``.

    For SQL, register it with ``spark.udf.register("ragmetrics", udf)``. Each task has all limits (``concurrency``,
    ``max_calls``, …), and a UDF cannot choose the number of tasks.
    """
    recipe = Recipe.of(suite, options)
    built = recipe.build()
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    scoring = Scoring(recipe, columns, (), False)

    def score(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield scoring.score(frame.to_dict("records")).to_pandas()

    score.__annotations__ = {"frames": Iterator[pd.DataFrame], "return": Iterator[pd.DataFrame]}
    return pandas_udf(score, _spark_schema(ScoreColumns(built).schema, {}))  # Spark 4.3 refuses metadata here


def _widened(frame: DataFrame, added: StructType) -> StructType:
    """The frame's schema with the new columns; ``InvalidOptionError`` if one exists, ignoring case."""
    from pyspark.sql.types import StructType

    there = {name.lower(): name for name in frame.columns}
    taken = next((there[name.lower()] for name in added.names if name.lower() in there), None)
    if taken is not None:
        message = f"the frame already has a column {taken!r}; drop it, or give the suite a name_prefix"
        raise InvalidOptionError(message, param="name_prefix")
    return StructType([*frame.schema.fields, *added.fields])


def _spark_schema(schema: pa.Schema, ranges: Mapping[str, tuple[float, float]]) -> StructType:
    """The schema for Spark, with value ranges in the columns' metadata."""
    from pyspark.sql.pandas.types import from_arrow_schema

    spark_schema = from_arrow_schema(schema)
    for column in spark_schema.fields:
        column.metadata = {RANGE: list(map(str, ranges[column.name]))} if column.name in ranges else {}
    return spark_schema


_NEEDED = ("_status", "_reason", "_measured")
_READ = (
    *("", "_status", "_measured", "_1to5", "_passed", "_coverage", "_no_context", "_warnings", "_fewer_judges"),
    *("_judge", "_gold_docs", "_correct_docs", "_better"),
)
_ROWS_AT_ONCE = 1000


def summarize_spark(scored: DataFrame, *, groups: str | None = None, language: str = "en") -> Evaluation:
    """The figures of a frame from ``score_spark``, with warnings and gates, as an evaluation without rows.

    ``metrics`` has the names and values of ``Report.metrics``. ``banner`` lists failures and unmeasured rows in
    ``language``. ``check(faithfulness=0.8)`` raises ``GateError``, like a report. ``groups`` is a column with a shared
    value for related rows, such as the turns of a conversation; intervals are then computed over groups.

    The score columns are collected to the driver, without texts except errors. A score takes about 30 bytes, so a
    ``spark.driver.maxResultSize`` of 1 GB is enough for ten metrics on 3,000,000 rows. Only a report has the agreement
    of judges. Raises ``InvalidOptionError`` for a frame without scores or without the column ``groups``.
    """
    from pyspark.sql import functions as f

    columns = scored.columns
    keys = [name for name in columns if {f"{name}{suffix}" for suffix in _NEEDED} <= {*columns}]
    if not keys:
        raise InvalidOptionError("the frame has no scores; pass the result of score_spark", param="scored")
    if groups is not None and groups not in columns:
        message = f"groups: the frame has no column {groups!r}; its columns are {', '.join(columns)}"
        raise InvalidOptionError(message, param="groups")
    diagnosis = next((each for each in columns if each.endswith(DIAGNOSIS) and f"{each}_reason" in columns), None)
    silent = next((column for column in columns if column.endswith(NON_ANSWER)), None)
    names = [f"{key}{suffix}" for key in keys for suffix in _READ] + ["id", groups, diagnosis, silent]
    errors = [f.when(f.col(f"`{key}_status`") == "error", f.col(f"`{key}_reason`")) for key in keys]
    table = scored.select(
        *(f.col(f"`{name}`") for name in dict.fromkeys(names) if name in columns),
        *(error.alias(f"{key}_reason") for key, error in zip(keys, errors, strict=True)),
    ).toArrow()
    read = {key: [name for name in (*_READ, "_reason") if f"{key}{name}" in table.column_names] for key in keys}
    totals, causes, group_names = Totals(keys=keys), Counter[str](), list[str]()
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for record in batch.to_pylist():
            name = str(record.get(groups) or "").strip()
            group_names.append(name or f"\0row {totals.rows}")
            causes.update([record[diagnosis]] if diagnosis is not None else [])
            scores = {key: score_of_columns(_values(record, key, read[key])) for key in keys}
            answer = "" if record.get(silent) else None
            totals.add(Row(Sample(id=str(record.get("id") or ""), answer=answer), scores))
    counted = count_causes(causes.elements()) if causes else {}
    known = {field.name: field.metadata.get(RANGE) for field in scored.schema.fields}
    ranges = {name: (float(ends[0]), float(ends[1])) for name, ends in known.items() if ends}
    figures = totals.figures(None if groups is None else group_names, ranges) | cause_figures(counted)
    totals.kept_all = False
    summary = Evaluation((), {"language": language}, ranges=ranges, counted=totals)
    vars(summary).update(metrics=figures, _causes=counted)
    return summary


def _values(record: Mapping[str, Any], key: str, suffixes: Sequence[str]) -> dict[str, Any]:
    values = {suffix: record[f"{key}{suffix}"] for suffix in suffixes}
    return {suffix: value for suffix, value in values.items() if value is not None}


def log_spark(
    scored: DataFrame,
    suite: SuiteLike,
    *,
    run_id: str | None = None,
    run_name: str | None = None,
    **options: Unpack[SuiteOverrides],
) -> str:
    """Log the figures of ``scored`` and the suite's description to an MLflow run; returns the run's id.

    Pass the same ``suite`` and ``options``, including ``groups``, as to ``score_spark``. The run is ``run_id``, else
    the active run, else a new run. The run metrics are those of ``Report.log``. All figures are in the artifact
    ``rag_figures.json``, and the warnings in ``ragmetrics_suite.json``. If no judge answered, the tag
    ``ragmetrics.status`` has the reason, and a run created here ends FAILED.
    """
    built = Recipe.of(suite, options).build()
    summary = summarize_spark(scored, groups=built.groups, language=built.language)
    grouped = {} if built.groups is None else {"groups": built.groups}
    described = {**built.describe(), **grouped, "n_rows": len(summary), "ragmetrics_version": __version__}
    about = {"suite": described, "warnings": summary.banner, "usage": {}}
    return log_findings(
        run_id,
        run_name,
        texts={FIGURES: as_json(figures_of(summary), indent=2), SUITE: redact(as_json(about, indent=2))},
        metrics=run_metrics_of(summary),
        params={name: described[name] for name in ("suite", "judge")},
        status=status_of(summary.incomplete, summary.partial),
    )
