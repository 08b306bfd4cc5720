"""People's labels of a report's rows, also from MLflow feedback, and the human mean that they estimate."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.display.document import number
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.pairing import measured, metric_range
from mlflow_ragmetrics.results.results import read_table, results_groups, results_of
from mlflow_ragmetrics.rows.data import Groups
from mlflow_ragmetrics.rows.values import Label, as_number, word_of
from mlflow_ragmetrics.statistics.intervals import TrueMean, Vector, clusters_of, true_mean

if TYPE_CHECKING:
    import pandas as pd


def has_feedback(labels: Any) -> bool:
    """Whether ``labels`` is a list of traces or a frame from ``mlflow.search_traces``."""
    if hasattr(labels, "columns"):
        return "assessments" in labels.columns
    if not isinstance(labels, (list, tuple)):
        return False
    return bool(labels) and all(hasattr(getattr(label, "info", None), "trace_id") for label in labels)


def feedback_labels(traces: Any, key: str) -> dict[str, Any]:
    """People's feedback by trace id, request id and, if the trace has one, row id.

    Uses feedback named ``key`` or ``rag_<key>``, or any feedback if all of it has the same name. If a trace has
    several, the last one is used. Raises ``InvalidDataError`` if there is none or its name is ambiguous.
    """
    feedback: dict[str, list[tuple[str, Any]]] = {}  # by name
    for ids, assessments in _traces(traces):
        for name, value in _human(assessments):
            feedback.setdefault(name, []).extend((identity, value) for identity in ids)
    if not feedback:
        raise InvalidDataError("the traces have no human feedback; label some of them in MLflow's UI first")
    labelled = feedback.get(key) or feedback.get(f"rag_{key}") or next(iter(feedback.values()))
    if len(feedback) > 1 and feedback.keys().isdisjoint((key, f"rag_{key}")):
        message = f"human feedback on the traces is named {', '.join(feedback)}; rename one to {key}, as the metric"
        raise InvalidDataError(message)
    if twice := _with_two(labelled):
        warnings.warn(f"the last label is used for ids with two different labels: {twice}", stacklevel=4)
    return dict(labelled)


def _traces(traces: Any) -> Iterator[tuple[list[str], Iterable[Any]]]:
    """The ids of each trace, and its assessments."""
    names = ("trace_id", "client_request_id", "tags", "assessments")
    records = traces.to_dict("records") if hasattr(traces, "columns") else [vars(trace.info) for trace in traces]
    for trace_id, request_id, tags, assessments in ([record.get(name) for name in names] for record in records):
        identities = [trace_id, request_id, (tags or {}).get("id")]
        yield [identity for identity in identities if isinstance(identity, str) and identity], assessments or []


def _human(assessments: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for assessment in assessments:
        record = assessment if isinstance(assessment, Mapping) else assessment.to_dictionary()
        source = record.get("source") or {}
        feedback = record.get("feedback") or {}
        is_valid = record.get("valid") is not False and feedback.get("value") is not None
        if str(source.get("source_type")) == "HUMAN" and is_valid:
            yield str(record.get("assessment_name") or record.get("name")), feedback["value"]


Labels = Union[str, Path, Mapping[str, Any], Sequence[Any], "pd.DataFrame", "pd.Series[Any]"]

_MOST_SHOWN = 10


def labels_of(
    labels: Labels,
    results: Evaluation,
    key: str,
    words: Mapping[str, float | None] | None = None,
) -> list[Label]:
    """One number per row of ``results``: 1 good, 0 bad, or a grade; ``None`` without a label.

    ``labels`` is a mapping from id to label, one label per row in order, the name of a column of the data, a file or
    frame with ``id`` and ``label``, or MLflow traces with human feedback named ``key``. ``words`` maps more words to
    numbers (``None``: no label). Unknown words are left out, and a warning lists them with their counts. Raises
    ``InvalidDataError`` if no label is known.
    """
    if isinstance(labels, str) and labels in results.table.columns:
        return _numbers(results.table[labels].tolist(), words)
    if isinstance(labels, str) and not Path(labels).suffix and not os.path.exists(labels):
        raise InvalidDataError(f"labels: {labels!r} is neither a column of the rows nor a file")
    label_data: Any = read_table(Path(labels)) if isinstance(labels, (str, Path)) else labels
    if has_feedback(label_data):
        label_data = feedback_labels(label_data, key)
    elif hasattr(label_data, "columns"):
        if not {"id", "label"} <= {*label_data.columns}:
            has = ", ".join(map(str, label_data.columns))
            raise InvalidDataError(f"labels need the columns id and label, but have {has}")
        return _numbers(_matched(zip(label_data["id"], label_data["label"], strict=True), results.table), words)
    table = results.table
    if isinstance(label_data, Mapping) or hasattr(label_data, "to_dict"):  # a mapping or a series
        return _numbers(_matched(label_data.items(), table), words)
    if not isinstance(label_data, Iterable):
        raise InvalidDataError(f"labels: {shown(labels)} is neither a mapping, a list, a column, a file nor a frame")
    listed = list(label_data)
    if len(listed) != len(table):
        message = f"labels has length {len(listed)}, not {len(table)}; give one per row, or a mapping from id to label"
        raise InvalidDataError(message)
    return _numbers(listed, words)


def _numbers(values: Sequence[Any], words: Mapping[str, float | None] | None) -> list[Label]:
    meanings = {word_of(word): meaning for word, meaning in (words or {}).items()}
    numbers: list[Label] = []
    unknown: Counter[str] = Counter()
    for value in values:
        if isinstance(value, str) and word_of(value) in meanings:
            numbers.append(meanings[word_of(value)])
            continue
        try:
            numbers.append(as_number(value))
        except InvalidDataError:
            numbers.append(None)
            unknown[value.strip() if isinstance(value, str) else shown(value)] += 1
    if unknown:
        named = ", ".join(f"{shown(word)} ({count})" for word, count in unknown.most_common(_MOST_SHOWN))
        example = next(iter(unknown))
        way = f'define them with --words "{example}=0.5" (words={{{example!r}: 0.5}})'
        if all(label is None for label in numbers):
            raise InvalidDataError(f"no label is known: {named}; labels are numbers or words such as supported; {way}")
        count = unknown.total()
        warnings.warn(f"labels with unknown words left out ({count}): {named}; {way}", stacklevel=4)
    return numbers


def _with_two(labels: Iterable[tuple[str, Any]]) -> str:
    """The ids with two different labels, in words; empty if there are none."""
    meanings: dict[str, set[Any]] = {}
    for name, label in labels:
        meanings.setdefault(name, set()).add(_meaning(label))
    twice = [name for name, labels in meanings.items() if len(labels - {None}) > 1]
    return ", ".join(twice[:_MOST_SHOWN]) + (", …" if len(twice) > _MOST_SHOWN else "")


def _meaning(label: Any) -> Any:
    try:
        return as_number(label)
    except InvalidDataError:
        return word_of(str(label))


def _matched(labels: Iterable[tuple[Any, Any]], table: pd.DataFrame) -> list[Any]:
    """The label of each row, by its id or trace id; ``None`` without a label.

    Raises ``InvalidDataError`` if an id has two different labels, or if no row has one.
    """
    named = [(str(name), label) for name, label in labels]
    if twice := _with_two(named):
        raise InvalidDataError(f"ids with two different labels: {twice}; keep one label per id")
    exact = dict(sorted(named, key=lambda label: _meaning(label[1]) is not None))  # a known one replaces a missing one
    # in a CSV file, an id that looks like a formula may start with a quote
    by_name = {name.removeprefix("'"): label for name, label in exact.items()} | exact
    columns = [table[name].map(str) for name in ("id", "trace_id") if name in table.columns]
    rows = zip(*columns, strict=True) if columns else ()
    chosen = [next((name for name in names if name in by_name), None) for names in rows]
    if not any(chosen):
        some = ", ".join(list(by_name)[:3]) or "none"
        raise InvalidDataError(f"no label matches a row of the report; labels are for the ids {some}, …")
    return [None if name is None else by_name[name] for name in chosen]


@dataclass(frozen=True, kw_only=True)
class TrueScore(TrueMean):
    """The estimated mean of human labels over all measured rows, with its 95 % interval.

    ``judge``: the judge's own mean. ``labels`` of ``rows`` are labelled; with too few, ``low``, ``high`` and ``error``
    (the standard error) are ``None``. ``groups``: number of groups with a label; ``few_groups`` marks fewer than ten
    effective groups.
    """

    key: str
    judge: float | None
    groups: int | None = None
    few_groups: bool = False

    @property
    def metrics(self) -> dict[str, float]:
        """``<key>/true_mean``, ``/true_low``, ``/true_high`` and ``/n_labelled``, for gates and runs."""
        figures = {"true_mean": self.value, "true_low": self.low, "true_high": self.high, "n_labelled": self.labels}
        return {f"{self.key}/{name}": float(value) for name, value in figures.items() if value is not None}

    def __str__(self) -> str:
        interval = "no interval" if self.low is None else f"95 % interval {number(self.low)} to {number(self.high)}"
        groups = "" if self.groups is None else f", groups: {self.groups}{' (few)' if self.few_groups else ''}"
        counts = f"labels: {self.labels} of {self.rows} rows{groups}"
        judge = "" if self.judge is None else f", judge's mean {number(self.judge)}"
        method = "prediction-powered inference (PPI++)"
        return f"{self.key}: true score {number(self.value)}, {interval}{judge}; {counts}. Method: {method}"


def named_key(results: Evaluation, key: object) -> str:
    """Return ``key``, or the only metric; ``InvalidOptionError`` if there is no such metric."""
    if key is None and len(results.keys) == 1:
        return results.keys[0]
    if isinstance(key, str) and key in results.keys:
        return key
    what = "name the metric" if key is None else f"{shown(key)} is not a metric of the report"
    raise InvalidOptionError(f"key: {what}; use one of {', '.join(results.keys) or 'none'}", param="key")


def labelled_scores(
    results: Evaluation,
    key: str,
    labels: Labels,
    groups: Groups | None,
    words: Mapping[str, float | None] | None = None,
    *,
    in_range: bool = True,
) -> tuple[Vector, Vector, list[str] | None]:
    """The measured score (NaN: none), label (NaN: none) and group of each row of an evaluation.

    Raises ``InvalidOptionError`` for an unknown key, ``InvalidDataError`` if no row is labelled or, with ``in_range``,
    if a label is outside the metric's range.
    """
    label_values = labels_of(labels, results, named_key(results, key), words=words)
    grades = np.array([np.nan if label is None else label for label in label_values], dtype=float)
    if np.isnan(grades).all():
        raise InvalidDataError(f"no row has a label for {key}")
    scores = measured(results, key)
    low, high = _range(key, scores)
    outside = np.flatnonzero((grades < low - 1e-9) | (grades > high + 1e-9))
    if in_range and outside.size:
        some = ", ".join(f"{grades[row]:g} (row {row + 1})" for row in outside[:_MOST_SHOWN])
        message = f"labels outside the range of {key}, {low:g} to {high:g} ({outside.size}): {some}; rescale them"
        raise InvalidDataError(f"{message}, such as grades of 1 to 5 by (grade - 1) / 4, or calibrate with good_from")
    return scores, grades, results_groups(results, groups)


def _range(key: str, scores: Vector) -> tuple[float, float]:
    """The metric's range; an own metric may have scores beyond 0 to 1."""
    low, high = metric_range(key)
    return float(np.nanmin([low, *scores])), float(np.nanmax([high, *scores]))


