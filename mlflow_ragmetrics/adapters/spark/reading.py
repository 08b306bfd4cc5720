"""Arrow columns as Spark sends them -> records, value by value where one cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from mlflow_ragmetrics.core.aliases import FIELD_OF
from mlflow_ragmetrics.core.holders import HOLDERS
from mlflow_ragmetrics.core.record import check_columns
from mlflow_ragmetrics.core.sample import FIELDS, Sample
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.presence import check_presence
from mlflow_ragmetrics.suite import Suite

__all__ = ["columns_read", "records_of"]

_BESIDE_FIELDS = (*HOLDERS, "metadata", "doc_uri")


def columns_read(suite: Suite, names: Collection[str], columns: Mapping[str, str] | None) -> tuple[str, ...]:
    """Those of the columns ``names`` that the suite's metrics may look at.

    Raises:
        InvalidOptionError: (``param="columns"``) for a mapping that names what is not there, or a name given twice.
        MissingFieldError: where a metric that was named needs a field that no column can hold.
    """
    mapping = columns or {}
    check_columns(mapping, names)
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise InvalidOptionError(f"the frame has two columns {repeated!r}; rename or drop one", param="columns")
    fields = {*mapping, *(FIELD_OF[name] for name in names if name in FIELD_OF and name not in mapping.values())}
    if "contexts" in fields or "doc_uri" in names:
        fields.add("retrieved_doc_ids")
    if not any(name in names for name in HOLDERS):
        given: dict[str, Any] = {field: () for field in FIELDS if field in fields}
        references = given.pop("reference", None)
        check_presence(suite.selection, [Sample(references=None if references is None else ("",), **given)])
    if any("metadata" in (*each.definition.required, *each.definition.optional) for each in suite.metrics):
        return tuple(names)
    wanted = {*FIELD_OF, *_BESIDE_FIELDS, *mapping.values()}
    return tuple(name for name in names if name in wanted)


def records_of(batch: pa.RecordBatch, names: Collection[str]) -> list[dict[str, Any]]:
    """One mapping a row, of the columns ``names``; what cannot be read is the error that says why."""
    values = {name: _values(batch.column(name)) for name in names}
    if not values:
        return [{} for _ in range(batch.num_rows)]
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _values(column: pa.Array) -> list[Any]:
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):  # such as bytes that are no UTF-8, or a moment after the year 9999
        values = [_value(scalar) for scalar in column]
    return [_with_mappings(value, column.type) for value in values] if _holds_maps(column.type) else values


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError) as error:
        return error


def _holds_maps(kind: pa.DataType) -> bool:
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    return pa.types.is_map(kind) or any(map(_holds_maps, inner))


def _with_mappings(value: Any, kind: pa.DataType) -> Any:
    """``value`` with each map, which Arrow gives as pairs, as a dict."""
    if pa.types.is_map(kind) and isinstance(value, list):
        return {name: _with_mappings(each, kind.item_type) for name, each in value}
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_with_mappings(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {field.name: _with_mappings(value[field.name], field.type) for field in kind}
    return value
