"""``mlflow.models.evaluate`` and ``mlflow.genai.evaluate`` with our metrics and with others.

``python tests/benchmarks/mlflow_evaluate.py``. The same work: ROUGE in all four types. MLflow's own ROUGE loads a
script that the package ``evaluate`` downloads; here the script's few lines replace the download and call the same
``rouge_score``. Then MLflow's cheapest metrics, its exact match and a token overlap created with its ``make_metric``,
compared with two and six of ours, which also write tables and a page to the run. Finally ``mlflow.genai.evaluate``
with six scorers of the preset ``lexical``, and with six that compute nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from contest import Contestant, compete, enter_new_folder
from table import Figure, main
from texts import records

WORDS = 60


def own(size: int) -> Callable[[], Any]:
    from mlflow.metrics import exact_match

    return _evaluation(size, [exact_match(), _overlap()])


def own_rouge(size: int) -> Callable[[], Any]:
    import mlflow.metrics as own
    from mlflow.metrics import metric_definitions

    metric_definitions._cached_evaluate_load = lambda *_, **__: _RougeScript()
    return _evaluation(size, [own.rouge1(), own.rouge2(), own.rougeL(), own.rougeLsum()])


class _RougeScript:
    """The result of ``evaluate.load("rouge")``."""

    def compute(self, predictions: Any, references: Any, rouge_types: list[str], use_aggregator: bool) -> Any:
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer(rouge_types, use_stemmer=False)
        scored = [scorer.score(target, answer) for target, answer in zip(references, predictions, strict=True)]
        return {kind: [scores[kind].fmeasure for scores in scored] for kind in rouge_types}


def our_rouge(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    types = ("rouge1", "rouge2", "rougeL", "rougeLsum")
    suite = rm.Suite([{"rouge": {"rouge_type": kind, "tokenizer": "rouge_score"}} for kind in types])
    return _evaluation(size, rm.extra_metrics(suite))


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

    logging.disable(logging.WARNING)
    enter_new_folder()
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment("speed")
    frame = pd.DataFrame(records(size, WORDS)).rename(columns={"reference": "ground_truth"})

    def run() -> None:
        with mlflow.start_run():
            found = mlflow.models.evaluate(
                data=frame, predictions="answer", targets="ground_truth", extra_metrics=list(metrics)
            )
        assert len(found.tables["eval_results_table"]) == size

    return run


def our_scorers(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    return _genai_evaluation(size, rm.scorers(rm.Suite.preset("lexical")))


def trivial_scorers(size: int) -> Callable[[], Any]:
    from mlflow.genai.scorers import scorer

    def trivial(number: int) -> Any:
        def score(outputs: Any) -> float:
            return 0.5

        return scorer(name=f"trivial_{number}")(score)

    return _genai_evaluation(size, list(map(trivial, range(6))))


def _genai_evaluation(size: int, scorers: Sequence[Any]) -> Callable[[], Any]:
    import mlflow

    logging.disable(logging.WARNING)
    enter_new_folder()
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment("speed")
    limits = {"MAX_WORKERS": "10", "SCORER_RATE_LIMIT": "0", "PREDICT_RATE_LIMIT": "0"}
    os.environ.update({f"MLFLOW_GENAI_EVAL_{name}": limit for name, limit in limits.items()})
    data = [
        {
            "inputs": {"question": row["question"]},
            "outputs": row["answer"],
            "expectations": {"expected_response": row["reference"]},
        }
        for row in records(size, WORDS)
    ]

    def run() -> None:
        found = mlflow.genai.evaluate(data=data, scorers=list(scorers))
        assert len(found.result_df) == size

    return run


WORKS = {
    "own": own,
    "ours": ours,
    "all_ours": all_ours,
    "own_rouge": own_rouge,
    "our_rouge": our_rouge,
    "our_scorers": our_scorers,
    "trivial_scorers": trivial_scorers,
}
_ROUGE = (("ours: ROUGE, four types", "our_rouge"), ("MLflow: ROUGE, four types", "own_rouge"))
_LEAST = (
    ("ours: rouge, lexical_factuality", "ours"),
    ("ours: the lexical preset (six)", "all_ours"),
    ("MLflow: exact match, custom overlap", "own"),
)
_SCORERS = (("ours: six lexical scorers", "our_scorers"), ("six scorers that compute nothing", "trivial_scorers"))


def figures(short: bool) -> Sequence[Figure]:
    size = 50 if short else 10_000
    found = []
    for said, contestants in (("the same work", _ROUGE), ("other work", _LEAST)):
        results = compete(__file__, [Contestant(*each) for each in contestants], size, 1 if short else 3)
        what = f"mlflow.models.evaluate, {size:,} rows of {WORDS} words, logged: {said}"
        found.append(Figure(what, results))
    size = 3 if short else 200
    results = compete(__file__, [Contestant(*each) for each in _SCORERS], size, 1 if short else 3)
    found.append(Figure(f"mlflow.genai.evaluate, {size} rows of {WORDS} words, logged", results))
    return found


if __name__ == "__main__":
    main(WORKS, figures)
