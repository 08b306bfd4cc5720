"""Sets of metrics by name."""

from __future__ import annotations

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidOptionError

__all__ = ["PRESETS", "preset_metrics"]

_WHITE_PAPER = ("correctness", "faithfulness", "chunk_precision", "fact_recall", "answer_relevance")
_LEXICAL = (
    "rouge",
    "lexical_groundedness",
    "lexical_factuality",
    "lexical_relevance",
    "coherence",
    "content_safety",
)
_RESPONSE = ("semantic_similarity", "factual_correctness", "answer_correctness")
_RETRIEVAL = ("context_recall", "context_precision", "context_f1", "ndcg_10")

PRESETS: dict[str, tuple[str, ...]] = {
    "white_paper": (*_WHITE_PAPER, "rag_score"),
    "lexical": _LEXICAL,
    "response": _RESPONSE,
    "retrieval": _RETRIEVAL,
    "full": (
        *_WHITE_PAPER,
        "fact_recall(target='reference')",
        *_LEXICAL,
        *_RESPONSE,
        *_RETRIEVAL,
        "rag_score",
    ),
}


def preset_metrics(name: str) -> tuple[str, ...]:
    """The spellings of a preset; ``InvalidOptionError`` names the presets there are."""
    if not isinstance(name, str) or name not in PRESETS:
        raise InvalidOptionError(f"unknown preset {shown(name)}; presets are {', '.join(PRESETS)}", param="suite")
    return PRESETS[name]
