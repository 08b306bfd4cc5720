"""The rows that ``ragmetrics evaluate`` was given: one file, or results and references in two."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from mlflow_ragmetrics.cli.assignments import pairs_of
from mlflow_ragmetrics.cli.request import Request
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError, RagMetricsError

if TYPE_CHECKING:
    from mlflow_ragmetrics.core.sample import Sample
    from mlflow_ragmetrics.selection import Selection

__all__ = ["Rows", "rows_of"]


@dataclass(frozen=True)
class Rows:
    """Samples, the file they come from, and what did not match when two files were joined."""

    samples: Sequence[Sample]
    source: str
    warnings: tuple[str, ...] = ()

    def check(self, selection: Selection) -> None:
        """``RagMetricsError`` naming the file where every row lacks what a named metric, or a whole preset, needs."""
        from mlflow_ragmetrics.presence import check_presence

        try:
            check_presence(selection, self.samples)
        except MissingFieldError as error:
            message = (
                f"{self.source}: {error.metric} needs the field {error.field!r} and no row has it; add the column, or "
                f"name it with --columns {error.field}=COLUMN (there are {', '.join(self._columns())})"
            )
            raise RagMetricsError(message) from None

    def _columns(self) -> list[str]:
        from mlflow_ragmetrics.core.sample import FIELDS

        fields = [
            name for name in FIELDS if any(getattr(s, name) is not None or name in s.invalid for s in self.samples)
        ]
        return ["id", *fields, *dict.fromkeys(name for sample in self.samples for name in sample.metadata)]


def rows_of(request: Request) -> Rows:
    """The rows, at most ``limit``; ``InvalidOptionError`` where files are given in a way that means nothing."""
    from mlflow_ragmetrics.readers import join, read_samples

    columns = pairs_of(request.columns, "columns") or None
    results = request.results or request.data
    if results is None or (request.data and request.results) or (request.results and not request.reference):
        message = "give one file, as in ragmetrics evaluate FILE, or two to be joined: --results FILE --reference FILE"
        raise InvalidOptionError(message, param="data")
    limit = None if request.limit is None else min(request.limit, sys.maxsize)
    if request.reference is None:
        return Rows(list(islice(read_samples(results, columns), limit)), results)
    joined = join(results, request.reference, on=request.on)
    samples = list(islice(read_samples(joined.rows, columns), limit))
    return Rows(samples, results, (joined.warning,) if joined.warning else ())
