"""A scored answer on its way into MLflow: how far it is written, and the form in which it waits on disk."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict

from pydantic import TypeAdapter, ValidationError

from mlflow_ragmetrics.adapters.langchain.scoring import Counts
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.tracking.live import Place

if TYPE_CHECKING:
    from mlflow.entities import Metric

__all__ = ["Answer", "Packed", "packed", "unpacked"]

_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Answer:
    """A scored answer, and how far it is written: its metrics, its row in the tables, the feedback on its trace.

    ``run_id`` is ``None`` where it belongs to the run that the sink makes. ``metrics`` are made once, so that writing
    them again writes the same points; ``place`` is that of its row in the run's tables, once it has one, and
    ``left_at`` the one that it had in a process that ended, which may have written it or not; ``feedback`` is what is
    not on the trace yet. ``counts`` are those of the handler that it came from, ``time_ms`` is when it was scored.
    """

    scored_row: Row
    run_id: str | None
    trace_id: str | None
    feedback: dict[str, Score]
    counts: Counts
    time_ms: int
    came: float = field(default_factory=time.monotonic)
    metrics: list[Metric] | None = None
    metrics_written: bool = False
    place: Place | None = None
    left_at: Place | None = None
    feedback_attempts: int = 0
    withheld: bool = False
    written: bool = False


class Packed(TypedDict):
    """A scored answer as JSON."""

    row: dict[str, Any]
    run_id: str | None
    trace_id: str | None
    feedback: list[str]
    time_ms: int
    metrics: list[tuple[str, float, int, int]] | None
    place: Place | None


def packed(answer: Answer, run_id: str | None) -> Packed:
    """What of an answer has to be kept on disk; ``run_id`` is the run that it belongs to by now."""
    metrics = None if answer.metrics is None else [(m.key, m.value, m.timestamp, m.step) for m in answer.metrics]
    return Packed(
        row=asdict(answer.scored_row),
        run_id=run_id,
        trace_id=answer.trace_id,
        feedback=list(answer.feedback),
        time_ms=answer.time_ms,
        metrics=metrics,
        place=answer.place or answer.left_at,
    )


def unpacked(entry: Packed, counts: Counts) -> Answer | None:
    """The answer that was packed; ``None``, and a line in the log, where it cannot be read."""
    from mlflow.entities import Metric

    try:
        row = _rows().validate_python(entry["row"])
    except (ValidationError, KeyError, TypeError):
        _logger.warning("a scored answer on disk cannot be read; it is left out")
        return None
    feedback = {key: row.scores[key] for key in entry["feedback"] if key in row.scores}
    answer = Answer(row, entry["run_id"], entry["trace_id"], feedback, counts, entry["time_ms"])
    if entry["place"] is not None:
        answer.left_at = (entry["place"][0], entry["place"][1])
    if entry["metrics"] is not None:
        answer.metrics = [Metric(*each) for each in entry["metrics"]]
    return answer


@lru_cache(maxsize=1)
def _rows() -> TypeAdapter[Row]:
    return TypeAdapter(Row)