def true_score(self: Evaluation, key: str, labels: Labels, *, groups: Groups | None = None) -> TrueScore:
    """Estimate the mean human label of all rows, from labels of a few rows and the judge's scores of all.

    ``labels``: a mapping from id to label, one label per row (``None``: no label), the name of a column, a file or
    frame with ``id`` and ``label``, or traces with human feedback. Choose the labelled rows at random, as
    ``ragmetrics label`` does. A label says how good a row is; if lower is better for the metric, labels are turned to
    its scale (1 becomes 0). Only measured rows count. ``groups`` as in ``compare``. The method is prediction-powered
    inference (Angelopoulos, Duchi and Zrnic 2023, PPI++). Raises ``InvalidDataError`` if no measured row is labelled,
    an id has two labels, or a label is outside the metric's range; ``InvalidOptionError`` for an unknown key.
    """
    results = results_of(self)
    scores, grades, names = labelled_scores(results, key, labels, groups)
    if results.better(key) is False:
        grades = sum(_range(key, scores)) - grades
    kept = ~np.isnan(scores)
    scores, grades = scores[kept], grades[kept]
    names = None if names is None else [name for name, keep in zip(names, kept, strict=True) if keep]
    if np.isnan(grades).all():
        raise InvalidDataError(f"no measured row has a label for {key}")
    estimated = true_mean(grades, scores, groups=names)
    sample = None if names is None else clusters_of(grades, names)
    return TrueScore(
        **vars(estimated),
        key=key,
        judge=float(np.sort(scores).mean()),
        groups=None if sample is None else sample.groups,
        few_groups=sample is not None and sample.few_groups,
    )
