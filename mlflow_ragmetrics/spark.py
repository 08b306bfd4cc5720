"""Suites on Spark: scores as columns, the figures of a report, and a UDF.

**Rows.** ``score_spark`` is one narrow step (``MapInArrow``) that keeps the partitions. Each Python process creates the
suite once and keeps it, with its judges and their counts, for all its tasks. ``mapInPandas`` would change columns that
only pass through: with PySpark 4.3 and pandas 3.1, a double NaN becomes null, and a timestamp of the year 9999, the
usual "never", fails the job. Arrow leaves both as they are. Columns that no metric reads are not converted at all.

**A judge over the network** is asked by one task, so that ``concurrency``, ``requests_per_minute``,
``tokens_per_minute``, ``max_calls`` and ``max_cost`` hold for the whole cluster. The judge sets the pace: 600 calls per
minute are about 100 rows per minute of six calls each. ``score_spark(…, workers=4)`` uses four tasks with equal numbers
of rows; the limits then hold for each task. After a 429, only that task waits, for the requested time; after its last
attempt the row has an error. Limits last for the life of a Python process: a second action, and a task that Spark
repeats or runs speculatively, may start with new ones. If ``max_calls`` or ``max_cost`` must hold even then, cache or
write the result before you use it twice, leave ``spark.speculation`` off, and set ``spark.task.maxFailures=1``.

**Answers** are shared within a partition. With ``cache``, they are also stored in an SQLite file on each worker's disk,
and a repeated task pays nothing for the questions that its machine has asked before. **Keys** come from the environment
of driver and executors (``spark.executorEnv.OPENAI_API_KEY``).

**Judges that compute in the process** (``lexical``, local models) have no limits: every partition is a task.
"""

from __future__ import annotations

import gc
import logging
import pickle
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
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
    Column,
    item_columns,
    score_of_columns,
)
from mlflow_ragmetrics.rows.aliases import FIELD_BY_NATURE, FIELD_OF, MLFLOW_COLUMNS, accepted_name
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

__all__ = ["log_spark", "score_spark", "spark_udf", "summarize_spark"]
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
    accepted = {name: accepted_name(name) or "" for name in names if name not in mapping.values()}
    field_of = {**FIELD_BY_NATURE, **FIELD_OF}
    fields = {*mapping, *(field_of[name] for name in accepted.values() if name in field_of)}
    if "contexts" in fields or "doc_uri" in names:
        fields.add("retrieved_doc_ids")
    if not any(name in names for name in MLFLOW_COLUMNS):
        by_field: dict[str, Any] = {field: () for field in FIELDS if field in fields}
        references = by_field.pop("reference", None)
        unused = [name for name, known in accepted.items() if known not in field_of]
        row = Sample(references=None if references is None else ("",), metadata=dict.fromkeys(unused), **by_field)
        for warning in check_presence(suite.selection, [row])[1]:
            _logger.warning("%s", render(warning, suite.language))
    if any("metadata" in (*metric.definition.required, *metric.definition.optional) for metric in suite.metrics):
        return tuple(names)
    wanted = {*field_of, *_BESIDE_FIELDS, *mapping.values()}
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

    def __init__(self, suite: Suite, *, adds_id: bool = False) -> None:
        self._language = suite.language
        self._adds_id = adds_id
        self._columns: dict[str, list[Column]] = {}
        for metric in suite.metrics:
            definition = metric.definition
            judged = "judge" in definition.asks
            has_gold = "gold_doc_ids" in definition.required
            self._columns[suite.name_prefix + metric.key] = _columns(
                _1to5=definition.scaled,
                _passed=metric.threshold is not None,
                _better=metric.key in suite.selection.better,
                _support=judged,
                _judge=judged,
                _warnings=judged,
                _no_context=judged and "contexts" in (*definition.required, *definition.optional),
                _fewer_judges=judged and suite.several,
                _gold_docs=has_gold,
                _correct_docs=has_gold,
            )
        self._with_items = [*self._columns]
        for composite in suite.composites:
            self._columns[suite.name_prefix + composite.key] = _columns(
                _1to5=composite.scaled, _passed=True, _coverage=True, _warnings=True
            )
        self._diagnosis = DIAGNOSIS_COLUMNS if has_diagnoses(suite.keys) else ()
        fields: list[tuple[str, pa.DataType]] = [("id", pa.string())] if adds_id else []
        for key, columns in self._columns.items():
            fields += [(f"{key}{column.suffix}", _TYPES[column.kind]) for column in columns]
            fields += [(f"{key}_items", pa.list_(ITEM))] if key in self._with_items else []
        fields += [(f"{suite.name_prefix}{name}", pa.string()) for name in self._diagnosis]
        self.schema = pa.schema([*fields, (f"{suite.name_prefix}{NON_ANSWER}", pa.bool_())])

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """The columns of these rows."""
        arrays: list[pa.Array] = [pa.array([row.sample.id for row in rows], pa.string())] if self._adds_id else []
        for key, columns in self._columns.items():
            scores = [row.scores[key] for row in rows]
            for column in columns:
                values = list(map(column.read, scores))
                arrays.append(pa.array(plain_texts(values) if column is REASON else values, _TYPES[column.kind]))
            if key in self._with_items:
                sizes, parts = item_columns(zip(scores, (row.sample for row in rows), strict=True))
                members = [pa.array(parts[field.name], field.type) for field in ITEM]
                items = pa.StructArray.from_arrays(members, fields=list(ITEM))
                arrays.append(pa.ListArray.from_arrays(pa.array(accumulate(sizes, initial=0), pa.int32()), items))
        if self._diagnosis:
            diagnoses = [diagnose(row.scores, self._language) for row in rows]
            arrays.append(pa.array([each.cause if each else "not measured" for each in diagnoses], pa.string()))
            arrays.append(pa.array([each.reason if each else None for each in diagnoses], pa.string()))
        arrays.append(pa.array([gives_no_answer(row.sample.answer) for row in rows], pa.bool_()))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _columns(**optional: bool) -> list[Column]:
    suffixes = {"", "_status", "_reason", "_measured"} | {suffix for suffix, applies in optional.items() if applies}
    return [column for column in (*SCORE_COLUMNS, *COUNTED_COLUMNS) if column.suffix in suffixes]


