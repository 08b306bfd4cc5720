"""Results of a system and the references of a benchmark, in two sources, joined by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE
from mlflow_ragmetrics.rows.data import Data, read_rows
from mlflow_ragmetrics.rows.fields import FIELD_OF
from mlflow_ragmetrics.rows.values import is_missing, text_of

__all__ = ["Joined", "join"]

_SHOWN = 5
_ID_NAMES = ("id", *ALIASES["id"])


@dataclass(frozen=True)
class Joined:
    """The rows of both sources: matched ones, then results without a reference, then references without a result.

    ``warning`` names what did not match, or is ``None``.
    """

    rows: tuple[dict[str, Any], ...]
    results_only: tuple[str, ...] = ()
    references_only: tuple[str, ...] = ()
    warning: str | None = None


def join(results: Data, references: Data, on: str = "qid", *, delimiter: str | None = None) -> Joined:
    """Join ``results`` (answer, contexts, retrieved ids) with ``references``: what is known of the same questions.

    Rows match by the text of ``on``, or in a source without it by its id under another name. Unmatched rows stay, so
    that they are counted; what they lack is missing. From ``references`` come the reference and the gold ids, and
    the question where the two differ (the warning counts such rows); an ``answer`` there is the reference, unless
    the source has one, and ``contexts`` there become ``reference_contexts`` among the metadata. ``delimiter``: what
    separates the cells of text tables, where that is not found out.

    Raises:
        InvalidDataError: where a source has no ids or repeats one, or the two have no id in common.
    """
    given, known = _by_id(results, on, "results", delimiter), _by_id(references, on, "references", delimiter)
    results_only = tuple(key for key in given if key not in known)
    references_only = tuple(key for key in known if key not in given)
    if len(results_only) == len(given):
        raise InvalidDataError(
            f"No id of the results is among the references (results: {_first_few(results_only)}; references: "
            f"{_first_few(references_only)}); check `on`, now {on!r}."
        )
    differing = [key for key in given if key in known and _questions_differ(given[key], known[key])]
    keys = [*(key for key in given if key in known), *results_only, *references_only]
    rows = tuple({"id": key, **_merged(given.get(key, {}), known.get(key, {}))} for key in keys)
    warning = " ".join(_warnings(results_only, len(given), references_only, len(known), differing)) or None
    return Joined(rows, results_only, references_only, warning)


def _by_id(data: Data, on: str, source: str, delimiter: str | None) -> dict[str, Mapping[str, Any]]:
    rows: dict[str, Mapping[str, Any]] = {}
    numbers: dict[str, int] = {}
    for number, row in enumerate(read_rows(data, delimiter), start=1):
        key = _id_of(row, on, f"Row {number} of the {source}")
        if key in rows:
            raise InvalidDataError(f"Rows {numbers[key]} and {number} of the {source} have the same id {key!r}.")
        rows[key], numbers[key] = {name: value for name, value in row.items() if name != on}, number
    if not rows:
        raise InvalidDataError(f"The {source} have no rows.")
    return rows


def _id_of(row: Mapping[str, Any], on: str, place: str) -> str:
    name = next((name for name in (on, *_ID_NAMES) if name in row), None)
    if name is None:
        there = ", ".join(repr(each) for each in list(row)[:20])
        raise InvalidDataError(f"{place} has no id: neither {on!r} nor {', '.join(_ID_NAMES)} is among {there}.")
    try:
        key = (text_of(row[name], name) or "").strip()
    except InvalidFieldError as error:
        raise InvalidDataError(f"{place} has no usable id: {error}") from error
    if not key:
        raise InvalidDataError(f"{place} has a blank id in {name!r}.")
    return key


def _merged(result: Mapping[str, Any], reference: Mapping[str, Any]) -> dict[str, Any]:
    known = _known_fields(reference)
    row = {
        name: value for name, value in result.items() if FIELD_OF.get(name) != "id" and FIELD_OF.get(name) not in known
    }
    for name, value in known.items():
        row[name if name not in row or _equal(row[name], value) else f"reference_{name}"] = value
    return row


def _known_fields(reference: Mapping[str, Any]) -> dict[str, Any]:
    """The reference's row by canonical names, with what a system would have given under names of its own."""
    known: dict[str, Any] = {}
    for name, value in reference.items():
        field = FIELD_OF.get(name)
        if field in ("question", "reference", "gold_doc_ids"):
            if not is_missing(value):
                known.setdefault(field, value)
        elif field in ("contexts", "retrieved_doc_ids"):
            known[f"reference_{field}"] = value
        elif name in ALIASES_BY_NATURE["contexts"]:
            known[f"reference_{name}"] = value
        elif field is None:
            known[name] = value
    answers = [value for name, value in reference.items() if FIELD_OF.get(name) == "answer" and not is_missing(value)]
    if answers:
        known.setdefault("reference", answers[0])
    return known


def _questions_differ(result: Mapping[str, Any], reference: Mapping[str, Any]) -> bool:
    asked, known = (
        {
            str(value).strip()
            for name, value in row.items()
            if FIELD_OF.get(name) == "question" and not is_missing(value)
        }
        for row in (result, reference)
    )
    return bool(asked and known and asked.isdisjoint(known))


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except (ValueError, TypeError):  # arrays of several values: both are kept
        return False


def _warnings(
    results_only: tuple[str, ...],
    results: int,
    references_only: tuple[str, ...],
    references: int,
    differing: list[str],
) -> Iterable[str]:
    if results_only:
        yield f"{len(results_only)} of {results} results have no reference: {_first_few(results_only)}."
    if references_only:
        yield f"{len(references_only)} of {references} references have no result: {_first_few(references_only)}."
    if differing:
        yield (
            f"{len(differing)} rows have a different question from their reference, whose question is used: "
            f"{_first_few(differing)}."
        )


def _first_few(keys: Iterable[str]) -> str:
    listed = list(keys)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
