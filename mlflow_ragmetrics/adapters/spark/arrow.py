"""Scored rows as Arrow columns; their names and types depend only on the suite."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mlflow_ragmetrics.core.safe_text import plain_texts
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.results.marks import diagnose
from mlflow_ragmetrics.results.tables import (
    COUNTED_COLUMNS,
    DIAGNOSIS,
    REASON,
    SCORE_COLUMNS,
    has_diagnoses,
    item_columns,
)
from mlflow_ragmetrics.text.non_answers import gives_no_answer

if TYPE_CHECKING:
    from mlflow_ragmetrics.suite import Suite


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
        self._diagnosis = [f"{self._prefix}{name}" for name in DIAGNOSIS] if has_diagnoses(suite.keys) else []
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
            found = [diagnose(row.scores, self._language) for row in rows]
            arrays.append(pa.array(["not measured" if each is None else each.cause for each in found], pa.string()))
            arrays.append(pa.array([None if each is None else each.reason for each in found], pa.string()))
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
