"""The two serialisable forms of a scored row: columns, and JSON with only the fields that are not defaults.

Frames, files, MLflow's tables and Spark have columns. A score's columns are named ``<key><suffix>``, and items have
the same columns everywhere. The outbox has rows as JSON (``record_of``, ``value_of``), and traces have scores as
metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union

import numpy as np
from pydantic import TypeAdapter

from mlflow_ragmetrics.core.safe_text import as_json, plain, plain_text, plain_texts
from mlflow_ragmetrics.core.score import Better, Evidence, Item, Sample, Score
from mlflow_ragmetrics.engine.memory import rare_collections
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.judges.lexical.support import unbacked_in

if TYPE_CHECKING:
    import pandas as pd


MANY_ROWS = 20_000
"""The number of rows up to which all of them are kept in memory and compared with each other."""
BETTER: Mapping[Better, str] = {False: "lower", None: "neither"}
"""The values of the column ``<key>_better``, for metrics where higher is not better."""
DIAGNOSIS = "diagnosis"
"""The name of the column, the feedback and the figures for the part that failed."""
DIAGNOSIS_COLUMNS = (DIAGNOSIS, f"{DIAGNOSIS}_reason")
"""The columns for the part that failed, and why."""

Kind = Literal["number", "count", "truth", "text", "texts"]


@dataclass(frozen=True, eq=False)
class Column:
    """The column ``<key><suffix>``. A table has it if ``shows`` is true for at least one score."""

    suffix: str
    kind: Kind
    read: Callable[[Score], Any]
    shows: Callable[[Score], bool] = lambda score: True


def _detail(name: str) -> Callable[[Score], Any]:
    return lambda score: score.details.get(name)


VALUES = (
    Column("", "number", attrgetter("value")),
    Column("_1to5", "number", attrgetter("scaled"), lambda score: score.scaled is not None),
    Column("_passed", "truth", attrgetter("passed"), lambda score: score.threshold is not None),
)
REASON = Column("_reason", "text", lambda score: score.error or score.reason)
ORIGINS = (
    Column("_status", "text", attrgetter("status")),
    Column(
        "_better",
        "text",
        lambda score: BETTER.get(score.higher_is_better),
        lambda score: score.higher_is_better is not True,
    ),
    Column("_measured", "truth", attrgetter("measured"), lambda score: score.scored and not score.measured),
    Column("_support", "number", _detail("support"), lambda score: score.details.get("support") is not None),
    Column("_judge", "text", attrgetter("judge"), lambda score: bool(score.model_scores)),
)
"""The columns for status and origin of a score."""
SCORE_COLUMNS = (*VALUES, REASON, *ORIGINS)
"""The columns of a report's tables."""
COUNTED_COLUMNS = (
    Column("_warnings", "texts", lambda score: [code for code, _ in score.warnings]),
    Column("_no_context", "truth", lambda score: bool(score.details.get("no_context"))),
    Column("_fewer_judges", "truth", lambda s: len(s.model_scores) < int(s.details.get("judges_asked", 0))),
    Column("_gold_docs", "count", _detail("gold_docs_count")),
    Column("_correct_docs", "count", _detail("correct_docs_count")),
    Column("_coverage", "number", _detail("coverage")),
)
"""Additional columns, from which Spark computes figures."""

_SIDES = {word: side for side, word in BETTER.items()}


def score_of_columns(
    values: Mapping[str, Any], *, threshold: float | None = None, items: Sequence[Item] = (), judge: str | None = None
) -> Score:
    """The score in the columns ``values``, by suffix, without missing ones; the inverse of ``SCORE_COLUMNS``.

    ``judge``: the judge if there is no column with its name.
    """
    status, reason, passed = values["_status"], str(values.get("_reason", "")), values.get("_passed")
    details = {
        "no_context": values.get("_no_context"),
        "coverage": values.get("_coverage"),
        "gold_docs_count": values.get("_gold_docs"),
        "correct_docs_count": values.get("_correct_docs"),
        "judges_asked": 1 if values.get("_fewer_judges") else None,  # and no judge answered
        "unmeasured": None if status != "ok" or values.get("_measured", True) else "rule",
    }
    return Score(
        value=float(values[""]) if status == "ok" and "" in values else None,
        status=status,
        scaled=float(values["_1to5"]) if "_1to5" in values else None,
        passed=None if passed is None else bool(passed),
        threshold=threshold,
        reason=reason,
        items=tuple(items),
        judge=values.get("_judge", judge),
        error=reason if status == "error" else None,
        higher_is_better=_SIDES.get(str(values.get("_better")), True),
        details={name: value for name, value in details.items() if value is not None},
        warnings=tuple((code, "") for code in values.get("_warnings", ())),
    )


