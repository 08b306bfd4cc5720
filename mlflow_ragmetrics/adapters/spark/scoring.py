"""Scores as columns of a Spark DataFrame, computed where its partitions are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mlflow_ragmetrics.adapters.spark.recipe import Recipe, SuiteLike, is_remote, suite_of
from mlflow_ragmetrics.core.aliases import ALIASES
from mlflow_ragmetrics.core.record import check_columns, to_sample
from mlflow_ragmetrics.core.run import Row
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError
from mlflow_ragmetrics.streaming import ScoreColumns

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["score_spark", "spark_udf"]

_ROWS = 256


def score_spark(
    frame: DataFrame,
    suite: SuiteLike,
    *,
    columns: Mapping[str, str] | None = None,
    workers: int | None = None,
    **options: Any,
) -> DataFrame:
    """``frame`` with the columns of ``streaming.ScoreColumns``: values, reasons, and items as arrays of structs.

    ``suite`` is a YAML file's path, a preset's name, or metrics; ``options`` are those of ``Suite``; ``columns`` maps
    sample fields to columns. Where there is no ``id`` column, one is added. Nothing is scored before an action asks
    for it, and each action scores again: ``cache()`` or write the result before using it twice. A row that cannot be
    scored has the status ``error`` and says why in ``<key>_reason``; the job goes on.

    Each Python worker makes the suite once. The limits of ``suite`` and ``options`` (concurrency, requests and tokens
    a minute, max_calls, max_cost) are those of the whole cluster: each worker gets its share, and partitions are
    merged until there are no more of them than calls allowed in flight: with a remote judge, ``concurrency=64`` and
    600 requests a minute, a hundred executors of four cores run 64 tasks of one call in flight and 9 requests a minute
    each. A worker that is turned away waits alone. Answers are cached in each worker's memory, and on its own disk
    where ``cache`` is given. ``workers``: tasks that run at the same time (default: the cluster's parallelism).

    The rows travel as Arrow batches (``mapInArrow``): pandas confuses null and NaN, integers and floats. Raises
    ``InvalidOptionError`` for a suite or a mapping that cannot be used, and where a column is already there.
    """
    recipe = Recipe.of(suite, options)
    built = recipe.build()
    if columns:
        check_columns(columns, frame.columns)
    if is_remote(built):
        tasks = recipe.most_workers(workers or _parallelism(frame.sparkSession))
        frame, recipe = frame.coalesce(tasks), recipe.divided(tasks)
    added = ScoreColumns(built).schema
    if not {"id", *ALIASES["id"]} & {*frame.columns} and "id" not in (columns or ()):
        added = added.insert(0, pa.field("id", pa.string()))
    taken = next((name for name in added.names if name in frame.columns), None)
    if taken is not None:
        message = f"the frame already has a column {taken!r}; drop it, or give the suite a name_prefix"
        raise InvalidOptionError(message, param="name_prefix")
    types, _ = _pyspark()
    schema = types.StructType([*frame.schema.fields, *_spark_schema(added).fields])
    return frame.mapInArrow(_Scoring(recipe, columns, tuple(added.names)), schema)


def spark_udf(suite: SuiteLike, *, columns: Mapping[str, str] | None = None, **options: Any) -> Any:
    """A pandas UDF from a struct of a row's columns to a struct of scores: ``frame.select(udf(struct("*")))``.

    Registered with ``spark.udf.register("ragmetrics", udf)`` it works in SQL. Limits are those of each worker here: a
    UDF does not know how many there are.
    """
    recipe = Recipe.of(suite, options)
    added = ScoreColumns(recipe.build()).schema
    _, functions = _pyspark()
    return functions.pandas_udf(_pandas_function(_Scoring(recipe, columns, tuple(added.names))), _spark_schema(added))


@dataclass(frozen=True)
class _Scoring:
    """What a worker does with its partition; ``added`` names the columns that are new."""

    recipe: Recipe
    columns: Mapping[str, str] | None
    added: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS):
                part = batch.slice(start, _ROWS)
                arrays = [*part.columns, *self.scores(part.to_pylist())]
                yield pa.RecordBatch.from_arrays(arrays, names=[*part.schema.names, *self.added])

    def scores(self, records: Sequence[Mapping[Any, Any]]) -> list[pa.Array]:
        """The new columns of these records."""
        suite = suite_of(self.recipe)
        rows: list[Row] = list(suite.score_samples(to_sample(record, self.columns) for record in records))
        arrays = ScoreColumns(suite).arrays(rows)
        return [pa.array([row.sample.id for row in rows]), *arrays] if self.added[0] == "id" else arrays


def _pandas_function(scoring: _Scoring) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    import pandas as pd

    def score(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            table = pa.table(scoring.scores(frame.to_dict("records")), names=list(scoring.added))
            yield table.to_pandas()

    score.__annotations__ = {"frames": Iterator[pd.DataFrame], "return": Iterator[pd.DataFrame]}
    return score


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _pyspark() -> tuple[Any, Any]:
    try:
        from pyspark.sql import functions, types
    except ImportError as error:
        raise MissingExtraError("score_spark needs PySpark 4: pip install 'mlflow_ragmetrics[spark]'.") from error
    return types, functions


def _parallelism(session: SparkSession) -> int:
    """How many tasks the cluster runs at the same time, as far as this session can tell."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except (AttributeError, NotImplementedError):  # Spark Connect has no context
        return int(str(session.conf.get("spark.default.parallelism", "200")))
