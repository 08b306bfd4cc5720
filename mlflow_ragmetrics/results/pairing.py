"""Pairs the rows of two evaluations and checks that both were measured the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mlflow_ragmetrics.core.definition import Definition
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.score import LARGEST
from mlflow_ragmetrics.display.document import shorten
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.registry import metric_of
from mlflow_ragmetrics.results.results import Results
from mlflow_ragmetrics.rows.values import decoded
from mlflow_ragmetrics.text.messages import counted
from mlflow_ragmetrics.text.non_answers import is_error_text, is_indistinct

if TYPE_CHECKING:
    import pandas as pd

_NAMED = 5
_TEXTS = ("answer", "reference")
Column = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Pairing:
    """Positions of the paired rows in both tables, and the names of rows without a partner."""

    ids: tuple[str, ...]
    rows_a: tuple[int, ...]
    rows_b: tuple[int, ...]
    by: Literal["id", "content"]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, a: pd.Series[Any], b: pd.Series[Any]) -> tuple[Column, Column]:
        """A column of each table in the order of the pairs; NaN: missing."""
        return numbers_of(a)[list(self.rows_a)], numbers_of(b)[list(self.rows_b)]

    def texts(self, a: Results, b: Results, name: str) -> list[tuple[str, str]]:
        """The stripped texts of the column ``name`` in A and in B, in the order of the pairs; empty if missing."""
        texts_a, texts_b = (column_texts(each.table, name) for each in (a, b))
        return [(texts_a[row_a], texts_b[row_b]) for row_a, row_b in zip(self.rows_a, self.rows_b, strict=True)]

    def failed(self, a: Results, b: Results) -> tuple[Column, Column]:
        """Which pairs failed in A and in B: see ``failed_rows``, or contexts on the other side only."""
        rows_a, rows_b = list(self.rows_a), list(self.rows_b)
        bare_a, bare_b = _contextless(a.table)[rows_a], _contextless(b.table)[rows_b]
        return failed_rows(a)[rows_a] | (bare_a & ~bare_b), failed_rows(b)[rows_b] | (bare_b & ~bare_a)


def pair(a: Results, b: Results) -> Pairing:
    """Pair rows by id, or by question and reference if ids are missing, repeated or not shared.

    Raises ``InvalidDataError`` if no row has a partner.
    """
    ids_a, ids_b = _ids(a.table), _ids(b.table)
    pairing = _by("id", a, ids_a, b, ids_b)
    if not len(pairing):
        pairing = _by("content", a, _contents(a.table), b, _contents(b.table))
        if ids_a and ids_b:
            note = f"{a.name} and {b.name} share no id: their rows are paired by question and reference"
            pairing = replace(pairing, warnings=(note, *pairing.warnings))
    if not len(pairing):
        message = f"{a.name} and {b.name} have no row in common, by id or by question; compare runs over the same data"
        raise InvalidDataError(message)
    return pairing


def _by(how: Literal["id", "content"], a: Results, names_a: list[str], b: Results, names_b: list[str]) -> Pairing:
    places = {name: place for place, name in enumerate(names_b)}
    shared = [(name, place, places[name]) for place, name in enumerate(names_a) if name in places]
    common = {name for name, _, _ in shared}
    only_a = tuple(name for name in names_a if name not in common)
    only_b = tuple(name for name in names_b if name not in common)
    rows_a, rows_b = tuple(row for _, row, _ in shared), tuple(row for _, _, row in shared)
    ids = tuple(name.splitlines()[0] if name else str(place) for name, place, _ in shared)
    pairing = Pairing(ids, rows_a, rows_b, how, only_a, only_b)
    warnings = [_unmatched(each.name, only) for each, only in ((a, only_a), (b, only_b)) if only]
    changed = [name for name, _, _ in _differing("question", a, b, pairing)]
    if changed:
        warnings.append(f"rows with the same id have different questions: {len(changed)} ({_listed(changed)})")
    return replace(pairing, warnings=tuple(warnings))


def _unmatched(name: str, rows: Sequence[str]) -> str:
    has, is_ = ("has", "is") if len(rows) == 1 else ("have", "are")
    return f"{counted(len(rows), 'row')} of {name} {has} no partner and {is_} left out ({_listed(rows)})"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(" ".join(name.split()) for name in names[:_NAMED])
    return f"{shown}, …" if len(names) > _NAMED else shown


def _differing(name: str, a: Results, b: Results, pairing: Pairing) -> list[tuple[str, str, str]]:
    """The pairs whose texts in the column ``name`` differ: id and both texts. Empty if a table lacks the column."""
    if not all(name in each.table.columns for each in (a, b)):
        return []
    return [(each, x, y) for each, (x, y) in zip(pairing.ids, pairing.texts(a, b, name), strict=True) if x != y]


def _ids(table: pd.DataFrame) -> list[str]:
    if "id" not in table.columns:
        return []
    ids = [_text(value) for value in table["id"]]
    return [] if "" in ids or len(set(ids)) < len(ids) else ids


def _contents(table: pd.DataFrame) -> list[str]:
    columns = [table[name].tolist() for name in ("question", "reference") if name in table.columns]
    seen: Counter[str] = Counter()
    names = []
    for row in zip(*columns, strict=True):
        name = "\n".join(map(_text, row))
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}\n{seen[name]}")
    return [] if not any(name.strip() for name in names) else names


def _text(value: Any) -> str:
    value = decoded(value)  # Parquet and CSV hold a list as JSON
    if isinstance(value, (list, tuple)):
        return "\n".join(map(str, value))
    return "" if value is None or value != value else str(value)


def numbers_of(column: pd.Series[Any]) -> Column:
    """The values of a column; NaN if missing or out of range."""
    import pandas as pd

    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.abs(values) <= LARGEST, values, np.nan)


def measured(results: Results, key: str, column: str | None = None) -> pd.Series[Any]:
    """The measured scores of ``key``, or another ``column`` of these rows; scores set by a rule are missing."""
    ruled = f"{key}_measured"
    values = results.table[column or key]
    return values if ruled not in results.table.columns else values.where(is_true(results.table[ruled]))


def is_true(column: pd.Series[Any]) -> pd.Series[bool]:
    """Booleans, also as text from CSV."""
    return column.astype(str).str.lower().eq("true")


def metric_spans(scores: Mapping[str, tuple[Column, Column]]) -> dict[str, float]:
    """The largest possible difference of each metric: its range (1 if unknown), or the observed range if larger."""
    found = {}
    for key, sides in scores.items():
        values, known = np.concatenate(sides), definition_of(key)
        seen = values[~np.isnan(values)]
        span = 1.0 if known is None else known.range[1] - known.range[0]
        found[key] = max(span, float(np.ptp(seen))) if seen.size else span
    return found


def column_texts(table: pd.DataFrame, name: str) -> list[str]:
    """The stripped texts of a column; empty if missing."""
    return [_text(value).strip() for value in table[name]] if name in table.columns else [""] * len(table)


def failed_rows(results: Results) -> Column:
    """Rows without an answer or with a failed score; metrics that did not measure them count them as lost.

    A refusal is correct if the reference refuses too: such a row is not lost.
    """
    table = results.table
    failed = np.zeros(len(table), dtype=bool)
    for key in results.keys:
        failed |= table[f"{key}_status"].eq("error").to_numpy(dtype=bool, na_value=False)
    for place, (answer, reference) in enumerate(zip(*(column_texts(table, n) for n in _TEXTS), strict=True)):
        if is_indistinct(answer):
            failed[place] = not is_refused_rightly(answer, [reference] if reference else [])
    return failed


def is_refused_rightly(answer: str | None, references: Sequence[str]) -> bool:
    """Whether a non-answer is correct because a reference is a non-answer too; an error text never is."""
    return bool(answer and not is_error_text(answer)) and any(map(is_indistinct, references))


def _contextless(table: pd.DataFrame) -> Column:
    held = table["contexts"] if "contexts" in table.columns else [None] * len(table)
    return np.array([not has_contexts(each) for each in held], dtype=bool)


def has_contexts(value: Any) -> bool:
    """Whether a table cell, a list or a text, has a non-blank context."""
    return _text(value).strip() != ""


def check_references(a: Results, b: Results, pairing: Pairing, keys: Sequence[str], allow_different: bool) -> list[str]:
    """A warning that names the rows with different references; a missing reference is not a difference.

    Raises ``InvalidOptionError`` if one of the metrics ``keys`` reads references, unless ``allow_different``.
    """
    pairs = _differing("reference", a, b, pairing)
    changed = [name for name, text_a, text_b in pairs if text_a and text_b]
    if not changed:
        return []
    found = f"{counted(len(changed), 'row')} of {a.name} and {b.name} have different references ({_listed(changed)})"
    known = {key: definition_of(key) for key in keys}  # a metric that is not installed may read references
    reading = [key for key, each in known.items() if each is None or "reference" in (*each.required, *each.optional)]
    if reading and not allow_different:
        message = (
            f"reference: {found}, which {', '.join(reading)} read; score both runs with the same references, or pass "
            "allow_different=True (--allow-different)"
        )
        raise InvalidOptionError(message, param="allow_different")
    return [found]


def definition_of(key: str) -> Definition | None:
    """The definition of the metric with this key; ``None`` for composites and metrics that are not installed."""
    try:
        found = metric_of(key)
    except InvalidOptionError:
        return None
    return found.definition if isinstance(found, Metric) else None


_MEASURE = {
    "judge": "judge",
    "judge_versions": "judge or prompt version",
    "metrics": "suite",
    "weights": "weights",
    "thresholds": "thresholds",
    "embeddings": "embeddings",
}
_LONGEST = 80


def check_alike(a: Results, b: Results, allow_different: bool) -> list[str]:
    """Raise ``InvalidOptionError`` if judge, prompts or suite differ; with ``allow_different``, return warnings.

    A judge without a version cannot be identified, which is a warning.
    """
    phrases = [  # entries of only one side are not compared
        f"{name} ({_brief(a.description[entry])} / {_brief(b.description[entry])})"
        for entry, name in _MEASURE.items()
        if entry in a.description and entry in b.description and _same(a, entry) != _same(b, entry)
    ]
    unknown = [each.name for each in (a, b) if not any(entry in each.description for entry in _MEASURE)]
    warnings = [f"{name} does not record its judge and suite" for name in unknown]
    nameless = sorted(set(_unidentified(a)) & set(_unidentified(b)))
    if nameless:
        told = f"{a.name} and {b.name} were judged by {', '.join(nameless)} without a known version or prompts"
        warnings.append(f"{told}: a difference may come from a changed judge")
    calls = [each.description.get("calls") or None for each in (a, b)]
    if None not in calls and calls[0] != calls[1]:
        told = f"the judges used different calls ({_brief(calls[0])} / {_brief(calls[1])})"
        warnings.append(f"{a.name} and {b.name}: {told}; set the same calls= for both to compare only the answers")
    if not phrases:
        return warnings
    found = f"{a.name} and {b.name} were measured differently: {'; '.join(phrases)}"
    if not allow_different:
        message = f"{found}; score both with one suite, or pass allow_different=True (--allow-different)"
        raise InvalidOptionError(message, param="allow_different")
    return [*warnings, found]


def _unidentified(results: Results) -> list[str]:
    """The judges without a version."""
    versions = results.description.get("judge_versions")
    return [name for name, version in versions.items() if not version] if isinstance(versions, dict) else []


def _same(results: Results, entry: str) -> Any:
    """The entry, with lists sorted."""
    value = results.description[entry]
    return sorted(map(str, value)) if isinstance(value, (list, tuple)) else value


def _brief(value: Any) -> str:
    parts = [f"{key} {each}" for key, each in value.items()] if isinstance(value, dict) else value
    text = ", ".join(map(str, parts)) if isinstance(parts, (list, tuple)) else str(parts)
    return shorten(text or "none", _LONGEST)
