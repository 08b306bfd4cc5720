"""A report's rows as pandas tables: one row a sample, and one row a claim, token, sentence, chunk or document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.run import Row
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.tracking.plain import plain, plain_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ITEM_COLUMNS", "items_frame", "rows_frame"]

ITEM_COLUMNS = ("id", "metric", "kind", "text", "verdict", "reason", "support", "evidence")


def rows_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One row a sample: id, fields, metadata, and for each key ``<key>``, ``_passed``, ``_status``, ``_reason``, ….

    Scores are nullable ``Float64`` and null where unscored, ``_passed`` is nullable ``boolean``.
    """
    import pandas as pd

    frame = pd.DataFrame([plain(_fields(row.sample)) for row in rows], dtype=object)  # text cells: None, never NaN
    columns: dict[str, Any] = {}
    for key in dict.fromkeys(key for row in rows for key in row.scores):
        scores = [row.scores.get(key, _ABSENT) for row in rows]
        columns[key] = pd.array([score.value for score in scores], dtype="Float64")
        if any(score.scaled is not None for score in scores):
            columns[f"{key}_1to5"] = pd.array([score.scaled for score in scores], dtype="Float64")
        if any(score.threshold is not None for score in scores):
            columns[f"{key}_passed"] = pd.array([score.passed for score in scores], dtype="boolean")
        columns[f"{key}_status"] = [score.status for score in scores]
        columns[f"{key}_reason"] = [plain_text(score.error or score.reason) for score in scores]
        if any(score.details.get("support") is not None for score in scores):
            columns[f"{key}_support"] = pd.array([score.details.get("support") for score in scores], dtype="Float64")
        if any(score.model_scores for score in scores):
            columns[f"{key}_judge"] = pd.array([score.judge for score in scores], dtype=object)
    return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)


def items_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One row an item, with the sample's id and the metric's key; ``evidence`` is a list of mappings."""
    import pandas as pd

    records = [
        plain(_item(row.sample.id, key, item))
        for row in rows
        for key, score in row.scores.items()
        for item in score.items
    ]
    frame = pd.DataFrame(records, columns=list(ITEM_COLUMNS), dtype=object)
    frame["support"] = pd.array([record["support"] for record in records], dtype="Float64")
    return frame


_ABSENT = Score()


def _item(sample: str, key: str, item: Item) -> dict[str, Any]:
    evidence = [{"chunk": each.chunk, "id": each.id, "quote": each.quote} for each in item.evidence]
    return {
        "id": sample,
        "metric": key,
        "kind": item.kind,
        "text": item.text,
        "verdict": item.verdict,
        "reason": item.reason,
        "support": item.support,
        "evidence": evidence,
    }


def _fields(sample: Sample) -> dict[str, Any]:
    references = list(sample.references or ())
    fields: dict[str, Any] = {
        "id": sample.id,
        "question": sample.question,
        "answer": sample.answer,
        "reference": references if len(references) > 1 else sample.reference,
    }
    if sample.contexts is not None:
        fields["contexts"] = [chunk.text for chunk in sample.contexts]
    for name in ("retrieved_doc_ids", "gold_doc_ids"):
        ids = getattr(sample, name)
        if ids is not None:
            fields[name] = list(ids)
    return {**{name: _plain(value) for name, value in sample.metadata.items()}, **fields} if sample.metadata else fields


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
