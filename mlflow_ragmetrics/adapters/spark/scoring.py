"""Scores as columns of a Spark DataFrame, computed where its partitions are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.adapters.spark.reading import columns_read
from mlflow_ragmetrics.adapters.spark.recipe import Recipe, SuiteLike, is_remote
from mlflow_ragmetrics.adapters.spark.worker import Scoring
from mlflow_ragmetrics.core.aliases import FIELD_OF
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.streaming import ScoreColumns

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["score_spark", "spark_udf"]


def score_spark(
    frame: DataFrame,
    suite: SuiteLike,
    *,
    columns: Mapping[str, str] | None = None,
    workers: int | None = None,
    **options: Any,
) -> DataFrame:
    """``frame`` with the columns of ``streaming.ScoreColumns``: values, reasons, and items as arrays of structs.

    ``suite`` is a YAML file's path, a preset's name, or metrics; ``options`` are those of ``Suite``, and limits among
    them those of the whole cluster, shared by the ``workers`` tasks that run at the same time (default: the cluster's
    parallelism); ``adapters.spark`` says how. ``columns`` maps sample fields to columns. A frame without ids gets the
    column ``id``, made of question and reference. A row that cannot be scored has the status ``error`` and says why
    in ``<key>_reason``; the job goes on. Nothing is scored before an action asks for it, and each action scores
    again: ``cache()`` or write the result before using it twice.

    Raises ``InvalidOptionError`` for a suite or a mapping that cannot be used and where a column is already there,
    ``MissingFieldError`` where a metric that was named needs a field that no column holds.
    """
    recipe = Recipe.of(suite, options)
    built = recipe.build()
    read = columns_read(built, frame.columns, columns)
    adds_id = "id" not in (columns or ()) and not any(FIELD_OF.get(name) == "id" for name in frame.columns)
    scoring = Scoring(recipe, columns, read, adds_id)
    if is_remote(built):
        tasks = recipe.most_workers(_parallelism(frame.sparkSession) if workers is None else workers)
        frame, scoring = frame.repartition(tasks), replace(scoring, recipe=recipe.divided(tasks))
    schema = _widened(frame, scoring.schema(ScoreColumns(built)))
    return frame.mapInArrow(scoring, schema)


def spark_udf(
    suite: SuiteLike, *, columns: Mapping[str, str] | None = None, workers: int | None = None, **options: Any
) -> Any:
    """A pandas UDF from a struct of a row's columns to a struct of scores: ``frame.select(udf(struct("*")))``.

    Registered with ``spark.udf.register("ragmetrics", udf)`` it works in SQL. Limits are shared as in ``score_spark``,
    but a UDF cannot make the tasks fewer: ``InvalidOptionError`` where a limit is less than one for each of them.
    """
    recipe = Recipe.of(suite, options)
    built = recipe.build()
    if is_remote(built):
        tasks = _parallelism(None) if workers is None else workers
        if recipe.most_workers(tasks) < tasks:
            message = f"a limit is too small to be shared by {tasks} tasks; raise it, give workers, or use score_spark"
            raise InvalidOptionError(message, param="workers")
        recipe = recipe.divided(tasks)
    from pyspark.sql.functions import pandas_udf

    function = _pandas_function(Scoring(recipe, columns, (), False))
    return pandas_udf(function, _spark_schema(ScoreColumns(built).schema))


def _pandas_function(scoring: Scoring) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    import pandas as pd

    def score(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield scoring.score(frame.to_dict("records")).to_pandas()

    score.__annotations__ = {"frames": Iterator[pd.DataFrame], "return": Iterator[pd.DataFrame]}
    return score


def _widened(frame: DataFrame, added: pa.Schema) -> Any:
    """The frame's schema with the new columns; ``InvalidOptionError`` where one is there, in any case of letters."""
    from pyspark.sql.types import StructType

    there = {name.lower(): name for name in frame.columns}
    taken = next((there[name.lower()] for name in added.names if name.lower() in there), None)
    if taken is not None:
        is_id = taken.lower() == "id"
        way = f"map it: columns={{'id': {taken!r}}}" if is_id else "drop it, or give the suite a name_prefix"
        message = f"the frame already has a column {taken!r}; {way}"
        raise InvalidOptionError(message, param="columns" if is_id else "name_prefix")
    return StructType([*frame.schema.fields, *_spark_schema(added).fields])


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _parallelism(session: SparkSession | None) -> int:
    """How many tasks the cluster runs at the same time, as far as this session can tell."""
    if session is None:
        from pyspark.sql import SparkSession

        session = SparkSession.active()
    try:
        return int(session.sparkContext.defaultParallelism)
    except (AttributeError, NotImplementedError):  # Spark Connect has no context
        return int(str(session.conf.get("spark.default.parallelism", "200")))
