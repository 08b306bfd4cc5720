"""A report's rows as pandas tables: one row per sample, and one row per claim, token, sentence, chunk or document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.safe_text import as_json, plain, plain_text, plain_texts
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.rows.schema import ORIGINS, REASON, SCORE_COLUMNS, VALUES, Column, item_columns

if TYPE_CHECKING:
    import pandas as pd


ITEM_COLUMNS = ("id", "metric", "kind", "text", "verdict", "against", "reason", "support", "evidence", "unbacked")

_FIRST = ("id", "question", "answer")
_ALWAYS = (*_FIRST, "reference")
_UNSAFE = re.compile(r"[^\w\-.]+", re.ASCII)
_ABSENT = Score()


def judge_slugs(scores: Iterable[Score]) -> dict[str, str]:
    """The judges of a panel by name, each with a name that files, columns and metrics can bear; empty for one judge."""
    return _slugs(dict.fromkeys(name for score in scores for name in _panel(score)))


def _panel(score: Score) -> tuple[str, ...]:
    return (*score.model_scores, *score.excluded_models) if "judges_asked" in score.details else ()


def _slugs(names: Iterable[str]) -> dict[str, str]:
    slugs: dict[str, str] = {}
    for name in names:
        slug = own = _UNSAFE.sub("_", name).strip("_") or "judge"
        while slug in slugs.values():
            slug = f"{own}-{len(slugs) + 1}"
        slugs[name] = slug
    return slugs


def rows_frame(rows: Sequence[Row], more: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
    """One row per sample, its columns in the order in which they are read.

    First id, question and answer; then the scores, composites before metrics: ``<key>``, ``<key>_1to5`` and
    ``<key>_passed``; then each ``<key>_reason``; then what else the row came with, fields before metadata; at the end
    how each score came about: ``<key>_status``, ``_measured``, ``_support``, ``_judge``. Scores are nullable
    ``Float64`` and null where unscored, ``_passed`` is nullable ``boolean``. ``_measured`` is there where some score
    comes of a rule, such as that for rows without context. An entry of the metadata that has a name which a score's
    column may have is called ``<name>_given``. ``<key>_better`` is there where it is not "higher": "lower" or
    "neither". ``more`` are further columns, after the reasons, in place of the data's own.
    """
    layout = Layout()
    layout.add(rows)
    return layout.frame(rows, more)


class Layout:
    """Which columns the table of rows has that are seen one after another; a row may bring further ones."""

    def __init__(self) -> None:
        self._columns: dict[str, set[Column]] = {}
        self._composites: set[str] = set()
        self._judges: dict[str, dict[str, None]] = {}
        self._fields: dict[str, None] = dict.fromkeys(_ALWAYS)

    def add(self, rows: Iterable[Row]) -> None:
        """Note which columns these rows take."""
        for row in rows:
            for key, score in row.scores.items():
                columns = self._columns.setdefault(key, set())
                columns.update(column for column in SCORE_COLUMNS if column not in columns and column.shows(score))
                if "coverage" in score.details:
                    self._composites.add(key)
                self._judges.setdefault(key, {}).update(dict.fromkeys(_panel(score)))
            self._fields |= dict.fromkeys(_record(row.sample))

    def frame(self, rows: Sequence[Row], more: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
        """The table of these rows, all of which were noted; ``more`` as in ``rows_frame``."""
        import pandas as pd

        keys = sorted(self._columns, key=lambda key: key not in self._composites)
        scores = {key: [row.scores.get(key, _ABSENT) for row in rows] for key in keys}

        def columns_of(key: str, wanted: Sequence[Column]) -> dict[str, Any]:
            columns = [column for column in wanted if column in self._columns[key]]
            if wanted is ORIGINS:
                columns += [_column_of(*judge) for judge in _slugs(self._judges[key]).items()]
            return {f"{key}{column.suffix}": _array(column, scores[key]) for column in columns}

        values, reasons, origins = (
            {name: column for key in keys for name, column in columns_of(key, wanted).items()}
            for wanted in (VALUES, (REASON,), ORIGINS)
        )
        reserved = {f"{key}{column.suffix}" for key in keys for column in SCORE_COLUMNS} | origins.keys()
        records = [_record(row.sample) for row in rows]
        fields: dict[str, Any] = {}
        for name in self._fields:
            column = plain_text(f"{name}_given" if name in reserved else str(name))
            fields[column] = _objects([plain(record.get(name)) for record in records])
        named = {name: _objects(column) for name, column in (more or {}).items()}
        first = {name: fields.pop(name) for name in _FIRST}
        others = {name: column for name, column in fields.items() if name not in named}
        return pd.DataFrame({**first, **values, **reasons, **named, **others, **origins})


def _column_of(judge: str, slug: str) -> Column:
    return Column(f"_judge_{slug}", "number", lambda score: score.model_scores.get(judge))


def _array(column: Column, scores: Sequence[Score]) -> Any:
    import pandas as pd

    values = list(map(column.read, scores))
    if column.kind == "number":
        return pd.array(values, dtype="Float64")
    if column.kind == "truth":
        return pd.array(values, dtype="boolean")
    return _objects(plain_texts(values) if column is REASON else values)


TELLING = ("context_utilization", "noise_sensitivity_relevant")
"""The metrics that tell together which part failed, also under a prefix."""


def has_diagnoses(keys: Iterable[str]) -> bool:
    """Whether rows with scores of these ``keys`` have the columns that say which part failed."""
    listed = list(keys)
    return all(any(name.endswith(wanted) for name in listed) for wanted in TELLING)


def items_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One row per item, with the sample's id and the metric's key.

    ``against`` is the text that a claim was held against, where it was not the passages; ``evidence`` is a list of
    mappings, ``unbacked`` the parts of an unsupported claim that no passage backs by its words.
    """
    import pandas as pd

    scored = [(row.sample, key, score) for row in rows for key, score in row.scores.items()]
    sizes, found = item_columns((score, sample) for sample, _, score in scored)
    columns: dict[str, Any] = {name: _objects(values) for name, values in found.items()}
    columns["support"] = pd.array(found["support"], dtype="Float64")
    ids = plain_texts(sample.id for sample, _, _ in scored)
    columns["id"] = _objects([name for name, size in zip(ids, sizes, strict=True) for _ in range(size)])
    columns["metric"] = _objects([key for (_, key, _), size in zip(scored, sizes, strict=True) for _ in range(size)])
    judge = ("judge",) if any(found["judge"]) else ()
    return pd.DataFrame({name: columns[name] for name in (*ITEM_COLUMNS, *judge)})


def _objects(values: Sequence[Any]) -> pd.Series[Any]:
    """A column of what ``values`` are, which pandas would turn into texts and NaN."""
    import pandas as pd

    return pd.Series(values, dtype=object)


def row_without_texts(row: Row) -> Row:
    """The row's ids, scores and verdicts; of details the numbers, of an error its class, of metadata the trace's id."""
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
        item.changed(text="", reason="", evidence=tuple(replace(each, quote="") for each in item.evidence))
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
    """Fields before metadata, an entry of the metadata as JSON where it is no text, number or truth value."""
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
    given = {
        name: value if value is None or isinstance(value, (str, int, float)) else _as_text(value)
        for name, value in sample.metadata.items()
        if name not in known
    }
    return {**known, **given}


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