_ROWS = 256


def score_batches(
    batches: Iterable[pa.RecordBatch],
    *,
    recipe: Recipe,
    columns: Mapping[str, str | None] | None,
    read: Sequence[str],
    adds_id: bool,
) -> Iterator[pa.RecordBatch]:
    """The batches of a partition as they arrive, in parts, with the new columns.

    A slow row does not delay later rows or batches. ``read`` lists the columns to read, ``columns`` maps fields to
    columns, and ``adds_id`` adds the column ``id`` before the scores.
    """
    suite = suite_of(recipe)
    score_columns = ScoreColumns(suite, adds_id=adds_id)
    parts: deque[pa.RecordBatch] = deque()

    def samples() -> Iterator[Sample]:
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS):
                part = batch.slice(start, _ROWS)
                parts.append(part)
                for record in records_of(part, read):
                    yield to_sample(record, columns)

    rows = suite.score_samples(samples())
    for first in rows:
        part = parts.popleft()
        added = score_columns.batch([first, *islice(rows, part.num_rows - 1)])
        names = [*part.schema.names, *added.schema.names]
        yield pa.RecordBatch.from_arrays([*part.columns, *added.columns], names=names)


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
    if is_remote(built):
        frame = frame.repartition(workers)
    schema = _widened(frame, _spark_schema(ScoreColumns(built, adds_id=adds_id).schema, built.ranges))
    scoring = partial(score_batches, recipe=recipe, columns=columns, read=read, adds_id=adds_id)
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

    def score(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        suite = suite_of(recipe)
        for frame in frames:
            samples = [to_sample(record, columns) for record in frame.to_dict("records")]
            yield ScoreColumns(suite).batch(list(suite.score_samples(samples))).to_pandas()

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
_READ = [column.suffix for column in (*SCORE_COLUMNS, *COUNTED_COLUMNS) if column is not REASON]
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
    errors = [f"IF(`{key}_status` = 'error', `{key}_reason`, NULL) AS `{key}_reason`" for key in keys]
    table = scored.selectExpr(*(f"`{name}`" for name in dict.fromkeys(names) if name in columns), *errors).toArrow()
    read = {
        key: {suffix: f"{key}{suffix}" for suffix in (*_READ, "_reason") if f"{key}{suffix}" in table.column_names}
        for key in keys
    }
    totals, causes, group_names = Totals(keys=keys), list[str](), list[str]()
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for record in batch.to_pylist():
            name = str(record.get(groups) or "").strip()
            group_names.append(name or f"\0row {totals.rows}")
            causes += [record[diagnosis]] if diagnosis is not None else []
            scores: dict[str, Score] = {}
            for key, names_of in read.items():
                values = {suffix: record[name] for suffix, name in names_of.items() if record[name] is not None}
                scores[key] = score_of_columns(values)
            answer = "" if record.get(silent) else None
            totals.add(Row(Sample(id=str(record.get("id") or ""), answer=answer), scores))
    counted = count_causes(causes) if causes else {}
    known = {field.name: field.metadata.get(RANGE) for field in scored.schema.fields}
    ranges = {name: (float(ends[0]), float(ends[1])) for name, ends in known.items() if ends}
    figures = totals.figures(None if groups is None else group_names, ranges) | cause_figures(counted)
    totals.kept_all = False
    summary = Evaluation((), {"language": language}, ranges=ranges, counted=totals)
    vars(summary).update(metrics=figures, _causes=counted)
    return summary


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
    built = Suite.of(suite, **options)
    summary = summarize_spark(scored, groups=built.groups, language=built.language)
    described = {**built.describe(), "n_rows": len(summary), "ragmetrics_version": __version__}
    described |= {} if built.groups is None else {"groups": built.groups}
    about = {"suite": described, "warnings": summary.banner, "usage": {}}
    return log_findings(
        run_id,
        run_name,
        texts={FIGURES: as_json(figures_of(summary), indent=2), SUITE: redact(as_json(about, indent=2))},
        metrics=run_metrics_of(summary),
        params={name: described[name] for name in ("suite", "judge")},
        status=status_of(summary.incomplete, summary.partial),
    )
