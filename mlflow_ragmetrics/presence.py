"""Fields that no row has: refused for metrics that were named, left out with one warning for a preset's."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.errors import InvalidDataError, MissingFieldError
from mlflow_ragmetrics.selection import Selection

__all__ = ["check_presence"]


def check_presence(selection: Selection, samples: Sequence[Sample]) -> tuple[Selection, tuple[str, ...]]:
    """The selection without what cannot be scored at all, and the warnings that say so.

    ``MissingFieldError`` for a named metric whose field is absent from every row, or when nothing is left;
    ``InvalidDataError`` when there are no rows.
    """
    if not samples:
        raise InvalidDataError("the data has no rows; give at least one sample")
    absent: dict[str, str] = {}
    for metric in selection.metrics:
        for field in metric.definition.required:
            if all(getattr(s, field, None) is None and field not in s.invalid for s in samples):
                absent.setdefault(metric.key, field)
                break
    if not absent:
        return selection, ()
    left = selection.without(list(absent))
    refused = [key for key in absent if _is_named(selection, key)] or (list(absent) if not left.metrics else [])
    if refused:
        key, field = refused[0], absent[refused[0]]
        message = f"{key} needs the field {field!r} and no row has it; add it, or name its column with columns"
        raise MissingFieldError(message, field=field, metric=key)
    said = ", ".join(f"{key} (no row has {field!r})" for key, field in absent.items())
    return left, (f"left out of the preset {selection.name!r}: {said}",)


def _is_named(selection: Selection, key: str) -> bool:
    if selection.name is not None:
        return False
    metric = next(metric for metric in selection.metrics if metric.key == key)
    return metric.settings.on_missing != "skip"
