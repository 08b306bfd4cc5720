"""The plugin ``evaluators="ragmetrics"`` of ``mlflow.models.evaluate``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlflow
import pandas as pd
from mlflow.models.evaluation import EvaluationResult, ModelEvaluator
from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact

from mlflow_ragmetrics.adapters.mlflow_models import with_traced_contexts
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError
from mlflow_ragmetrics.rows import read_samples
from mlflow_ragmetrics.suite import Suite
from mlflow_ragmetrics.tracking.describe import run_metrics_of
from mlflow_ragmetrics.tracking.writer import CLAIMS, ROWS

_NAME = "ragmetrics"
_READ_HERE = ("suite", "columns", "col_mapping", "traces")


class RagMetricsEvaluator(ModelEvaluator):
    """Evaluates with a suite if ``evaluator_config`` has the key ``suite``.

    ``suite`` is a preset's name, a list of metrics, a YAML file or a ``Suite``. ``columns`` maps sample fields to
    column names, like MLflow's ``col_mapping``. ``traces=False`` writes no traces. The other keys (judge, embeddings,
    weights, thresholds, …) are options of ``Suite`` and of its judges. The configuration may be nested under
    ``"ragmetrics"``. Metrics, params and tables are logged to the run.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, evaluator_config: Mapping[str, Any] | None, **_: Any) -> bool:
        """Whether the configuration has a suite."""
        return "suite" in _unnested(evaluator_config)

    def evaluate(
        self,
        *,
        model_type: str | None,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any] | None,
        model: Any = None,
        extra_metrics: Any = None,
        custom_artifacts: Any = None,
        predictions: str | None = None,
        model_id: str | None = None,
        **_: Any,
    ) -> EvaluationResult:
        """Score the dataset's predictions, or those of ``model``, and log the result to ``run_id``."""
        config = _unnested(evaluator_config)
        suite = Suite.of(config["suite"], **{name: each for name, each in config.items() if name not in _READ_HERE})
        features = dataset.features_data
        table = (
            features if isinstance(features, pd.DataFrame) else pd.DataFrame(features, columns=dataset.feature_names)
        )
        outputs = dataset.predictions_data if model is None else model.predict(table)
        columns = {"answer": "outputs"}
        if dataset.has_targets:
            table = table.assign(targets=list(dataset.labels_data))
            columns["reference"] = "targets"
        table = _with_outputs(table, outputs, predictions)
        traces = bool(config.get("traces", True))
        columns |= config.get("col_mapping", {}) | config.get("columns", {})
        try:
            samples = list(read_samples(table, columns))
            report = suite.evaluate(with_traced_contexts(samples, suite, run_id if model is not None else None))
        except JudgeError as error:  # no judge is left: earlier answers are logged
            if error.report is not None:
                error.report.log(run_id=run_id, traces=traces, dataset=False)
            raise
        figures = run_metrics_of(report)
        omit = figures if model_id else ()  # with a model, MLflow logs the returned metrics
        report.log(run_id=run_id, model_id=model_id, traces=traces, dataset=False, omit=omit)
        artifacts = {
            name.removesuffix(".json"): JsonEvaluationArtifact(mlflow.get_artifact_uri(name))  # type: ignore[no-untyped-call]
            for name in (ROWS, CLAIMS)
        }
        return EvaluationResult(figures, artifacts, run_id)  # type: ignore[no-untyped-call]


def _unnested(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    config = config or {}
    inner = config.get(_NAME)
    return inner if isinstance(inner, Mapping) else config


def _with_outputs(table: pd.DataFrame, outputs: Any, answer: str | None) -> pd.DataFrame:
    """The inputs with the model's outputs: one column, or several, with the answer in the column ``answer``."""
    if isinstance(outputs, Mapping) or (isinstance(outputs, list) and outputs and isinstance(outputs[0], Mapping)):
        outputs = pd.DataFrame(outputs)
    if not isinstance(outputs, pd.DataFrame):
        return table.assign(outputs=list(outputs))
    names = list(outputs.columns)
    name = answer if answer in names else names[0] if len(names) == 1 else None
    if name is None:
        message = f"the model returns the columns {', '.join(map(str, names))}; set predictions= to the answer's column"
        raise InvalidOptionError(message, param="predictions")
    others = {other: list(outputs[other]) for other in names if other != name}
    return table.assign(**{**others, "outputs": list(outputs[name])})
