"""RAG evaluation in MLflow: what is wrong with each answer, and whether one version is better than another.

``import mlflow_ragmetrics as rm`` is fast: each public name is imported on first use. Metrics are also public by their
own names: ``rm.faithfulness``, ``rm.rouge``, …. The types are in ``__init__.pyi``.
"""

from __future__ import annotations

from importlib import import_module
from types import FunctionType

__version__ = "0.1.0"

_HOMES = {
    "adapters.langchain.chain": ("aevaluate_chain", "evaluate_chain"),
    "adapters.langchain.handler": ("RagMetricsCallback",),
    "adapters.langchain.middleware": ("RagMetricsMiddleware",),
    "adapters.langsmith": ("langsmith_evaluators",),
    "adapters.mlflow_genai": ("get_scorer", "scorer", "scorers"),
    "adapters.mlflow_evaluator": ("extra_metrics",),
    "calibration": ("Calibration", "calibrate"),
    "comparison": ("Comparison", "compare"),
    "comparison.power": ("power",),
    "core.composite": ("Composite", "aggregate", "combine", "composite"),
    "core.metric": ("Metric", "metric"),
    "core.question": (
        "Claims",
        "Embedding",
        "Finding",
        "Grade",
        "Judge",
        "Outcome",
        "Question",
        "Rating",
        "RelatedChunks",
        "Steps",
        "Verify",
        "ask",
        "together",
    ),
    "core.score": ("Chunk", "Evidence", "Item", "Message", "Sample", "Score"),
    "engine.program": ("Row",),
    "errors": ("RagMetricsError",),
    "judges.chat.chat_judge": ("ChatJudge",),
    "judges.decision": ("DecisionJudge",),
    "judges.lexical.lexical_judge": ("LexicalJudge",),
    "judges.nli": ("NLIJudge",),
    "judges.resolve": ("Panel",),
    "judges.scripted": ("ScriptedJudge",),
    "rows": ("join",),
    "rows.chat_messages": ("sample_from_messages",),
    "report": ("Report",),
    "results.figures": ("summarize",),
    "stress_suite": ("Stress", "stress"),
    "short_forms": ("assert_score", "evaluate", "score"),
    "suite": ("Suite",),
    "text.non_answers": ("is_indistinct",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> object:
    if name in _HOME:
        member = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        if isinstance(member, FunctionType):
            from mlflow_ragmetrics.core.options import public

            member = public(member, __name__)
        globals()[name] = member
        return member
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mlflow_ragmetrics.registry import all_metrics

    metrics = all_metrics()
    if name not in metrics:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}, and there is no metric of that name")
    return metrics[name]


def __dir__() -> list[str]:
    from mlflow_ragmetrics.registry import all_metrics

    return sorted({*__all__, *all_metrics()})
