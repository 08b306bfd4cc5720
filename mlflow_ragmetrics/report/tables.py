"""A report's rows as pandas tables: one row per sample, and one row per claim, token, sentence, chunk or document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from mlflow_ragmetrics.core.json_text import plain, plain_text, plain_texts
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Better, Item, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.judges.lexical.backing import unbacked_in
from mlflow_ragmetrics.rows.results import BETTER

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ITEM_COLUMNS",
    "GatheredItems",
    "Layout",
    "TELLING",
    "has_diagnoses",
    "items_frame",
    "judge_slugs",
    "row_without_texts",
    "rows_frame",
]

ITEM_COLUMNS = ("id", "metric", "kind", "text", "verdict", "against", "reason", "support", "evidence", "unbacked")

_FIRST = ("id", "question", "answer")
_UNSAFE = re.compile(r"[^\w\-.]+", re.ASCII)


def judge_slugs(scores: Sequence[Score]) -> dict[str, str]:
    """The judges of a panel by name, each with a name that files, columns and metrics can bear; empty for one judge."""
    return _slugs(dict.fromkeys(name for score in scores if "judges_asked" in score.details for name in _judges(score)))


def _judges(score: Score) -> tuple[str, ...]:
    return *score.model_scores, *score.excluded_models


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
        self._keys: dict[str, _Traits] = {}
        self._fields: dict[str, None] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Note which columns these rows take."""
        for row in rows:
            for key, score in row.scores.items():
                traits = self._keys.get(key)
                if traits is None:
                    traits = self._keys[key] = _Traits()
                traits.add(score)
            self._fields |= dict.fromkeys((*_ALWAYS, *_optional_of(row.sample), *row.sample.metadata))

    def frame(self, rows: Sequence[Row], more: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
        """The table of these rows, all of which were noted; ``more`` as in ``rows_frame``."""
        import pandas as pd

        by_rank = sorted(self._keys, key=lambda key: not self._keys[key].is_composite)
        scores = {key: [row.scores.get(key, _ABSENT) for row in rows] for key in by_rank}
        values = {n: column for key in by_rank for n, column in self._keys[key].values(key, scores[key]).items()}
        reasons = {f"{key}_reason": plain_texts(each.error or each.reason for each in scores[key]) for key in by_rank}
        origins = {n: column for key in by_rank for n, column in self._keys[key].origins(key, scores[key]).items()}
        named = dict(more or {})
        taken = {f"{key}{suffix}" for key in self._keys for suffix in _SUFFIXES} | values.keys() | origins.keys()
        records = [{**row.sample.metadata, **_fields_of(row.sample)} for row in rows]
        fields = {
            plain_text(f"{name}_given" if name in taken else str(name)): _plain_column(
                name, [each.get(name) for each in records]
            )
            for name in self._fields
        }
        others = {name: column for name, column in fields.items() if name not in _FIRST and name not in named}
        first = pd.DataFrame({name: fields[name] for name in _FIRST}, dtype=object)
        parts = [pd.DataFrame(each, index=first.index) for each in ({**values, **reasons, **named}, origins)]
        return pd.concat([first, parts[0], pd.DataFrame(others, index=first.index, dtype=object), parts[1]], axis=1)


_SUFFIXES = ("", "_1to5", "_passed", "_reason", "_status", "_better", "_measured", "_support", "_judge")


class _Traits:
    """What the scores of one key have, which decides their columns."""

    def __init__(self) -> None:
        self.is_composite = False
        self.slugs: dict[str, str] = {}
        self._panel: dict[str, None] = {}
        self._has: set[str] = set()
        self._better: Better = True

    def add(self, score: Score) -> None:
        self.is_composite = self.is_composite or "coverage" in score.details
        if score.higher_is_better is not True:
            self._better = score.higher_is_better
        if score.scaled is not None:
            self._has.add("1to5")
        if score.threshold is not None:
            self._has.add("passed")
        if score.scored and not score.measured:
            self._has.add("measured")
        if score.details.get("support") is not None:
            self._has.add("support")
        if score.model_scores:
            self._has.add("judge")
        if "judges_asked" in score.details:
            known = len(self._panel)
            self._panel.update(dict.fromkeys(_judges(score)))
            self.slugs = _slugs(self._panel) if len(self._panel) > known else self.slugs

    def values(self, key: str, scores: Sequence[Score]) -> dict[str, Any]:
        import pandas as pd

        columns: dict[str, Any] = {key: pd.array([score.value for score in scores], dtype="Float64")}
        if "1to5" in self._has:
            columns[f"{key}_1to5"] = pd.array([score.scaled for score in scores], dtype="Float64")
        if "passed" in self._has:
            columns[f"{key}_passed"] = pd.array([score.passed for score in scores], dtype="boolean")
        return columns

    def origins(self, key: str, scores: Sequence[Score]) -> dict[str, Any]:
        import pandas as pd

        columns: dict[str, Any] = {f"{key}_status": [score.status for score in scores]}
        if self._better is not True:
            columns[f"{key}_better"] = [BETTER[self._better]] * len(scores)
        if "measured" in self._has:
            columns[f"{key}_measured"] = [score.measured for score in scores]
        if "support" in self._has:
            columns[f"{key}_support"] = pd.array([score.details.get("support") for score in scores], dtype="Float64")
        if "judge" in self._has:
            columns[f"{key}_judge"] = pd.array([score.judge for score in scores], dtype=object)
        for name, slug in self.slugs.items():
            values = [score.model_scores.get(name) for score in scores]
            columns[f"{key}_judge_{slug}"] = pd.array(values, dtype="Float64")
        return columns


TELLING = ("context_utilization", "noise_sensitivity_relevant")
"""The metrics that tell together which part failed, also under a prefix."""


def has_diagnoses(keys: Iterable[str]) -> bool:
    """Whether rows with scores of these ``keys`` have the columns that say which part failed."""
    listed = list(keys)
    return all(any(name.endswith(wanted) for name in listed) for wanted in TELLING)


def items_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One row per item, with the sample's id and the metric's key.

    ``against`` is the text that a claim was held against, where it was not the passages; ``evidence`` is a list of
    mappings, ``unbacked`` the parts of an unsupported claim that no passage backs by its words, found here for those
    who look at the table.
    """
    import pandas as pd
    from pandas.arrays import FloatingArray

    scored = [(row.sample, key, score) for row in rows for key, score in row.scores.items()]
    found = GatheredItems((score, sample) for sample, _, score in scored)
    none: list[Any] = []  # one for all: a list per item would keep the garbage collector busy
    evidence, unbacked = [none] * len(found.texts), [none] * len(found.texts)
    judges: list[str | None] = [None] * len(found.texts)
    support = FloatingArray(np.zeros(len(found.texts)), np.ones(len(found.texts), bool))
    graded = [(place, item.support) for start, items, _ in found.given for place, item in enumerate(items, start)]
    if graded:
        support[np.array([place for place, _ in graded])] = pd.array([value for _, value in graded], dtype="Float64")
    for start, items, sample in found.given:
        places = slice(start, start + len(items))
        judges[places] = [item.judge for item in items]
        evidence[places] = [_evidence(item) if item.evidence else none for item in items]
        unbacked[places] = [
            plain(list(unbacked_in(item, sample.texts))) if item.unbacked_by_chunks else none for item in items
        ]
    columns = {
        "id": np.repeat(_objects(plain_texts(sample.id for sample, _, _ in scored)), found.sizes),
        "metric": np.repeat(_objects([key for _, key, _ in scored]), found.sizes),
        "kind": _objects(found.kinds),
        "text": _objects(plain_texts(found.texts)),
        "verdict": _objects(found.verdicts),
        "against": _objects(found.against),
        "reason": _objects(plain_texts(found.reasons)),
        "evidence": _objects(evidence),
        "unbacked": _objects(unbacked),
    }
    frame = pd.DataFrame(columns, dtype=object, copy=False)
    frame.insert(ITEM_COLUMNS.index("support"), "support", pd.Series(support))
    if any(judges):
        frame["judge"] = judges
    return frame


class GatheredItems:
    """The items of many scores, field by field; ``sizes`` says how many each score has.

    ``given`` has those of the scores that have no columns, each with the place of the first and the score's sample: no
    other item has support, a judge or evidence.
    """

    def __init__(self, scored: Iterable[tuple[Score, Sample]]) -> None:
        self.sizes: list[int] = []
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.verdicts: list[str | None] = []
        self.against: list[str | None] = []
        self.reasons: list[str] = []
        self.given: list[tuple[int, Sequence[Item], Sample]] = []
        for score, sample in scored:
            columns = score.item_columns()
            if columns is None:
                self._add(score.items, sample)
            else:
                size = len(columns.texts)
                self.sizes.append(size)
                self.kinds += repeat(columns.kind, size)
                self.texts += columns.texts
                self.verdicts += columns.verdicts
                self.against += repeat(columns.against, size)
                self.reasons += repeat("", size) if columns.reasons is None else columns.reasons

    def _add(self, items: Sequence[Item], sample: Sample) -> None:
        self.sizes.append(len(items))
        if items:
            self.given.append((len(self.texts), items, sample))
            self.kinds += [item.kind for item in items]
            self.texts += [item.text for item in items]
            self.verdicts += [item.verdict for item in items]
            self.against += [item.against for item in items]
            self.reasons += [item.reason for item in items]


def _objects(values: Sequence[Any]) -> np.ndarray:
    return np.fromiter(values, object, len(values))


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


_ABSENT = Score()


def _evidence(item: Item) -> list[dict[str, Any]]:
    return [plain({"chunk": each.chunk, "id": each.id, "quote": each.quote}) for each in item.evidence]


_ALWAYS = (*_FIRST, "reference")
_OPTIONAL = ("contexts", "retrieved_doc_ids", "gold_doc_ids", "history")


def _optional_of(sample: Sample) -> list[str]:
    return [name for name in _OPTIONAL if getattr(sample, name) is not None]


def _fields_of(sample: Sample) -> dict[str, Any]:
    references = list(sample.references or ())
    reference = references if len(references) > 1 else sample.reference
    fields: dict[str, Any] = dict(zip(_ALWAYS, (sample.id, sample.question, sample.answer, reference), strict=True))
    for name in _optional_of(sample):
        if name == "contexts":
            fields[name] = [chunk.text for chunk in sample.contexts or ()]
        elif name == "history":
            fields[name] = json.dumps([asdict(message) for message in sample.history or ()], ensure_ascii=False)
        else:
            fields[name] = list(getattr(sample, name))
    return fields


def _plain_column(name: str, values: list[Any]) -> list[Any]:
    return plain_texts(values) if set(map(type, values)) == {str} else [_plain(name, value) for value in values]


def _plain(name: str, value: Any) -> Any:
    """A field as it is, and an entry of the metadata as text where it is no text, number or truth value."""
    if name in _FIELDS or isinstance(value, (str, int, float, bool)) or value is None:
        return plain(value)
    return plain_text(json.dumps(value, ensure_ascii=False, default=str))


_FIELDS = frozenset({*_ALWAYS, *_OPTIONAL})
