"""States of answer and reference (clear, indistinct, missing), and rows without context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Union

from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import MissingFieldError
from mlflow_ragmetrics.text.declining import is_error_text
from mlflow_ragmetrics.text.messages import Text, say
from mlflow_ragmetrics.text.non_answers import is_non_answer
from mlflow_ragmetrics.text.sentences import statements
from mlflow_ragmetrics.text.terms import normalize

Indistinct = Union[Literal["rules", "off"], tuple[str, ...], Callable[[str], bool]]
"""How indistinct texts are recognised: by the rules, by the rules with further phrases, by a function, or never."""

NoContext = Literal["vacuous", "floor", "skip"]
"""What a row without context gets: the metric's own value for it, 0.0, or no score."""

State = Literal["clear", "indistinct", "missing"]


@dataclass(frozen=True)
class States:
    """The states of one row's answer and reference."""

    answer: State
    reference: State

    def details(self, rule: str, counts: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """``counts`` and ``more`` with both states and the rule that was applied."""
        return {**(counts or {}), **more, "answer_state": self.answer, "reference_state": self.reference, "rule": rule}


def is_indistinct(text: str | None, extra: Sequence[str] = ()) -> bool:
    """Whether ``text`` gives no answer: missing, blank, without a letter or digit, an error text, or only non-answers.

    An error text is that of an API or a program ("Error code: 429 …"). Otherwise every sentence must be a non-answer as
    a whole, in one of ten languages; a hedge followed by content is distinct. ``extra`` are further phrases that count
    as non-answers. Source: the "RAG Answer Evaluation Framework" white paper, "confused" answers.

    >>> [is_indistinct(text) for text in ("(I don't know. No idea.)", "I'm not sure. It is Paris.", "no")]
    [True, False, False]
    """
    phrases = tuple(extra)
    return (
        text is None
        or is_error_text(text)
        or all(is_non_answer(normalize("NFKC", sentence), phrases) for sentence in statements(text))
    )


def states_of(answer: str | None, reference: str | None, indistinct: Indistinct = "rules") -> States:
    """The states of both texts; ``indistinct`` is the metric's option of that name."""
    return States(_state(answer, indistinct), _state(reference, indistinct))


def has_non_answer(sample: Sample) -> bool:
    """Whether the sample's answer is blank, a non-answer or an error text; a missing answer is none of these."""
    return sample.answer is not None and _indistinct_by_rules(sample.answer)


_indistinct_by_rules = lru_cache(maxsize=256)(is_indistinct)  # five metrics look at the same two texts


def _state(text: str | None, indistinct: Indistinct) -> State:
    if text is None:
        return "missing"
    if callable(indistinct):
        found = bool(indistinct(text))
    else:
        found = indistinct != "off" and _indistinct_by_rules(text, () if isinstance(indistinct, str) else indistinct)
    return "indistinct" if found else "clear"


def has_context(contexts: Sequence[str] | None) -> bool:
    """Whether there is at least one chunk that is not blank."""
    return any(text.strip() for text in contexts or ())


def without_context(mode: NoContext, vacuous: float | None, details: Mapping[str, Any]) -> Score:
    """The score of a row without context: ``vacuous`` (``None``: no score), 0.0 or none, always with a warning."""
    value = {"vacuous": vacuous, "floor": 0.0, "skip": None}[mode]
    rule: Text = say("context.unscored") if value is None else say("context.scored", value=value, mode=mode)
    return Score(
        value=value,
        reason=say("joined", first=say("context.none"), second=rule),
        details={**details, "no_context": True},
        warnings=(("no_context", say("context.none")),),
    )


def need_reference(metric: str, why: str) -> MissingFieldError:
    """The error of a metric that needs the reference on this row; ``why`` is a clause such as "the answer …"."""
    message = f"{metric} needs the field 'reference' because {why}; give a reference, or on_missing='skip'"
    return MissingFieldError(message, field="reference", metric=metric)
