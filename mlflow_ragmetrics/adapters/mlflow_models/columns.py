"""What MLflow hands to a metric, column by column, and samples made of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from mlflow_ragmetrics.core.aliases import FIELD_OF
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.readers import read_samples

__all__ = ["Columns", "Reading", "column_names"]


class Columns(inspect.Signature):
    """A signature whose parameters, all optional, may have any column's name: MLflow looks columns up by parameter.

    Listing every name is the only way: MLflow takes a function of two parameters for one of another kind and fails
    on ``**columns``.
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._named = {name: inspect.Parameter("column", kind, default=None) for name in names}

    @property
    def parameters(self) -> MappingProxyType[str, inspect.Parameter]:
        """The parameters by column name."""
        return MappingProxyType(self._named)


def column_names(columns: Mapping[str, str]) -> list[str]:
    """All names under which a field may come: MLflow's own, the canonical ones, aliases, and those of ``columns``."""
    return list(dict.fromkeys(["predictions", "targets", *FIELD_OF, "expectations", "metadata", *columns.values()]))


class Reading:
    """Samples read from columns; equal columns, which MLflow hands over once a metric, are read once."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = dict(columns)
        self._given: dict[str, list[Any]] | None = None
        self.samples: list[Sample] = []
        self.marks: list[int] = []

    def read(self, values: Mapping[str, Any]) -> None:
        """Set ``samples`` and their ``marks``, by which they are told apart.

        Unlike ``==`` between samples, marks can take NaN and arrays in the metadata.
        """
        given = {name: list(column) for name, column in values.items() if column is not None}
        if not self._is_known(given):
            self._given = given
            self.samples = list(_samples(given, self._columns))
            self.marks = [hash(repr(sample)) for sample in self.samples]

    def _is_known(self, given: Mapping[str, list[Any]]) -> bool:
        try:
            return given == self._given
        except ValueError:  # arrays in the cells do not say whether they are equal
            return False


def _samples(given: Mapping[str, list[Any]], columns: Mapping[str, str]) -> Iterable[Sample]:
    named, explicit = dict(given), {}
    if "predictions" in named:  # as outputs, what else a dict holds (contexts, ids) is found as well
        named["outputs"] = named.pop("predictions")
        explicit["answer"] = "outputs"
    if "targets" in named:
        explicit["reference"] = "targets"
    # on its trial of row 0, MLflow hands over the model's further output columns at full length
    records = [dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=False)]
    return read_samples(records, {**explicit, **columns})
