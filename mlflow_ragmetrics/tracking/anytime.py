"""The state of anytime intervals in MLflow: an artifact of each run, found again by what was measured and how."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.errors import InvalidDataError

__all__ = ["ANYTIME", "ANYTIME_TAG", "last_state", "measurement_id"]

ANYTIME = "ragmetrics_anytime.json"
ANYTIME_TAG = "ragmetrics.anytime"
_MEASURED = ("metrics", "judge", "judge_versions", "embeddings", "groups")


def measurement_id(description: Mapping[str, Any]) -> str:
    """16 hex digits of what is measured and how: only looks at the same continue each other."""
    return blake2b(as_json({name: description.get(name) for name in _MEASURED}).encode(), digest_size=8).hexdigest()


def last_state(description: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state that the last run left of the active experiment that measured the same; ``None`` without one."""
    import mlflow
    from mlflow import artifacts
    from mlflow.exceptions import MlflowException

    same = f"tags.`{ANYTIME_TAG}` = '{measurement_id(description)}' and tags.`ragmetrics.status` = 'complete'"
    runs = mlflow.search_runs(filter_string=same, order_by=["start_time DESC"], max_results=1, output_format="list")
    if not runs:
        return None
    run_id = runs[0].info.run_id
    try:
        state: dict[str, Any] = json.loads(artifacts.load_text(f"runs:/{run_id}/{ANYTIME}"))
    except (MlflowException, OSError, ValueError) as error:
        raise InvalidDataError(f"run {run_id} has no {ANYTIME} to go on from: {error}") from error
    return state
