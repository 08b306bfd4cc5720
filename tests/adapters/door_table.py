"""The number of metrics and presets with equal means through each door into one store.

``python -m tests.adapters.door_table sqlite:///doors.db`` (or a server's address; names of metrics and presets select
some). Prints differences and failures, then one line of JSON; docs/data/doors.json consists of those lines.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import time
import warnings
from collections import Counter

import mlflow
import pytest

from mlflow_ragmetrics.registry import all_metrics
from mlflow_ragmetrics.selection import PRESETS
from mlflow_ragmetrics.tracking.writer import mlflow_name
from tests.adapters.doors import DOORS, Door, directly, suite_of

__all__ = ["NAMES"]

RANKED = {name for name in all_metrics() if name.startswith("judged_")}
"""Metrics that the offline judge refuses."""
NAMES = sorted({*all_metrics(), "ndcg_5", *(f"preset {name}" for name in PRESETS)} - RANKED)


def fault(door: Door, name: str) -> str | None:
    """What is wrong with a metric or preset through this door, in its own experiment."""
    mlflow.set_experiment(f"{name} by {door.__name__} {time.time()}")
    suite = suite_of(name)
    means = [f"{mlflow_name(key)}/mean" for key in suite.keys]
    expected = {mlflow_name(name): value for name, value in directly(suite).items()}
    try:
        found = door(suite)
    except Exception as error:
        while mlflow.active_run():
            mlflow.end_run()
        return f"{type(error).__name__}: {error}"
    both = {mean: (expected.get(mean, math.nan), found.get(mean, math.nan)) for mean in means}
    differing = {mean: pair for mean, pair in both.items() if pair != pytest.approx(pair[::-1], nan_ok=True)}
    return f"{differing}" if differing else None


def main(store: str, *names: str) -> None:
    """Print the table of one store."""
    os.environ.setdefault("MLFLOW_GENAI_EVAL_MAX_WORKERS", "2")
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    mlflow.set_tracking_uri(store)
    passed: Counter[str] = Counter()
    doors = [each.values[0] for each in DOORS]
    for name in names or NAMES:
        for door in doors:
            wrong = fault(door, name)
            passed[door.__name__] += wrong is None
            if wrong is not None:
                print(f"{name} by {door.__name__}: {wrong}", flush=True)
    print(json.dumps({"mlflow": mlflow.__version__, "of": len(names or NAMES), "passed": dict(passed)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
