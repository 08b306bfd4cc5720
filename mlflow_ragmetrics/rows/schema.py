"""The columns of scored rows: one description for frames, files, MLflow's tables and Spark, and for reading them back.

A score's columns are called ``<key><suffix>``. Those of items are the same wherever items are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from mlflow_ragmetrics.core.safe_text import plain, plain_text, plain_texts
from mlflow_ragmetrics.core.score import Better, Item, Sample, Score
from mlflow_ragmetrics.judges.lexical.support import unbacked_in

if TYPE_CHECKING:
    import pandas as pd

BETTER: Mapping[Better, str] = {False: "lower", None: "neither"}
"""What the column ``<key>_better`` says of metrics of which higher is not better."""
DIAGNOSIS = ("diagnosis", "diagnosis_reason")
"""The columns that say which part failed."""

Kind = Literal["number", "count", "truth", "text", "texts"]


@dataclass(frozen=True, eq=False)
class Column:
    """What ``<key><suffix>`` holds of a score; a table has it where ``shows`` is true for one of its scores."""

    suffix: str
    kind: Kind
    read: Callable[[Score], Any]
    shows: Callable[[Score], bool] = lambda score: True


def _detail(name: str) -> Callable[[Score], Any]:
    return lambda score: score.details.get(name)


VALUES = (
    Column("", "number", attrgetter("value")),
    Column("_1to5", "number", attrgetter("scaled"), lambda score: score.scaled is not None),
    Column("_passed", "truth", attrgetter("passed"), lambda score: score.threshold is not None),
)
REASON = Column("_reason", "text", lambda score: score.error or score.reason)
ORIGINS = (
    Column("_status", "text", attrgetter("status")),
    Column(
        "_better",
        "text",
        lambda score: BETTER.get(score.higher_is_better),
        lambda score: score.higher_is_better is not True,
    ),
    Column("_measured", "truth", attrgetter("measured"), lambda score: score.scored and not score.measured),
    Column("_support", "number", _detail("support"), lambda score: score.details.get("support") is not None),
    Column("_judge", "text", attrgetter("judge"), lambda score: bool(score.model_scores)),
)
"""How a score came about."""
SCORE_COLUMNS = (*VALUES, REASON, *ORIGINS)
"""The columns of a report's tables."""
COUNTED_COLUMNS = (
    Column("_warnings", "texts", lambda score: [code for code, _ in score.warnings]),
    Column("_no_context", "truth", lambda score: bool(score.details.get("no_context"))),
    Column("_fewer_judges", "truth", lambda s: len(s.model_scores) < int(s.details.get("judges_asked", 0))),
    Column("_gold_docs", "count", _detail("gold_docs_count")),
    Column("_correct_docs", "count", _detail("correct_docs_count")),
    Column("_coverage", "number", _detail("coverage")),
)
"""What figures are made of where only the columns are left, as in Spark."""

_NONE: list[Any] = []  # one for all: a list per item would keep the garbage collector busy
_ITEM_FIELDS = ("kind", "text", "verdict", "against", "reason", "support", "judge")


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """A table that was read back, whose score columns get the types of ``SCORE_COLUMNS``: a CSV holds texts."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for key in score_keys(frame):
        for column in SCORE_COLUMNS:
            name = f"{key}{column.suffix}"
            if name not in frame.columns:
                continue
            if column.kind == "number":
                columns[name] = pd.to_numeric(frame[name], errors="coerce").astype("Float64")
            elif column.kind == "truth":
                truths = frame[name].astype(str).str.lower().map({"true": True, "false": False})
                columns[name] = truths.astype("boolean")
    return frame.assign(**columns)


def score_keys(frame: pd.DataFrame) -> list[str]:
    """The keys of the scores in a table: the columns that have a ``<key>_status`` beside them."""
    names = [str(name) for name in frame.columns]
    return [name for name in names if f"{name}_status" in names]


def item_columns(scored: Iterable[tuple[Score, Sample]]) -> tuple[list[int], dict[str, list[Any]]]:
    """How many items each score has, and the items of all of them, column by column.

    ``evidence`` has mappings; ``unbacked`` the parts of an unsupported claim that no passage backs by its words, found
    here for those who look at the table.
    """
    columns: dict[str, list[Any]] = {name: [] for name in (*_ITEM_FIELDS, "evidence", "unbacked")}
    sizes = []
    for score, sample in scored:
        items = score.items
        sizes.append(len(items))
        for name in _ITEM_FIELDS:
            columns[name] += map(attrgetter(name), items)
        columns["evidence"] += [plain(list(map(asdict, item.evidence))) if item.evidence else _NONE for item in items]
        columns["unbacked"] += [_unbacked(item, sample) if item.evidence else _NONE for item in items]
    return sizes, {**columns, **{name: plain_texts(columns[name]) for name in ("text", "reason")}}


def _unbacked(item: Item, sample: Sample) -> list[Any]:
    return [plain_text(text) for text in unbacked_in(item, sample.texts)] if item.unbacked_by_chunks else _NONE
