"""Pairs the rows of two evaluations and checks that both were measured the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.metric import Definition, Metric
from mlflow_ragmetrics.core.score import LARGEST
from mlflow_ragmetrics.display.document import shorten
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.registry import Measure, metric_of
from mlflow_ragmetrics.results.evaluation import Evaluation
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
    """Positions of the paired rows in both tables, and the names of rows without a partner.

    ``unlike``: by metric, the positions of the pairs that it cannot compare (see ``like_with_like``).
    """

    ids: tuple[str, ...]
    rows_a: tuple[int, ...]
    rows_b: tuple[int, ...]
    by: Literal["id", "content"]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unlike: Mapping[str, frozenset[int]] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def scores(self, a: Evaluation, b: Evaluation, key: str) -> tuple[Column, Column]:
        """The measured scores of ``key`` in the order of the pairs; NaN: not measured, or not comparable."""
        sides = measured(a, key)[list(self.rows_a)], measured(b, key)[list(self.rows_b)]
        for side in sides:
            side[self.is_unlike(key)] = np.nan
        return sides

    def is_unlike(self, key: str) -> Column:
        """Which pairs ``key`` cannot compare."""
        marks = np.zeros(len(self), dtype=bool)
        marks[list(self.unlike.get(key, ()))] = True
        return marks

    def texts(self, a: Evaluation, b: Evaluation, name: str) -> list[tuple[str, str]]:
        """The stripped texts of the column ``name`` in A and in B, in the order of the pairs; empty if missing."""
        texts_a, texts_b = (column_texts(results.table, name) for results in (a, b))
        return [(texts_a[row_a], texts_b[row_b]) for row_a, row_b in zip(self.rows_a, self.rows_b, strict=True)]

    def failed(self, a: Evaluation, b: Evaluation) -> tuple[Column, Column]:
        """Which pairs failed in A and in B: see ``failed_rows``, or contexts on the other side only."""
        bare_a, bare_b = np.array([[not text for text in texts] for texts in self.texts(a, b, "contexts")]).T
        failed_a, failed_b = failed_rows(a)[list(self.rows_a)], failed_rows(b)[list(self.rows_b)]
        return failed_a | (bare_a & ~bare_b), failed_b | (bare_b & ~bare_a)


def pair(a: Evaluation, b: Evaluation) -> Pairing:
    """Pair rows by id; if ids are missing, repeated or not shared, by question and reference, else by question alone.

    Raises ``InvalidDataError`` if no row has a partner.
    """
    ids_a, ids_b = _ids(a.table), _ids(b.table)
    pairing = _by("id", a, ids_a, b, ids_b)
    if not len(pairing):
        for fields in (("question", "reference"), ("question",)):
            pairing = _by("content", a, _contents(a.table, fields), b, _contents(b.table, fields))
            if len(pairing):
                break
        if ids_a and ids_b:
            note = f"{a.name} and {b.name} share no id: their rows are paired by {' and '.join(fields)}"
            pairing = replace(pairing, warnings=(note, *pairing.warnings))
    if not len(pairing):
        message = f"{a.name} and {b.name} have no row in common, by id or by question; compare runs over the same data"
        raise InvalidDataError(message)
    return pairing


def _by(how: Literal["id", "content"], a: Evaluation, names_a: list[str], b: Evaluation, names_b: list[str]) -> Pairing:
    places = {name: place for place, name in enumerate(names_b)}
    shared = [(name, place, places[name]) for place, name in enumerate(names_a) if name in places]
    common = {name for name, _, _ in shared}
    only_a = tuple(name for name in names_a if name not in common)
    only_b = tuple(name for name in names_b if name not in common)
    rows_a, rows_b = tuple(row for _, row, _ in shared), tuple(row for _, _, row in shared)
    ids = tuple(name.splitlines()[0] if name else str(place) for name, place, _ in shared)
    warnings = [_unmatched(results.name, only) for results, only in ((a, only_a), (b, only_b)) if only]
    return Pairing(ids, rows_a, rows_b, how, only_a, only_b, tuple(warnings))


def _unmatched(name: str, rows: Sequence[str]) -> str:
    has, is_ = ("has", "is") if len(rows) == 1 else ("have", "are")
    return f"{counted(len(rows), 'row')} of {name} {has} no partner and {is_} left out ({_listed(rows)})"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(" ".join(name.split()) for name in names[:_NAMED])
    return f"{shown}, …" if len(names) > _NAMED else shown


def _ids(table: pd.DataFrame) -> list[str]:
    if "id" not in table.columns:
        return []
    ids = [_text(value) for value in table["id"]]
    return [] if "" in ids or len(set(ids)) < len(ids) else ids


def _contents(table: pd.DataFrame, fields: Sequence[str]) -> list[str]:
    columns = [table[name].tolist() for name in fields if name in table.columns]
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


def measured(results: Evaluation, key: str) -> Column:
    """The measured scores of ``key``; NaN: missing, set by a rule, or out of range."""
    values = results.table[key].to_numpy(dtype=float, na_value=np.nan)
    by_formula: Any = results.table.get(f"{key}_measured")
    is_kept = True if by_formula is None else by_formula.to_numpy(dtype=bool, na_value=False)
    return np.where(is_kept & (np.abs(values) <= LARGEST), values, np.nan)


def metric_spans(scores: Mapping[str, tuple[Column, Column]]) -> dict[str, float]:
    """The largest possible difference of each metric: its range (1 if unknown), or the observed range if larger."""
    spans = {}
    for key, sides in scores.items():
        values, (low, high) = np.concatenate(sides), metric_range(key)
        seen = values[~np.isnan(values)]
        spans[key] = max(high - low, float(np.ptp(seen))) if seen.size else high - low
    return spans


def metric_range(key: str) -> tuple[float, float]:
    """The lowest and the highest value of a metric; 0 and 1 if it is not known."""
    known = definition_of(key)
    return (0.0, 1.0) if known is None else known.range


def column_texts(table: pd.DataFrame, name: str) -> list[str]:
    """The stripped texts of a column; empty if missing."""
    return [_text(value).strip() for value in table[name]] if name in table.columns else [""] * len(table)


def failed_rows(results: Evaluation) -> Column:
    """Rows without an answer or with a failed score; metrics that did not measure them count them as lost.

    A refusal is correct if the reference refuses too: such a row is not lost.
    """
    table = results.table
    failed = np.zeros(len(table), dtype=bool)
    for key in results.keys:
        failed |= table[f"{key}_status"].eq("error").to_numpy(dtype=bool, na_value=False)
        votes = table[[name for name in table.columns if name.startswith(f"{key}_judge_")]].notna().to_numpy(dtype=bool)
        failed |= votes.any(axis=1) & ~votes.all(axis=1) & np.isnan(measured(results, key))
    for place, (answer, reference) in enumerate(zip(*(column_texts(table, n) for n in _TEXTS), strict=True)):
        if is_indistinct(answer):
            failed[place] = not is_refused_rightly(answer, [reference] if reference else [])
    return failed


def is_refused_rightly(answer: str | None, references: Sequence[str]) -> bool:
    """Whether a non-answer is correct because a reference is a non-answer too; an error text never is."""
    return bool(answer and not is_error_text(answer)) and any(map(is_indistinct, references))


# These read the reference only to choose the rule for a non-answer; what they measure does not depend on its words.
_REFERENCE_FOR_RULES = ("faithfulness", "chunk_precision", "fact_recall", "answer_relevance", "weakest_claim")
_COMPARED = {"question": "questions", "reference": "references", "gold_doc_ids": "gold documents"}


def like_with_like(
    a: Evaluation, b: Evaluation, pairing: Pairing, keys: Sequence[str], allow_different: bool
) -> Pairing:
    """``pairing`` with the pairs that the metrics ``keys`` cannot compare, and with a warning for each cause.

    A pair is not comparable if its question differs, if a field that the metric reads differs (one side may lack it),
    or if a composite was measured on both sides, but from different members. Texts that a run does not have at all are
    unknown, not different. With ``allow_different`` there are only the warnings.
    """
    unlike: dict[str, set[int]] = {key: set() for key in keys}
    warnings = list(pairing.warnings)
    fields = {key: _fields_read([*_weights(a, key), *_weights(b, key)] or [key]) for key in keys}
    causes = [(noun, _differing(name, a, b, pairing), name) for name, noun in _COMPARED.items()]
    causes += [(f"measured members of {key}", _other_members(key, a, b, pairing), key) for key in keys]
    for noun, places, name in causes:
        if places:
            reading = [key for key in keys if name in (key, "question") or name in fields[key]]
            difference = f"{counted(len(places), 'row')} of {a.name} and {b.name} have different {noun}"
            left_out = f": not compared on {', '.join(reading)}" if reading and not allow_different else ""
            warnings.append(f"{difference} ({_listed([pairing.ids[place] for place in places])}){left_out}")
            for key in reading:
                unlike[key].update(places)
    marks = {} if allow_different else {key: frozenset(places) for key, places in unlike.items() if places}
    return replace(pairing, warnings=tuple(warnings), unlike=marks)


def _differing(name: str, a: Evaluation, b: Evaluation, pairing: Pairing) -> list[int]:
    """The pairs whose texts in the column ``name`` differ.

    A question that one side lacks is unknown, and so is any text of a row that was stored without texts.
    """
    asked, answered = (pairing.texts(a, b, column) for column in ("question", "answer"))
    places = []
    for place, (texts, questions, answers) in enumerate(zip(pairing.texts(a, b, name), asked, answered, strict=True)):
        is_known = all(map(any, zip(questions, answers, strict=True))) and name != "question"
        x, y = (sorted(text.splitlines()) if name == "gold_doc_ids" else text.split() for text in texts)
        if x != y and (is_known or all(texts)):
            places.append(place)
    return places


def _other_members(key: str, a: Evaluation, b: Evaluation, pairing: Pairing) -> list[int]:
    """The pairs in which both sides measured the composite ``key``, but from different members."""
    other = np.zeros(len(pairing), dtype=bool)
    for member in {*_weights(a, key), *_weights(b, key)}:
        scored = (
            _is_scored(side.table, member)[list(rows)] for side, rows in ((a, pairing.rows_a), (b, pairing.rows_b))
        )
        other |= np.not_equal(*scored)
    both = ~np.isnan(pairing.scores(a, b, key)).any(axis=0)
    return np.flatnonzero(other & both).tolist()


def _is_scored(table: pd.DataFrame, key: str) -> Column:
    status = f"{key}_status"
    return np.array(table[status].eq("ok") if status in table.columns else [False] * len(table), dtype=bool)


def _weights(results: Evaluation, key: str) -> dict[str, float]:
    return weights_in(results.description, key)


def weights_in(description: Mapping[str, Any], key: str) -> dict[str, float]:
    """The positive weights in the composite ``key``, by metric; empty for a metric and for an unknown composite."""
    weights = description.get("weights") or {}
    name = next((name for name in weights if key.endswith(name)), key)  # a suite may have a prefix
    known = measure_of(name) if name not in weights else None
    shares = known.weights if isinstance(known, Composite) else weights.get(name, {})
    return {key.removesuffix(name) + member: share for member, share in shares.items() if share > 0}


def _fields_read(keys: Sequence[str]) -> set[str]:
    """The fields that the metrics ``keys`` read; a metric that is not installed may read any."""
    fields: set[str] = set()
    for key in keys:
        known = definition_of(key)
        read = {*_COMPARED} if known is None else {*known.required, *known.optional}
        fields |= read - {"reference"} if key in _REFERENCE_FOR_RULES else read
    return fields


def measure_of(key: str) -> Measure | None:
    """The metric or composite with this key; ``None`` if it is not installed."""
    try:
        return metric_of(key)
    except InvalidOptionError:
        return None


def definition_of(key: str) -> Definition | None:
    """The definition of the metric with this key; ``None`` for composites and metrics that are not installed."""
    measure = measure_of(key)
    return measure.definition if isinstance(measure, Metric) else None


_MEASURE = {
    "judge": "judge",
    "judge_versions": "judge or prompt version",
    "panel": "panel of judges",
    "metrics": "suite",
    "weights": "weights",
    "thresholds": "thresholds",
    "embeddings": "embeddings",
}
_LONGEST = 80


def check_alike(a: Evaluation, b: Evaluation, allow_different: bool) -> list[str]:
    """Raise ``InvalidOptionError`` if judge, prompts or suite differ; with ``allow_different``, return warnings.

    A judge without a version cannot be identified, which is a warning.
    """
    phrases = [  # entries of only one side are not compared
        f"{name} ({_brief(a.description[entry])} / {_brief(b.description[entry])})"
        for entry, name in _MEASURE.items()
        if entry in a.description and entry in b.description and _same(a, entry) != _same(b, entry)
    ]
    warnings = [f"{name}: its suite is not recorded, so its options are unknown" for name in without_suite(a, b)]
    nameless = sorted(set(_unidentified(a)) & set(_unidentified(b)))
    if nameless:
        judged_by = f"{a.name} and {b.name} were judged by {', '.join(nameless)} without a known version or prompts"
        warnings.append(f"{judged_by}: a difference may come from a changed judge")
    calls = [results.description.get("calls") or None for results in (a, b)]
    if None not in calls and calls[0] != calls[1]:
        difference = f"the judges used different calls ({_brief(calls[0])} / {_brief(calls[1])})"
        warnings.append(
            f"{a.name} and {b.name}: {difference}; set the same calls= for both to compare only the answers"
        )
    if not phrases:
        return warnings
    difference = f"{a.name} and {b.name} were measured differently: {'; '.join(phrases)}"
    if not allow_different:
        message = f"{difference}; score both with one suite, or pass allow_different=True (--allow-different)"
        raise InvalidOptionError(message, param="allow_different")
    return [*warnings, difference]


def without_suite(*sides: Evaluation) -> list[str]:
    """The names of those that do not record the suite they were made with."""
    return [side.name for side in sides if "metrics" not in side.description]


def _unidentified(results: Evaluation) -> list[str]:
    """The judges without a version."""
    versions = results.description.get("judge_versions")
    return [name for name, version in versions.items() if not version] if isinstance(versions, dict) else []


def _same(results: Evaluation, entry: str) -> Any:
    """The entry, with lists sorted."""
    value = results.description[entry]
    return sorted(map(str, value)) if isinstance(value, (list, tuple)) else value


def _brief(value: Any) -> str:
    parts = [f"{key} {entry}" for key, entry in value.items()] if isinstance(value, dict) else value
    text = ", ".join(map(str, parts)) if isinstance(parts, (list, tuple)) else str(parts)
    return shorten(text or "none", _LONGEST)
