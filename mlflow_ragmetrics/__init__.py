"""RAG evaluation in MLflow: what is wrong with each answer, and whether one version is better than another.

``import mlflow_ragmetrics as rm`` loads nothing heavy; each public name is imported when it is first used. Metrics are
public by their own names as well: ``rm.faithfulness``, ``rm.rouge``, ….
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow_ragmetrics.adapters.langchain.chain import evaluate_chain as evaluate_chain
    from mlflow_ragmetrics.adapters.langchain.handler import RagMetricsCallback as RagMetricsCallback
    from mlflow_ragmetrics.adapters.mlflow_genai import scorer as scorer
    from mlflow_ragmetrics.adapters.mlflow_genai import scorers as scorers
    from mlflow_ragmetrics.adapters.mlflow_models import extra_metrics as extra_metrics
    from mlflow_ragmetrics.adapters.spark import log_spark as log_spark
    from mlflow_ragmetrics.adapters.spark import score_spark as score_spark
    from mlflow_ragmetrics.adapters.spark import spark_udf as spark_udf
    from mlflow_ragmetrics.adapters.spark import summarize_spark as summarize_spark
    from mlflow_ragmetrics.calibration import Calibration as Calibration
    from mlflow_ragmetrics.calibration import calibrate as calibrate
    from mlflow_ragmetrics.comparison import Comparison as Comparison
    from mlflow_ragmetrics.comparison import compare as compare
    from mlflow_ragmetrics.core.aggregate import aggregate as aggregate
    from mlflow_ragmetrics.core.composite import combine as combine
    from mlflow_ragmetrics.core.composite import composite as composite
    from mlflow_ragmetrics.core.judge import Judge as Judge
    from mlflow_ragmetrics.core.metric import Metric as Metric
    from mlflow_ragmetrics.core.metric import metric as metric
    from mlflow_ragmetrics.core.sample import Chunk as Chunk
    from mlflow_ragmetrics.core.sample import Sample as Sample
    from mlflow_ragmetrics.core.score import Evidence as Evidence
    from mlflow_ragmetrics.core.score import Item as Item
    from mlflow_ragmetrics.core.score import Score as Score
    from mlflow_ragmetrics.judges.chat.judge import ChatJudge as ChatJudge
    from mlflow_ragmetrics.judges.lexical.judge import LexicalJudge as LexicalJudge
    from mlflow_ragmetrics.judges.resolve import Panel as Panel
    from mlflow_ragmetrics.judges.scripted import ScriptedJudge as ScriptedJudge
    from mlflow_ragmetrics.report.report import Report as Report
    from mlflow_ragmetrics.report.summary import summarize as summarize
    from mlflow_ragmetrics.scoring import score as score
    from mlflow_ragmetrics.shared.non_answers import is_indistinct as is_indistinct
    from mlflow_ragmetrics.suite import Suite as Suite

__version__ = "0.1.0"

_HOMES = {
    "adapters.langchain.chain": ("evaluate_chain",),
    "adapters.langchain.handler": ("RagMetricsCallback",),
    "adapters.mlflow_genai": ("scorer", "scorers"),
    "adapters.mlflow_models": ("extra_metrics",),
    "adapters.spark": ("log_spark", "score_spark", "spark_udf", "summarize_spark"),
    "calibration": ("Calibration", "calibrate"),
    "comparison": ("Comparison", "compare"),
    "core.aggregate": ("aggregate",),
    "core.composite": ("combine", "composite"),
    "core.judge": ("Judge",),
    "core.metric": ("Metric", "metric"),
    "core.sample": ("Chunk", "Sample"),
    "core.score": ("Evidence", "Item", "Score"),
    "shared.non_answers": ("is_indistinct",),
    "errors": (
        "AllJudgesFailedError",
        "BudgetExceededError",
        "InvalidDataError",
        "InvalidFieldError",
        "InvalidOptionError",
        "JudgeError",
        "JudgeReplyError",
        "MissingExtraError",
        "MissingFieldError",
        "NoConsensusError",
        "RagMetricsError",
    ),
    "judges.chat.judge": ("ChatJudge",),
    "judges.lexical.judge": ("LexicalJudge",),
    "judges.nli": ("NLIJudge",),
    "judges.resolve": ("Panel",),
    "judges.scripted": ("ScriptedJudge",),
    "report.report": ("Report",),
    "scoring": ("score",),
    "suite": ("Suite",),
    "report.summary": ("summarize",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mlflow_ragmetrics.registry import all_metrics

    metrics = all_metrics()
    if name not in metrics:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}, nor is there a metric of that name")
    return metrics[name]


def __dir__() -> list[str]:
    return __all__
