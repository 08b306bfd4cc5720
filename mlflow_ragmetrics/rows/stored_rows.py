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
from mlflow_ragmetrics.rows.results import DIAGNOSIS, Results
from mlflow_ragmetrics.rows.values import is_missing

__all__ = ["stored_rows", "stored_samples"]

_SUFFIXES = ("", "_1to5", "_passed", "_status", "_reason", "_measured", "_better", "_support", "_judge")


def stored_samples(results: Results) -> list[Sample]:
    """The samples that were scored, without what the evaluation added to them; ``InvalidDataError`` without answers."""
    if "answer" not in results.table.columns:
        raise InvalidDataError(f"{results.name} holds no answers, which would be scored anew")
    return [_sample(record, results.keys) for record in results.table.to_dict("records")]


def stored_rows(results: Results) -> list[Row]:
    """Rows like those of the report, as far as its tables hold them: values, reasons, items and evidence."""
    items: dict[tuple[str, str], list[Item]] = {}
    for record in results.items.to_dict("records"):
        items.setdefault((str(record["id"]), str(record["metric"])), []).append(_item(record))
    thresholds = results.description.get("thresholds") or {}
    judges = [str(name) for name in results.description.get("judge") or ()]
    sides = {key: results.better(key) for key in results.keys}
    rows = []
    for place, record in enumerate(results.table.to_dict("records")):
        sample = _sample(record, results.keys)
        scores = {
            key: _score(key, record, items.get((sample.id, key), ()), thresholds.get(key), judges, sides[key])
            for key in results.keys
            if not is_missing(record.get(f"{key}_status"))
        }
        rows.append(Row(sample, scores, place))
    return rows


def _sample(record: Mapping[Any, Any], keys: Sequence[str]) -> Sample:
    added = {f"{key}{suffix}" for key in keys for suffix in _SUFFIXES}
    added |= {*DIAGNOSIS} if {*DIAGNOSIS} <= record.keys() else set()
    panel = tuple(f"{key}_judge_" for key in keys)
    own = {
        str(name).removesuffix("_given") if str(name).removesuffix("_given") in added else str(name): value
        for name, value in record.items()
        if name not in added and not str(name).startswith(panel) and not is_missing(value)
    }
    sample = to_sample(own)
    return sample if sample.id == str(record.get("id")) else replace(sample, id=str(record.get("id", sample.id)))


def _score(
    key: str,
    record: Mapping[Any, Any],
    items: Sequence[Item],
    threshold: Any,
    judges: Sequence[str],
    higher_is_better: Better,
) -> Score:
    value, scaled, passed = (_known(record.get(f"{key}{suffix}")) for suffix in ("", "_1to5", "_passed"))
    status, reason = record.get(f"{key}_status"), record.get(f"{key}_reason")
    judge, measured = record.get(f"{key}_judge"), record.get(f"{key}_measured")
    said = "" if is_missing(reason) else str(reason)
    return Score(
        value=None if value is None or status != "ok" else float(value),
        status=status,
        scaled=None if scaled is None else float(scaled),
        passed=None if passed is None else bool(passed),
        threshold=None if threshold is None else float(threshold),
        reason=said,
        items=tuple(items),
        judge=str(judge) if not is_missing(judge) else (", ".join(judges) or None if items else None),
        details={} if is_missing(measured) or measured else {"unmeasured": "rule"},
        error=said if status == "error" else None,
        higher_is_better=higher_is_better,
    )


def _item(record: Mapping[Any, Any]) -> Item:
    evidence = record.get("evidence")
    found = [each for each in evidence if isinstance(each, Mapping)] if isinstance(evidence, (list, tuple)) else []
    support, verdict, judge, against = (_known(record.get(name)) for name in ("support", "verdict", "judge", "against"))
    return Item(
        record.get("kind", "claim"),
        str(record["text"]),
        verdict,
        "" if is_missing(record.get("reason")) else str(record["reason"]),
        None if support is None else float(support),
        tuple(Evidence(each.get("chunk"), each.get("id"), str(each.get("quote") or "")) for each in found),
        None if judge is None else str(judge),
        against,
    )


def _known(value: Any) -> Any:
    return None if is_missing(value) else value
