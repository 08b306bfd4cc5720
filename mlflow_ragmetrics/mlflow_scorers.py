"""Uses MLflow's scorers as metrics of a suite: judges of ``make_judge``, built-in and third-party ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Union

from mlflow_ragmetrics.core.metric import Metric, metric
from mlflow_ragmetrics.core.question import Judge, Outcome, Question, Steps, ask
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.core.score import LARGEST, Chunk, Sample, Score
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError, JudgeError
from mlflow_ragmetrics.rows.values import as_number
from mlflow_ragmetrics.tracking.traces import trace_of

if TYPE_CHECKING:
    from mlflow.genai.scorers import Scorer


def metric_of_scorer(scorer: Scorer) -> Metric:
    """Return a metric that runs ``scorer`` and has its name.

    The scorer gets the question as inputs, the answer as outputs, the reference as the expectation
    ``expected_response``, and the passages in a retriever span of a trace. Yes and true become 1, no and false 0. A
    number stays as it is, from 0 to 1 unless the scorer returns whole numbers. ``InvalidOptionError`` for a scorer of
    whole conversations.
    """
    if scorer.is_session_level_scorer:
        message = f"the scorer {scorer.name} scores whole conversations; a suite scores answers"
        raise InvalidOptionError(message, param="metrics")
    judge = _ScorerJudge(scorer)

    def program(
        answer: str,
        question: Union[str, None] = None,
        reference: Union[str, None] = None,
        contexts: Union[Sequence[str], None] = None,
    ) -> Steps[Score]:
        sample = Sample(
            question=question,
            answer=answer,
            references=None if reference is None else (reference,),
            contexts=None if contexts is None else tuple(Chunk(str(text)) for text in contexts),
        )
        return (yield from ask(_AskScorer(judge, sample)))

    program.__doc__ = f"The value of MLflow's scorer {scorer.name}. {scorer.description or ''}".strip()
    program.__name__ = re.sub(r"\W", "_", scorer.name)
    is_whole = getattr(scorer, "feedback_value_type", None) is int
    made: Metric = metric(asks=(), range=(-LARGEST, LARGEST) if is_whole else (0.0, 1.0), source="MLflow")(program)
    return made


@dataclass(frozen=True, eq=False)  # equal only to itself
class _AskScorer(Question[Score]):
    judge: _ScorerJudge
    sample: Sample
    kind: ClassVar[str] = "mlflow_scorer"
    stored: ClassVar[bool] = False

    @property
    def answered_by(self) -> Judge:
        return self.judge


class _ScorerJudge(Judge):
    """Runs a scorer, one row at a time."""

    def __init__(self, scorer: Scorer) -> None:
        self.name = f"MLflow's {scorer.name}"
        self._scorer = scorer

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        """Return one score per question."""
        return [self._outcome(question.sample) for question in questions if isinstance(question, _AskScorer)]

    def _outcome(self, sample: Sample) -> Outcome:
        expectations = {} if sample.reference is None else {"expected_response": sample.reference}
        try:
            feedback = self._scorer.run(  # type: ignore[no-untyped-call]
                inputs={"question": sample.question},
                outputs=sample.answer,
                expectations=expectations or None,
                trace=trace_of(sample) if sample.contexts is not None else None,
            )
            return self._score(feedback)
        except Exception as error:  # an error of a scorer fails only this score
            return error if isinstance(error, JudgeError) else JudgeError(f"{self.name}: {redact(str(error))}")

    def _score(self, given: Any) -> Score:
        if isinstance(given, list):
            named = [value for value in given if getattr(value, "name", None) == self._scorer.name] or given
            if len(named) != 1:
                raise JudgeError(f"{self.name} returned {len(given)} feedbacks; a metric has one score")
            (given,) = named
        if getattr(given, "error", None) is not None:
            raise JudgeError(f"{self.name}: {redact(str(given.error.error_message or given.error.error_code))}")
        source = getattr(getattr(given, "source", None), "source_id", None)
        value = getattr(given, "value", given) if hasattr(given, "rationale") else given
        reason = str(getattr(given, "rationale", None) or "")
        if value is None:
            return Score(status="skipped", reason=reason or f"{self.name} returned no value", judge=source or self.name)
        try:
            number = as_number(getattr(value, "value", value))
        except InvalidDataError:
            raise JudgeError(f"{self.name} returned {value!r}, which is neither a number nor yes or no") from None
        return Score(value=number, reason=reason, judge=source or self.name)
