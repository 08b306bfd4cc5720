"""A report's rows as pandas tables: one row per sample, and one row per claim, token, sentence, chunk or document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.json_text import plain, plain_text, plain_texts
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.judges.lexical.backing import unbacked_in
from mlflow_ragmetrics.readers.results import BETTER

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ITEM_COLUMNS", "items_frame", "judge_slugs", "row_without_texts", "rows_frame"]

ITEM_COLUMNS = ("id", "metric", "kind", "text", "verdict", "reason", "support", "evidence", "unbacked")


_FIRST = ("id", "question", "answer")
_UNSAFE = re.compile(r"[^\w\-.]+", re.ASCII)


def judge_slugs(scores: Sequence[Score]) -> dict[str, str]:
    """The judges of a panel by name, each with a name that files, columns and metrics can bear; empty for one judge."""
    panel = [score for score in scores if "judges_asked" in score.details]
    names = dict.fromkeys(name for score in panel for name in (*score.model_scores, *score.excluded_models))
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
    comes of a rule, such as that for rows without context. An entry of the metadata that has the name of a score's
    column is called ``<name>_given``. ``<key>_better`` is there where it is not "higher": "lower" or "neither".
    ``more`` are further columns, after the reasons, in place of the data's own.
    """
    import pandas as pd

    keys = dict.fromkeys(key for row in rows for key in row.scores)
    scores = {key: [row.scores.get(key, _ABSENT) for row in rows] for key in keys}
    by_rank = sorted(keys, key=lambda key: not any("coverage" in score.details for score in scores[key]))
    values = {name: column for key in by_rank for name, column in _values(key, scores[key]).items()}
    reasons = {f"{key}_reason": [plain_text(each.error or each.reason) for each in scores[key]] for key in by_rank}
    origins = {name: column for key in by_rank for name, column in _origins(key, scores[key]).items()}
    taken = {*values, *reasons, *origins}
    named = dict(more or {})
    frame = pd.DataFrame([plain(_fields(row.sample, taken)) for row in rows], dtype=object)  # None, never NaN
    others = [name for name in frame.columns if name not in _FIRST and name not in named]
    parts = (frame[[*_FIRST]], pd.DataFrame({**values, **reasons, **named}, index=frame.index), frame[others])
    return pd.concat([*parts, pd.DataFrame(origins, index=frame.index)], axis=1)


def _values(key: str, scores: Sequence[Score]) -> dict[str, Any]:
    import pandas as pd

    columns: dict[str, Any] = {key: pd.array([score.value for score in scores], dtype="Float64")}
    if any(score.scaled is not None for score in scores):
        columns[f"{key}_1to5"] = pd.array([score.scaled for score in scores], dtype="Float64")
    if any(score.threshold is not None for score in scores):
        columns[f"{key}_passed"] = pd.array([score.passed for score in scores], dtype="boolean")
    return columns


def _origins(key: str, scores: Sequence[Score]) -> dict[str, Any]:
    import pandas as pd

    columns: dict[str, Any] = {f"{key}_status": [score.status for score in scores]}
    better = next((score.higher_is_better for score in scores if score.higher_is_better is not True), True)
    if better is not True:
        columns[f"{key}_better"] = [BETTER[better]] * len(scores)
    if any(score.scored and not score.measured for score in scores):
        columns[f"{key}_measured"] = [score.measured for score in scores]
    if any(score.details.get("support") is not None for score in scores):
        columns[f"{key}_support"] = pd.array([score.details.get("support") for score in scores], dtype="Float64")
    if any(score.model_scores for score in scores):
        columns[f"{key}_judge"] = pd.array([score.judge for score in scores], dtype=object)
    for name, slug in judge_slugs(scores).items():
        values = [score.model_scores.get(name) for score in scores]
        columns[f"{key}_judge_{slug}"] = pd.array(values, dtype="Float64")
    return columns


def items_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One row per item, with the sample's id and the metric's key.

    ``evidence`` is a list of mappings, ``unbacked`` the parts of an unsupported claim that no passage backs by its
    words, found here for those who look at the table.
    """
    import pandas as pd

    scored = [(row.sample, key, score.items) for row in rows for key, score in row.scores.items() if score.items]
    members = [item for _, _, items in scored for item in items]
    no_evidence: list[Any] = []  # one for all: a list per item would keep the garbage collector busy
    columns: dict[str, list[Any]] = {
        "id": plain_texts(sample.id for sample, _, items in scored for _ in items),
        "metric": [key for _, key, items in scored for _ in items],
        "kind": [item.kind for item in members],
        "text": plain_texts(item.text for item in members),
        "verdict": [item.verdict for item in members],
        "reason": plain_texts(item.reason for item in members),
        "support": [item.support for item in members],
        "evidence": [_evidence(item) if item.evidence else no_evidence for item in members],
        "unbacked": [
            plain(list(unbacked_in(item, sample.texts))) if item.unbacked_by_chunks else no_evidence
            for sample, _, items in scored
            for item in items
        ],
    }
    frame = pd.DataFrame(columns, columns=list(ITEM_COLUMNS), dtype=object)
    frame["support"] = pd.array(columns["support"], dtype="Float64")
    if any(item.judge for item in members):
        frame["judge"] = [item.judge for item in members]
    return frame


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


def _fields(sample: Sample, taken: Set[str]) -> dict[str, Any]:
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
    if sample.history is not None:
        fields["history"] = json.dumps([asdict(message) for message in sample.history], ensure_ascii=False)
    names = {name: f"{name}_given" if name in taken else name for name in sample.metadata if name not in fields}
    return fields | {names[name]: _plain(value) for name, value in sample.metadata.items() if name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
