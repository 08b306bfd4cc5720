"""``mlflow.models.evaluate`` on the same rows with two of our metrics, six of ours, and two of MLflow's kind.

``python tests/benchmarks/mlflow_evaluate.py``. MLflow's are its exact match and a token overlap made with its
``make_metric``: its own ROUGE needs the package ``evaluate`` and a download.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from contest import Contestant, Figure, compete, serve
from texts import records

WORDS = 60


def own(size: int) -> Callable[[], Any]:
    from mlflow.metrics import exact_match

    return _evaluation(size, [exact_match(), _overlap()])


def ours(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    return _evaluation(size, rm.extra_metrics(rm.Suite(["rouge", "lexical_factuality"])))


def all_ours(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    return _evaluation(size, rm.extra_metrics(rm.Suite.preset("lexical")))


def _overlap() -> Any:
    from mlflow.metrics import MetricValue, make_metric

    def eval_fn(predictions: Any, targets: Any) -> Any:
        pairs = zip(predictions, targets, strict=True)
        scores = [len({*one.split()} & {*other.split()}) / len({*other.split()}) for one, other in pairs]
        return MetricValue(scores=scores, aggregate_results={"mean": sum(scores) / len(scores)})

    return make_metric(eval_fn=eval_fn, greater_is_better=True, name="overlap")


def _evaluation(size: int, metrics: Sequence[Any]) -> Callable[[], Any]:
    import mlflow
    import pandas as pd

    mlflow.set_tracking_uri(f"sqlite:///{tempfile.mkdtemp()}/mlflow.db")
    mlflow.set_experiment("speed")
    frame = pd.DataFrame(records(size, WORDS)).rename(columns={"reference": "ground_truth"})

    def run() -> None:
        with mlflow.start_run():
            found = mlflow.models.evaluate(
                data=frame, predictions="answer", targets="ground_truth", extra_metrics=list(metrics)
            )
        assert len(found.tables["eval_results_table"]) == size

    return run


WORKS = {"own": own, "ours": ours, "all_ours": all_ours}
_CONTESTANTS = (
    ("ours: rouge, lexical_factuality", "ours"),
    ("ours: the lexical preset (six)", "all_ours"),
    ("MLflow: exact match, custom overlap", "own"),
)


def figures(short: bool) -> Sequence[Figure]:
    size = 50 if short else 10_000
    found = compete(__file__, [Contestant(*each) for each in _CONTESTANTS], size, 1 if short else 3)
    return [Figure(f"mlflow.models.evaluate, {size:,} rows of {WORDS} words, logged", found)]


if __name__ == "__main__":
    if "--work" in sys.argv:
        serve(WORKS)
    else:
        from run import show

        show(figures("--short" in sys.argv))