_NONE: list[Any] = []  # shared: a list per item would slow down garbage collection
_EMPTY: Mapping[str, Any] = {"reason": "", "evidence": _NONE, "unbacked": _NONE}
_ITEM_FIELDS = ("kind", "text", "verdict", "against", "reason", "support", "judge")


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """A table read from a file, with score columns converted from text to the types of ``SCORE_COLUMNS``."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for key in score_keys(frame):
        for column in SCORE_COLUMNS:
            name = f"{key}{column.suffix}"
            if column.kind == "number" and name in frame.columns:
                columns[name] = pd.to_numeric(frame[name], errors="coerce").astype("Float64")
            elif column.kind == "truth" and name in frame.columns:
                truths = frame[name].astype(str).str.lower().map({"true": True, "false": False})
                columns[name] = truths.astype("boolean")
    return frame.assign(**columns)


def score_keys(frame: pd.DataFrame) -> list[str]:
    """The keys of the scores in a table: the columns that also have a ``<key>_status`` column."""
    names = [str(name) for name in frame.columns]
    return [name for name in names if f"{name}_status" in names]


def item_columns(scored: Iterable[tuple[Score, Sample]]) -> tuple[list[int], dict[str, list[Any]]]:
    """The number of items of each score, and all items by column.

    ``evidence`` is a list of mappings. ``unbacked`` lists the parts of an unsupported claim whose words are in no
    passage.
    """
    parts = [_columns_of(score, sample) for score, sample in scored]
    sizes = [len(part["text"]) for part in parts]
    columns: dict[str, list[Any]] = {}
    for name in (*_ITEM_FIELDS, "evidence", "unbacked"):
        empty = [_EMPTY.get(name)]
        values = (part.get(name) or empty * size for part, size in zip(parts, sizes, strict=True))
        is_empty = not any(name in part for part in parts)
        columns[name] = empty * sum(sizes) if is_empty else list(chain.from_iterable(values))
    for name in ("text", "reason"):
        columns[name] = plain_texts(columns[name])
    return sizes, columns


def _columns_of(score: Score, sample: Sample) -> Mapping[str, Sequence[Any]]:
    """The columns of a score's items that are not empty."""
    compact = score.compact_items
    if compact is not None:
        texts, verdicts, reasons = compact.columns()
        against = {} if compact.against is None else {"against": [compact.against] * len(texts)}
        return {"kind": [compact.kind] * len(texts), "text": texts, "verdict": verdicts, "reason": reasons, **against}
    items = score.items
    if not items:
        return {"text": ()}
    columns: dict[str, list[Any]] = {name: list(map(attrgetter(name), items)) for name in _ITEM_FIELDS}
    if any(item.evidence for item in items):
        unbacked = [unbacked_in(item, sample.texts) if item.evidence else () for item in items]
        columns["evidence"] = [list(map(_evidence, item.evidence)) or _NONE for item in items]
        columns["unbacked"] = [list(map(plain_text, texts)) or _NONE for texts in unbacked]
    return columns


def _evidence(each: Evidence) -> dict[str, Any]:
    return {"chunk": each.chunk, "id": plain(each.id), "quote": plain_text(each.quote)}


ITEM_COLUMNS = ("id", "metric", "kind", "text", "verdict", "against", "reason", "support", "evidence", "unbacked")

_FIRST = ("id", "question", "answer")
_ALWAYS = (*_FIRST, "reference")
_UNSAFE = re.compile(r"[^\w\-.]+", re.ASCII)
_ABSENT = Score()


def panel_of(score: Score) -> tuple[str, ...]:
    """The names of the panel's judges; empty for one judge."""
    return (*score.model_scores, *score.excluded_models) if "judges_asked" in score.details else ()


def judge_slugs(names: Iterable[str]) -> dict[str, str]:
    """Judge name -> unique name for files, columns and metrics."""
    slugs: dict[str, str] = {}
    for name in dict.fromkeys(names):
        slug = base = _UNSAFE.sub("_", name).strip("_") or "judge"
        while slug in slugs.values():
            slug = f"{base}-{len(slugs) + 1}"
        slugs[name] = slug
    return slugs


