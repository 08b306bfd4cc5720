"""Do answer and reference mean nearly the same thing?"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.score import Score, passes
from mlflow_ragmetrics.metrics.similarity import Similarity, similarity
from mlflow_ragmetrics.text.messages import Text, say

__all__ = ["semantic_similarity"]


@metric(asks=("embeddings",), range=(-1.0, 1.0), source="ragas", aliases=("semantic_similarity_metric",))
def semantic_similarity(
    answer: str,
    reference: str,
    *,
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None,
    models: Annotated[tuple[str, ...], Field(min_length=1)] | None = None,
) -> Steps[Score]:
    """Cosine of the embeddings of answer and reference.

    Formula: a · r / (|a| |r|), the mean over the embedding models; with ``threshold`` 1.0 where the mean reaches it,
    else 0.0. −1 to 1; a blank side or a zero vector: 0.0. Texts beyond 2,000 characters are cut into pieces, whose
    vectors are averaged. ``details["band"]``: identical from 0.9, very_high from 0.8, moderate from 0.5, else low.
    Unscored: answer or reference missing. A failed model has no vote; all failed: ``AllJudgesFailedError``.

    Options: ``threshold`` (above 0, to 1), ``models`` (names of configured embedding models).
    Source: the ragas project, Semantic Similarity; Reimers and Gurevych, Sentence-BERT, 2019.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> score = rm.score(
    ...     "semantic_similarity",
    ...     {"answer": "The cat sat.", "reference": "The cat sat."},
    ... )
    >>> round(score.value, 6), score.details["band"]
    (1.0, 'identical')
    """
    found = yield from similarity(answer, reference, models)
    value = found.value if threshold is None else float(passes(found.value, threshold))
    reason = _cosine_reason(found)
    if threshold is not None:
        code = "semantic_similarity.reached" if value else "semantic_similarity.missed"
        reason = say("joined", first=reason, second=say(code, threshold=threshold))
    return Score(
        value=value,
        reason=reason,
        details={"cosine": found.value, "band": found.band, **found.details},
        model_scores=found.models,
        excluded_models=tuple(found.failures),
        warnings=found.warnings,
    )


def _cosine_reason(found: Similarity) -> Text:
    if not found.models:
        return say("semantic_similarity.blank")
    band = say(f"band.{found.band}")
    return say("semantic_similarity.cosine", value=found.value, n=len(found.models), band=band)
