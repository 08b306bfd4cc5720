"""The rows of an evaluation that was read back: its samples, to be scored anew, and its scores with their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Better, Evidence, Item, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.rows.results import Results
from mlflow_ragmetrics.rows.schema import DIAGNOSIS, SCORE_COLUMNS
from mlflow_ragmetrics.rows.values import is_missing

__all__ = ["stored_rows", "stored_samples"]


def stored_samples(results: Results) -> list[Sample]:
    """The samples that were scored, without what the evaluation added to them; ``InvalidDataError`` without answers."""
    if "answer" not in results.table.columns:
        raise InvalidDataError(f"{results.name} holds no answers, which would be scored anew")
    return [_sample(record, results.keys) for record in results.table.to_dict("records")]


def stored_rows(results: Results) -> list[Row]:
    """Rows like those of the report, as far as its tables hold them: values, reasons, items and evidence."""
    items: dict[tuple[str, str], list[Item]] = {}
    for record in results.items.to_dict("records"):
        items.setdefault((str(record["id"]), str(record["metric"])), []).append(_item(_known(record)))
    thresholds = results.description.get("thresholds") or {}
    judges = ", ".join(map(str, results.description.get("judge") or ())) or None
    sides = {key: results.better(key) for key in results.keys}
    rows = []
    for place, record in enumerate(results.table.to_dict("records")):
        sample = _sample(record, results.keys)
        scores: dict[str, Score] = {}
        for key in results.keys:
            own = {column.suffix: record.get(f"{key}{column.suffix}") for column in SCORE_COLUMNS}
            found = items.get((sample.id, key), [])
            if not is_missing(own["_status"]):
                judge = judges if found else None
                scores[key] = _score(_known(own), found, thresholds.get(key), judge, sides[key])
        rows.append(Row(sample, scores, place))
    return rows


def _sample(record: Mapping[Any, Any], keys: Sequence[str]) -> Sample:
    added = {f"{key}{column.suffix}" for key in keys for column in SCORE_COLUMNS}
    added |= {*DIAGNOSIS} if {*DIAGNOSIS} <= record.keys() else set()
    panel = tuple(f"{key}_judge_" for key in keys)
    own = {
        name.removesuffix("_given") if name.removesuffix("_given") in added else name: value
        for name, value in _known(record).items()
        if name not in added and not name.startswith(panel)
    }
    sample = to_sample(own)
    return sample if sample.id == str(record.get("id")) else replace(sample, id=str(record.get("id", sample.id)))


def _score(
    own: Mapping[str, Any], items: Sequence[Item], threshold: Any, judge: str | None, higher_is_better: Better
) -> Score:
    status, reason = own["_status"], str(own.get("_reason", ""))
    scaled, passed = own.get("_1to5"), own.get("_passed")
    return Score(
        value=float(own[""]) if status == "ok" and "" in own else None,
        status=status,
        scaled=None if scaled is None else float(scaled),
        passed=None if passed is None else bool(passed),
        threshold=None if threshold is None else float(threshold),
        reason=reason,
        items=tuple(items),
        judge=own.get("_judge", judge),
        details={} if own.get("_measured", True) else {"unmeasured": "rule"},
        error=reason if status == "error" else None,
        higher_is_better=higher_is_better,
    )


def _item(own: Mapping[str, Any]) -> Item:
    evidence = own.get("evidence")
    found = [each for each in evidence if isinstance(each, Mapping)] if isinstance(evidence, (list, tuple)) else []
    return Item(
        own.get("kind", "claim"),
        str(own["text"]),
        own.get("verdict"),
        str(own.get("reason", "")),
        float(own["support"]) if "support" in own else None,
        tuple(Evidence(each.get("chunk"), each.get("id"), str(each.get("quote") or "")) for each in found),
        own.get("judge"),
        own.get("against"),
    )


def _known(record: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in record.items() if not is_missing(value)}
