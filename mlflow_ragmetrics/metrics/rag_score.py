"""The weighted composite of the white-paper family."""

from __future__ import annotations

from dataclasses import replace

from mlflow_ragmetrics.core.composite import composite

_WEIGHTS = {
    "correctness": 0.4,
    "faithfulness": 0.2,
    "chunk_precision": 0.2,
    "fact_recall": 0.2,
    "answer_relevance": 0.0,
}

rag_score = replace(
    composite("rag_score", _WEIGHTS),
    scaled=True,
    summary="Weighted mean of correctness (0.4), faithfulness, chunk_precision and fact_recall (0.2 each).",
)
