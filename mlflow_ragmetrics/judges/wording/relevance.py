"""Whether an answer speaks of what the question asks, by its words."""

from __future__ import annotations

from mlflow_ragmetrics.judges.wording.analysis import sentences_of
from mlflow_ragmetrics.judges.wording.correctness import Overlap
from mlflow_ragmetrics.judges.wording.terms import Term

__all__ = ["answers_question"]


def answers_question(answer: str, question: str) -> Overlap:
    """The share of the question's content words in the answer, 0 to 1."""
    asked = _content(question)
    said = {term.key for term in _content(answer)}
    found = tuple(term for term in asked if term.key in said)
    missing = tuple(term for term in asked if term.key not in said)
    return Overlap(len(found) / len(asked) if asked else 0.0, found, missing)


def _content(text: str) -> list[Term]:
    terms = [term for sentence in sentences_of(text) for term in sentence.terms if term.content]
    return list({term.key: term for term in terms}.values())
