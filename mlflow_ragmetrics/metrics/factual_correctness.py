"""Do the claims of answer and reference support each other?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.options import spelled
from mlflow_ragmetrics.core.question import Steps
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.metrics.claims import correspond, joined, to_do
from mlflow_ragmetrics.text.messages import say

__all__ = ["factual_correctness"]

_MODES = {"f1": "F1", "f1score": "F1", "precision": "PRECISION", "recall": "RECALL"}
Mode = Annotated[Literal["F1", "PRECISION", "RECALL"], spelled(**_MODES)]


def _key(options: BaseModel) -> str:
    mode = str(getattr(options, "mode", "F1"))
    return "factual_correctness" if mode == "F1" else f"factual_correctness_{mode.lower()}"


@metric(
    key=_key,
    key_pattern="factual_correctness_(?P<mode>f1|precision|recall)",
    source="ragas",
    aliases=("factual_correctness_metric",),
)
def factual_correctness(
    answer: str,
    reference: str,
    question: str | None = None,
    history: Sequence[Message] | None = None,
    *,
    mode: Mode = "F1",
) -> Steps[Score]:
    """How far the claims of the answer and of the reference support each other.

    Formula: precision = claims of the answer that the reference supports / claims of the answer; recall = claims of
    the reference that the answer supports / claims of the reference; F1 = 2PR / (P + R). Each claim is SUPPORTED,
    CONTRADICTED or NEUTRAL, and only SUPPORTED counts; a missing or unknown verdict is NEUTRAL, with a warning. Both
    directions are judged in every mode and stand in ``details``. 0 to 1; no claims on a side: its share is 0.0; a
    blank side: 0.0 without a call. Unscored: answer or reference missing.

    Options: ``mode`` F1, PRECISION or RECALL, in any case (keys ``factual_correctness``, ``…_precision``,
    ``…_recall``). Source: the ragas project, Factual Correctness.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> judge = rm.ScriptedJudge(
    ...     response_claims=["Paris is a capital."],
    ...     response_verdicts=["supported"],
    ...     reference_claims=["Paris is a capital.", "It is big."],
    ...     reference_verdicts=["supported", "neutral"],
    ... )
    >>> record = {
    ...     "answer": "Paris is a capital.",
    ...     "reference": "Paris is a capital. It is big.",
    ... }
    >>> rm.score("factual_correctness", record, judge=judge, mode="recall").value
    0.5
    """
    found = yield from correspond(answer, reference, question, history)
    value = {"F1": found.f1, "PRECISION": found.precision, "RECALL": found.recall}[mode]
    counts = found.details
    reason = joined(
        say("factual_correctness.counts", value=value, mode=say(f"factual_correctness.{mode.lower()}"), **counts),
        to_do("not_in_reference", found.answer.of("NEUTRAL", "CONTRADICTED")),
        to_do("not_in_answer", found.reference.of("NEUTRAL", "CONTRADICTED")),
    )
    blank = not answer.strip() or not reference.strip()
    return Score(
        value=value,
        reason=say("factual_correctness.blank") if blank else reason,
        details=counts,
        warnings=found.warnings,
    ).with_items(found.made)