def rows_frame(rows: Sequence[Row], more: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
    """A table with one row per sample.

    The columns are, in order: id, question and answer; the scores (``<key>``, ``<key>_1to5``, ``<key>_passed``),
    composites before metrics; each ``<key>_reason``; the other fields and the metadata; then ``<key>_status``,
    ``_better``, ``_measured``, ``_support`` and ``_judge``. Scores are nullable ``Float64``, null if unscored;
    ``_passed`` is nullable ``boolean``. ``_measured`` is included if a score was set by a rule, such as the rule for
    rows without context. ``_better`` is "lower" or "neither" and is left out if higher is better. Metadata with the
    name of a score's column is renamed to ``<name>_given``. ``more`` columns follow the reasons and replace data
    columns of the same name.
    """
    with rare_collections():
        return Layout().frame(rows, more)


class Layout:
    """The columns of a table of rows, which may arrive in parts: later parts have the columns of earlier ones."""

    def __init__(self) -> None:
        self._columns: dict[str, set[Column]] = {}
        self._composites: set[str] = set()
        self._judges: dict[str, dict[str, None]] = {}
        self._fields: dict[str, None] = dict.fromkeys(_ALWAYS)

    def frame(self, rows: Sequence[Row], more: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
        """The table of these rows; ``more`` as in ``rows_frame``."""
        import pandas as pd

        scores: dict[str, list[Score]] = {}
        for key in dict.fromkeys(chain(self._columns, chain.from_iterable(row.scores for row in rows))):
            scores[key] = own = [row.scores.get(key, _ABSENT) for row in rows]
            known = self._columns.setdefault(key, set())
            known.update(column for column in SCORE_COLUMNS if column not in known and any(map(column.shows, own)))
            self._judges.setdefault(key, {}).update(dict.fromkeys(chain.from_iterable(map(panel_of, own))))
            if any("coverage" in score.details for score in own):
                self._composites.add(key)
        records = [_record(row.sample) for row in rows]
        self._fields |= dict.fromkeys(chain.from_iterable(records))
        values: dict[str, Any] = {}
        reasons: dict[str, Any] = {}
        origins: dict[str, Any] = {}
        for key in sorted(scores, key=lambda key: key not in self._composites):
            judges = [_column_of(*judge) for judge in judge_slugs(self._judges[key]).items()]
            for part, columns in ((values, VALUES), (reasons, [REASON]), (origins, ORIGINS), (origins, judges)):
                shown = [column for column in columns if columns is judges or column in self._columns[key]]
                part.update({f"{key}{column.suffix}": _array(column, scores[key]) for column in shown})
        reserved = {f"{key}{column.suffix}" for key in scores for column in SCORE_COLUMNS} | origins.keys()
        fields: dict[str, Any] = {}
        for name in self._fields:
            column = plain_text(f"{name}_given" if name in reserved else str(name))
            cells = [record.get(name) for record in records]
            fields[column] = _objects(plain_texts(cells) if {*map(type, cells)} == {str} else list(map(plain, cells)))
        named = {name: _objects(column) for name, column in (more or {}).items()}
        first = {name: fields.pop(name) for name in _FIRST}
        others = {name: column for name, column in fields.items() if name not in named}
        return pd.DataFrame({**first, **values, **reasons, **named, **others, **origins})


def _column_of(judge: str, slug: str) -> Column:
    return Column(f"_judge_{slug}", "number", lambda score: score.model_scores.get(judge))


def _array(column: Column, scores: Sequence[Score]) -> Any:
    import pandas as pd

    values = list(map(column.read, scores))
    if column.kind in ("number", "truth"):
        return pd.array(values, dtype="Float64" if column.kind == "number" else "boolean")
    return _objects(plain_texts(values) if column is REASON else values)


def items_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """A table with one row per item, with the sample's id and the metric's key.

    ``against`` is the text that a claim was checked against, if not the passages; ``evidence`` is a list of mappings;
    ``unbacked`` lists the parts of an unsupported claim whose words are in no passage.
    """
    import pandas as pd

    scored = [(row.sample, key, score) for row in rows for key, score in row.scores.items()]
    with rare_collections():
        sizes, item_values = item_columns((score, sample) for sample, _, score in scored)
    columns: dict[str, Any] = {name: pd.Series(values, dtype=object) for name, values in item_values.items()}
    support = item_values["support"]
    grades = np.array(support, float) if support.count(None) < len(support) else np.full(len(support), np.nan)
    columns["support"] = pd.array(grades, dtype="Float64")
    ids = plain_texts(sample.id for sample, _, _ in scored)
    keys = [key for _, key, _ in scored]
    for name, values in (("id", ids), ("metric", keys)):
        columns[name] = pd.Series(np.repeat(np.array(values, object), sizes), dtype=object)
    judge = ("judge",) if any(item_values["judge"]) else ()
    return pd.DataFrame({name: columns[name] for name in (*ITEM_COLUMNS, *judge)}, copy=False)


def _objects(values: Sequence[Any]) -> pd.Series[Any]:
    """A column of dtype ``object``, so that pandas does not convert ``values`` to text and NaN."""
    import pandas as pd

    column = np.empty(len(values), object)
    column[:] = values
    return pd.Series(column, dtype=object)


def row_without_texts(row: Row) -> Row:
    """The row with ids, scores, verdicts, numeric details, error classes and trace id only."""
    sample = row.sample
    kept = Sample(
        id=sample.id,
        retrieved_doc_ids=sample.retrieved_doc_ids,
        gold_doc_ids=sample.gold_doc_ids,
        metadata={name: sample.metadata[name] for name in ("trace_id",) if name in sample.metadata},
    )
    return replace(row, sample=kept, scores={key: _without_texts(score) for key, score in row.scores.items()})


def _without_texts(score: Score) -> Score:
    items = tuple(
        item.changed(text="", reason="", evidence=tuple(replace(piece, quote="") for piece in item.evidence))
        for item in score.items
    )
    return score.changed(
        reason="",
        items=items,
        details={name: value for name, value in score.details.items() if _is_number(value)},
        warnings=tuple((code, "") for code, _ in score.warnings),
        error=None if score.error is None else score.error.partition(":")[0],
    )


def _is_number(value: Any) -> bool:
    return all(map(_is_number, value.values())) if isinstance(value, Mapping) else isinstance(value, (int, float))


def _record(sample: Sample) -> dict[str, Any]:
    """Fields, then metadata. Metadata that is not text, a number or a truth value is JSON."""
    references = list(sample.references or ())
    fields = {
        "id": sample.id,
        "question": sample.question,
        "answer": sample.answer,
        "reference": references if len(references) > 1 else sample.reference,
        "contexts": sample.texts,
        "retrieved_doc_ids": sample.retrieved_doc_ids,
        "gold_doc_ids": sample.gold_doc_ids,
        "history": as_json(list(map(asdict, sample.history))) if sample.history else None,
    }
    known = {name: value for name, value in fields.items() if name in _ALWAYS or value is not None}
    for name, value in sample.metadata.items():
        is_simple = isinstance(value, (str, int, float, type(None)))
        known.setdefault(name, value if is_simple else json.dumps(value, ensure_ascii=False, default=str))
    return known


T = TypeVar("T")


@cache
def _adapters() -> dict[type, TypeAdapter[Any]]:
    return {kind: TypeAdapter(kind) for kind in (Row, Score, Item)}


def record_of(value: Union[Row, Score]) -> dict[str, Any]:
    """The fields as JSON values, without defaults; metadata that JSON lacks, such as dates, becomes text."""
    record: dict[str, Any] = plain(_adapters()[type(value)].dump_python(value, exclude_defaults=True, warnings=False))
    return record


def value_of(kind: type[T], record: Mapping[str, Any]) -> T:
    """The row, score or item of a record; raises a ``ValueError`` for any other mapping."""
    value: T = _adapters()[kind].validate_python(record)
    return value


def row_of(record: Mapping[str, Any]) -> Row:
    """The row of a record; raises a ``ValueError`` for any other mapping."""
    return value_of(Row, record)


_PREFIX = "ragmetrics."
KEY = f"{_PREFIX}key"
"""The metadata entry with the key of a score's metric."""
_TEXTS = ("status", "reason", "judge", "error")


def metadata_of(key: str, score: Score) -> dict[str, str]:
    """The score of the metric ``key`` as metadata of an assessment: ``ragmetrics.<field>`` -> text or JSON."""
    entries = {"key": key, **record_of(score)}
    return {_PREFIX + name: entry if isinstance(entry, str) else as_json(entry) for name, entry in entries.items()}


def score_in(metadata: Mapping[str, str]) -> Score:
    """The score in the metadata of an assessment, which have a ``KEY``; ``InvalidDataError`` for another form."""
    entries = {name.removeprefix(_PREFIX): text for name, text in metadata.items() if name.startswith(_PREFIX)}
    try:
        return value_of(Score, {name: entry if name in _TEXTS else _value(entry) for name, entry in entries.items()})
    except ValueError:
        message = f"the score of {entries['key']} on a trace was written by another version and cannot be read"
        raise InvalidDataError(f"{message}; evaluate the trace again") from None


def _value(text: str) -> Any:
    with suppress(json.JSONDecodeError):
        return json.loads(text)
    return text
