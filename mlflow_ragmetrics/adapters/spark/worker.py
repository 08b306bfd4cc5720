"""What a Spark worker does with a partition: records in, typed columns out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from mlflow_ragmetrics.adapters.spark.reading import records_of
from mlflow_ragmetrics.adapters.spark.recipe import Recipe, suite_of
from mlflow_ragmetrics.core.record import to_sample
from mlflow_ragmetrics.core.run import Row
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.streaming import ScoreColumns
from mlflow_ragmetrics.suite import Suite

__all__ = ["Scoring"]

_ROWS = 256


@dataclass(frozen=True)
class Scoring:
    """Scores the batches of a partition, as they come: a slow row holds back neither later rows nor later batches.

    ``read`` names the columns that are looked at, ``columns`` maps fields to some of them, ``adds_id`` says whether
    the column ``id`` comes before those of the scores.
    """

    recipe: Recipe
    columns: Mapping[str, str] | None
    read: Sequence[str]
    adds_id: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Each batch, in parts, with the new columns."""
        suite = suite_of(self.recipe)
        parts: deque[pa.RecordBatch] = deque()
        rows = suite.score_samples(self._samples(batches, parts))
        for first in rows:
            part = parts.popleft()
            added = self.added([first, *islice(rows, part.num_rows - 1)], suite)
            arrays, names = [*part.columns, *added.columns], [*part.schema.names, *added.schema.names]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def score(self, records: Iterable[Mapping[Any, Any]]) -> pa.RecordBatch:
        """The new columns of these records."""
        suite = suite_of(self.recipe)
        return self.added(list(suite.score_samples(to_sample(record, self.columns) for record in records)), suite)

    def added(self, rows: Sequence[Row], suite: Suite) -> pa.RecordBatch:
        """The new columns of scored rows."""
        columns = ScoreColumns(suite)
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
