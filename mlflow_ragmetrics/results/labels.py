"""Reads people's labels, including MLflow feedback, and matches them to the rows of a report."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.results import read_table
from mlflow_ragmetrics.rows.values import Label, as_number, word_of

if TYPE_CHECKING:
    import pandas as pd


def has_feedback(labels: Any) -> bool:
    """Whether ``labels`` is a list of traces or a frame from ``mlflow.search_traces``."""
    if hasattr(labels, "columns"):
        return "assessments" in labels.columns
    if not isinstance(labels, (list, tuple)):
        return False
    return bool(labels) and all(hasattr(getattr(each, "info", None), "trace_id") for each in labels)


def feedback_labels(traces: Any, key: str) -> dict[str, Any]:
    """People's feedback by trace id, request id and, if the trace has one, row id.

    Uses feedback named ``key`` or ``rag_<key>``, or any feedback if all of it has the same name. If a trace has
    several, the last one is used. Raises ``InvalidDataError`` if there is none or its name is ambiguous.
    """
    given = [(ids, name, value) for ids, found in _traces(traces) for name, value in _human(found)]
    names = list(dict.fromkeys(name for _, name, _ in given))
    if not names:
        raise InvalidDataError("the traces have no human feedback; label some of them in MLflow's UI first")
    own = [name for name in (key, f"rag_{key}") if name in names]
    wanted = own[0] if own else names[0]
    if not own and len(names) > 1:
        message = f"human feedback on the traces is named {', '.join(names)}; rename one to {key}, as the metric"
        raise InvalidDataError(message)
    found = [(identity, value) for ids, name, value in given if name == wanted for identity in ids]
    if twice := _with_two(found):
        warnings.warn(f"the last label is used for ids with two different labels: {twice}", stacklevel=4)
    return dict(found)


def _traces(traces: Any) -> Iterator[tuple[list[str], Iterable[Any]]]:
    """The ids of each trace, and its assessments."""
    names = ("trace_id", "client_request_id", "tags", "assessments")
    records = traces.to_dict("records") if hasattr(traces, "columns") else [vars(trace.info) for trace in traces]
    for trace_id, request_id, tags, assessments in ([record.get(name) for name in names] for record in records):
        identities = [trace_id, request_id, (tags or {}).get("id")]
        yield [each for each in identities if isinstance(each, str) and each], assessments or []


def _human(assessments: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for each in assessments:
        record = each if isinstance(each, Mapping) else each.to_dictionary()
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
    column: str = "label",
    words: Mapping[str, float | None] | None = None,
) -> list[Label]:
    """One number per row of ``results``: 1 good, 0 bad, or a grade; ``None`` without a label.

    ``labels`` is a mapping from id to label, one label per row in order, the name of a column of the data, a file or
    frame with ``id`` and ``column``, or MLflow traces with human feedback named ``key``. ``words`` maps more words to
    numbers (``None``: no label). Unknown words are left out, and a warning lists them with their counts. Raises
    ``InvalidDataError`` if no label is known.
    """
    if isinstance(labels, str) and labels in results.table.columns:
        return _numbers(results.table[labels].tolist(), words)
    if isinstance(labels, str) and not Path(labels).suffix and not os.path.exists(labels):
        raise InvalidDataError(f"labels: {labels!r} is neither a column of the rows nor a file")
    given: Any = read_table(Path(labels)) if isinstance(labels, (str, Path)) else labels
    if has_feedback(given):
        given = feedback_labels(given, key)
    elif hasattr(given, "columns"):
        given = _by_id(given, column)
    elif hasattr(given, "index") and hasattr(given, "to_dict"):
        given = _one_each([*zip(map(str, given.index), given, strict=True)])
    table = results.table
    columns = [table[name].tolist() for name in ("id", "trace_id") if name in table.columns]
    rows = [[str(name) for name in row if name is not None] for row in zip(*columns, strict=True)] or [[]] * len(table)
    if isinstance(given, Mapping):
        return _matched(given, rows, words)
    if not isinstance(given, Iterable):
        raise InvalidDataError(f"labels: {shown(labels)} is neither a mapping, a list, a column, a file nor a frame")
    listed = list(given)
    if len(listed) != len(rows):
        message = f"labels has length {len(listed)}, not {len(rows)}; give one per row, or a mapping from id to label"
        raise InvalidDataError(message)
    return _numbers(listed, words)


def _numbers(values: Sequence[Any], words: Mapping[str, float | None] | None) -> list[Label]:
    meanings = {word_of(word): meaning for word, meaning in (words or {}).items()}
    found: list[Label] = []
    unknown: Counter[str] = Counter()
    for value in values:
        if isinstance(value, str) and word_of(value) in meanings:
            found.append(meanings[word_of(value)])
            continue
        try:
            found.append(as_number(value))
        except InvalidDataError:
            found.append(None)
            unknown[value.strip() if isinstance(value, str) else shown(value)] += 1
    if unknown:
        named = ", ".join(f"{shown(word)} ({count})" for word, count in unknown.most_common(_MOST_SHOWN))
        example = next(iter(unknown))
        way = f'define them with --words "{example}=0.5" (words={{{example!r}: 0.5}})'
        if all(label is None for label in found):
            raise InvalidDataError(f"no label is known: {named}; labels are numbers or words such as supported; {way}")
        count = unknown.total()
        warnings.warn(f"labels with unknown words left out ({count}): {named}; {way}", stacklevel=4)
    return found


def _by_id(frame: Any, column: str) -> dict[str, Any]:
    if "id" not in frame.columns or column not in frame.columns:
        has = ", ".join(map(str, frame.columns))
        raise InvalidDataError(f"labels need the columns id and {column}, but have {has} (name another with column=)")
    return _one_each([*zip(map(str, frame["id"]), frame[column], strict=True)])


def _one_each(labels: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The label of each id; ``InvalidDataError`` if an id has two different ones."""
    if twice := _with_two(labels):
        raise InvalidDataError(f"ids with two different labels: {twice}; keep one label per id")
    return dict(
        sorted(labels, key=lambda label: _meaning(label[1]) is not None)
    )  # a known label replaces a missing one


def _with_two(labels: Iterable[tuple[str, Any]]) -> str:
    """The ids with two different labels, in words; empty if there are none."""
    meanings: dict[str, set[Any]] = {}
    for name, label in labels:
        meanings.setdefault(name, set()).add(_meaning(label))
    twice = [name for name, found in meanings.items() if len(found - {None}) > 1]
    return ", ".join(twice[:_MOST_SHOWN]) + (", …" if len(twice) > _MOST_SHOWN else "")


def _meaning(label: Any) -> Any:
    try:
        return as_number(label)
    except InvalidDataError:
        return word_of(str(label))


def _matched(
    labels: Mapping[Any, Any], rows: Iterable[Iterable[str]], words: Mapping[str, float | None] | None
) -> list[Label]:
    exact = _one_each([(str(name), label) for name, label in labels.items()])
    # in a CSV file, an id that looks like a formula may start with a quote
    given = {name.removeprefix("'"): label for name, label in exact.items()} | exact
    chosen = [next((name for name in names if name in given), None) for names in rows]
    if not any(chosen):
        some = ", ".join(list(given)[:3]) or "none"
        raise InvalidDataError(f"no label matches a row of the report; labels are for the ids {some}, …")
    return _numbers([None if name is None else given[name] for name in chosen], words)
