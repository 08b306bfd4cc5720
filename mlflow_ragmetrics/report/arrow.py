"""Scored rows as typed Arrow columns, and as Parquet files that are written batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate, chain, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mlflow_ragmetrics.core.json_text import as_json, plain_text
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError, RagMetricsError
from mlflow_ragmetrics.judges.lexical.backing import unbacked_in
from mlflow_ragmetrics.report.diagnosis import diagnose
from mlflow_ragmetrics.report.tables import GatheredItems, has_diagnoses
from mlflow_ragmetrics.rows.results import BETTER

if TYPE_CHECKING:
    from mlflow_ragmetrics.suite import Suite

__all__ = ["EVIDENCE", "ITEM", "ScoreColumns", "write_parquet"]

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

ITEMS = pa.list_(ITEM)

T = TypeVar("T")
_ABSENT = Score()
_ROW_GROUP = 8 * 2**20  # bytes: the file's footer, which stays in memory to the end, grows with each row group
_SAMPLE: dict[str, tuple[pa.DataType, Callable[[Sample], Any]]] = {
    "id": (pa.string(), lambda sample: sample.id),
    "question": (pa.string(), lambda sample: sample.question),
    "answer": (pa.string(), lambda sample: sample.answer),
    "reference": (pa.string(), lambda sample: sample.reference),
    "other_references": (TEXTS, lambda sample: sample.references[1:] if sample.references else None),
    "contexts": (TEXTS, lambda sample: sample.texts),
    "retrieved_doc_ids": (TEXTS, lambda sample: sample.retrieved_doc_ids),
    "gold_doc_ids": (TEXTS, lambda sample: sample.gold_doc_ids),
    "history": (pa.string(), lambda sample: as_json(list(map(asdict, sample.history))) if sample.history else None),
    "metadata": (pa.string(), lambda sample: as_json(sample.metadata) if sample.metadata else None),
}


@dataclass(frozen=True)
class _Column:
    name: str
    key: str
    type: pa.DataType
    read: Callable[[Score], Any]


def _constant(value: str, score: Score) -> str:
    return value


class ScoreColumns:
    """The columns of a suite's scores, whose types follow from the suite alone, whatever the rows hold.

    For each key ``<key>`` (null where unscored), ``<key>_status``, ``<key>_reason`` and ``<key>_measured``; where the
    metric has them ``<key>_1to5``, ``<key>_passed``, ``<key>_support``, ``<key>_judge``, ``<key>_no_context``,
    ``<key>_warnings`` (codes), ``<key>_fewer_judges`` (of a panel, not all judged), ``<key>_gold_docs`` and
    ``<key>_correct_docs`` (counts), ``<key>_coverage``, and ``<key>_items``, lists of structs; where the metrics tell
    which part failed, ``diagnosis`` and ``diagnosis_reason`` at the end. A prefix of the suite goes before all names.
    """

    def __init__(self, suite: Suite) -> None:
        prefix = suite.name_prefix
        self._columns: list[_Column] = []
        self._diagnosis = (
            [f"{prefix}{name}" for name in ("diagnosis", "diagnosis_reason")] if has_diagnoses(suite.keys) else []
        )
        self._language = suite.language
        for metric in suite.metrics:
            key = prefix + metric.key
            self._add(key, metric.definition.scaled, metric.threshold is not None)
            if metric.key in suite.selection.better:
                side = BETTER[suite.selection.better[metric.key]]
                self._columns.append(_Column(f"{key}_better", key, pa.string(), partial(_constant, side)))
            if "judge" in metric.definition.asks:
                self._add_judged(key, "contexts" in (*metric.definition.required, *metric.definition.optional))
                if suite.several:
                    self._columns.append(_Column(f"{key}_fewer_judges", key, pa.bool_(), _has_fewer_judges))
            if "gold_doc_ids" in metric.definition.required:
                self._add_documents(key)
            self._columns.append(_Column(f"{key}_items", key, ITEMS, lambda score: score.items))
        for composite in suite.composites:
            key = prefix + composite.key
            self._add(key, composite.scaled, True)
            coverage = _Column(f"{key}_coverage", key, pa.float64(), lambda score: score.details.get("coverage"))
            self._columns += [coverage, _warning_codes(key)]

    def _add(self, key: str, scaled: bool, passing: bool) -> None:
        self._columns.append(_Column(key, key, pa.float64(), attrgetter("value")))
        if scaled:
            self._columns.append(_Column(f"{key}_1to5", key, pa.float64(), attrgetter("scaled")))
        if passing:
            self._columns.append(_Column(f"{key}_passed", key, pa.bool_(), attrgetter("passed")))
        self._columns.append(_Column(f"{key}_status", key, pa.string(), attrgetter("status")))
        self._columns.append(_Column(f"{key}_reason", key, pa.string(), lambda score: score.error or score.reason))
        self._columns.append(_Column(f"{key}_measured", key, pa.bool_(), attrgetter("measured")))

    def _add_judged(self, key: str, looks_at_contexts: bool) -> None:
        support = _Column(f"{key}_support", key, pa.float64(), lambda score: score.details.get("support"))
        judge = _Column(f"{key}_judge", key, pa.string(), attrgetter("judge"))
        self._columns += [support, judge, _warning_codes(key)]
        if looks_at_contexts:
            name = f"{key}_no_context"
            self._columns.append(_Column(name, key, pa.bool_(), lambda score: bool(score.details.get("no_context"))))

    def _add_documents(self, key: str) -> None:
        gold = _Column(f"{key}_gold_docs", key, pa.int32(), lambda score: score.details.get("gold_docs_count"))
        correct = _Column(f"{key}_correct_docs", key, pa.int32(), lambda score: score.details.get("correct_docs_count"))
        self._columns += [gold, correct]

    @property
    def schema(self) -> pa.Schema:
        """Names and types."""
        said = [(name, pa.string()) for name in self._diagnosis]
        return pa.schema([*((column.name, column.type) for column in self._columns), *said])

    def arrays(self, rows: Sequence[Row]) -> list[pa.Array]:
        """One array per column, in the order of ``schema``."""
        scores = {
            key: [row.scores.get(key, _ABSENT) for row in rows]
            for key in dict.fromkeys(column.key for column in self._columns)
        }
        arrays = [
            _items(scores[column.key], [row.sample for row in rows])
            if column.type == ITEMS
            else _array(list(map(column.read, scores[column.key])), column.type)
            for column in self._columns
        ]
        return [*arrays, *self._diagnoses(rows)]

    def _diagnoses(self, rows: Sequence[Row]) -> list[pa.Array]:
        if not self._diagnosis:
            return []
        found = [diagnose(row.scores, self._language) for row in rows]
        causes = ["not measured" if each is None else each.cause for each in found]
        return [_array(causes, pa.string()), _array([each and each.reason for each in found], pa.string())]


def _warning_codes(key: str) -> _Column:
    return _Column(f"{key}_warnings", key, TEXTS, lambda score: [code for code, _ in score.warnings])


def _has_fewer_judges(score: Score) -> bool:
    return len(score.model_scores) < int(score.details.get("judges_asked", 0))


def write_parquet(rows: Iterable[Row], path: Union[str, Path], suite: Suite, *, batch_size: int = 250) -> int:
    """Write ``rows``, as ``suite.stream`` yields them, to a Parquet file; returns how many there were.

    At most ``batch_size`` rows and some megabytes of columns are in memory; the file holds the sample's fields
    (``metadata`` as JSON) and the columns of ``ScoreColumns``. It appears under its name when it is complete.
    ``RagMetricsError`` where it cannot be written, ``InvalidDataError`` where ``rows`` is a path.
    """
    if isinstance(rows, (str, Path)):
        raise InvalidDataError(
            f"rows={str(rows)!r} is a path; give scored rows, as suite.stream({str(rows)!r}) yields them"
        )
    columns = ScoreColumns(suite)
    schema = pa.schema([*((name, kind) for name, (kind, _) in _SAMPLE.items()), *columns.schema])
    partial = Path(f"{path}.partial")
    count = 0
    try:
        with _writing(path), pq.ParquetWriter(partial, schema) as writer:
            for group in _row_groups(_batches(rows, batch_size), columns, schema):
                writer.write_table(group)
                count += group.num_rows
        os.replace(partial, path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return count


def _row_groups(batches: Iterable[Sequence[Row]], columns: ScoreColumns, schema: pa.Schema) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        fields = [_array([read(row.sample) for row in batch], kind) for kind, read in _SAMPLE.values()]
        gathered.append(pa.record_batch([*fields, *columns.arrays(batch)], schema=schema))
        size += gathered[-1].nbytes
        if size >= _ROW_GROUP:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)


@contextmanager
def _writing(path: Union[str, Path]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RagMetricsError(f"{path} cannot be written: {os.strerror(error.errno or 0)}") from error


def _batches(entries: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(entries)
    while batch := list(islice(source, size)):
        yield batch


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return _structs(values, kind.value_type)
    if kind == TEXTS:
        values = [None if texts is None else list(texts) for texts in values]
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # half of a surrogate pair, which no column can hold
        return pa.array([_storable(value) for value in values], kind)


def _structs(groups: Sequence[Sequence[Any]], kind: pa.StructType) -> pa.Array:
    """Lists of objects as lists of structs, by column: a tenth of the time that a dict per object takes."""
    members = list(chain.from_iterable(groups))
    if not members:
        return _empty_lists(len(groups), kind)
    arrays = [_array(list(map(attrgetter(field.name), members)), field.type) for field in kind]
    return _lists(map(len, groups), pa.StructArray.from_arrays(arrays, fields=list(kind)))


def _items(scores: Sequence[Score], samples: Sequence[Sample]) -> pa.Array:
    """The items of each score; ``samples`` hold the passages that those which are not supported were held against."""
    found = GatheredItems(zip(scores, samples, strict=True))
    size = len(found.texts)
    if not size:
        return _empty_lists(len(scores), ITEM)
    columns = {
        "kind": _array(found.kinds, pa.string()),
        "text": _array(found.texts, pa.string()),
        "verdict": _array(found.verdicts, pa.string()),
        "against": _array(found.against, pa.string()),
        "reason": _array(found.reasons, pa.string()),
        "support": pa.nulls(size, pa.float64()),
        "judge": pa.nulls(size, pa.string()),
        "evidence": _empty_lists(size, EVIDENCE),
        "unbacked": _empty_lists(size, pa.string()),
    }
    if found.given:
        blank: dict[str, Any] = {"support": None, "judge": None, "evidence": (), "unbacked": ()}
        values = {name: [value] * size for name, value in blank.items()}
        for start, items, sample in found.given:
            places = slice(start, start + len(items))
            for name in ("support", "judge", "evidence"):
                values[name][places] = map(attrgetter(name), items)
            values["unbacked"][places] = [
                unbacked_in(item, sample.texts) if item.unbacked_by_chunks else () for item in items
            ]
        columns |= {name: _array(column, ITEM.field(name).type) for name, column in values.items()}
    members = pa.StructArray.from_arrays([columns[field.name] for field in ITEM], fields=list(ITEM))
    return _lists(found.sizes, members)


def _empty_lists(count: int, kind: pa.DataType) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], kind))


def _lists(sizes: Iterable[int], members: pa.Array) -> pa.Array:
    """``members``, which stand one group after another, as lists of so many each."""
    return pa.ListArray.from_arrays(pa.array(accumulate(sizes, initial=0), pa.int32()), members)


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return plain_text(value)
    return [plain_text(text) for text in value] if isinstance(value, list) else value
