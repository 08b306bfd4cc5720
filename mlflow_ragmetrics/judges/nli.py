"""Verifies claims with a local entailment model: a cross-encoder or a MiniCheck-style checkpoint (extra ``nli``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from mlflow_ragmetrics.core.question import (
    AnswersQuestions,
    Claims,
    Finding,
    Judge,
    Outcome,
    Question,
    Verify,
    as_judge,
)
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError, MissingExtraError

_ENTAILMENT: Final = re.compile(r"entail|support|consistent|true|yes", re.IGNORECASE)
_CONTRADICTION: Final = re.compile(r"contradict|refute", re.IGNORECASE)
_DENIAL: Final = re.compile(r"^(?:not|un|in|non)[ _-]?", re.IGNORECASE)
_PASSAGE_QUOTED: Final = 300


class NLIJudge(Judge):
    """Answers ``Verify`` questions with the probability that the best passage entails each claim.

    ``model``: a folder or hub id of a sequence-classification checkpoint (loaded through transformers), or a loaded
    sentence-transformers ``CrossEncoder``. ``entailment``: the number of its label (default: detected from the
    checkpoint's label names, as contradiction is); a single label is the probability of support. A claim is SUPPORTED
    if its support reaches ``threshold`` and the contradiction; the finding quotes each supporting passage, the best
    first. It is CONTRADICTED if the contradiction reaches ``threshold`` and exceeds the support. ``splitter``: the
    judge for all other questions, such as splitting claims. ``name``: the judge's name.
    """

    local = True

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        threshold: float = 0.5,
        entailment: int | None = None,
        splitter: AnswersQuestions | None = None,
    ) -> None:
        self.model = _load(str(model)) if isinstance(model, (str, Path)) else model
        self.name = name or (Path(model).name if isinstance(model, (str, Path)) else type(model).__name__)
        self.threshold = threshold
        self.splitter = None if splitter is None else as_judge(splitter)
        self.entailment, self.contradiction = _labels(self.model, entailment)
        shown = (str(model) if isinstance(model, (str, Path)) else self.name, threshold, self.entailment)
        self.fingerprint = f"nli {shown} {'' if self.splitter is None else self.splitter.fingerprint}"

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        """Return findings for each ``Verify``; the ``splitter`` answers the rest, or each is a ``JudgeError``."""
        others = [question for question in questions if not isinstance(question, Verify)]
        message = f"{self.name} only verifies claims; give NLIJudge(…, splitter=…) for other questions"
        answered: Sequence[Outcome] = [JudgeError(message) for _ in others]
        if self.splitter is not None and others:
            answered = self.splitter.answer([replace(q, passages=()) if isinstance(q, Claims) else q for q in others])
        outcomes, verified = iter(answered), iter(self._verify([q for q in questions if isinstance(q, Verify)]))
        return [next(verified if isinstance(question, Verify) else outcomes) for question in questions]

    def _verify(self, questions: Sequence[Verify]) -> list[tuple[Finding, ...]]:
        pairs = [(passage, claim) for q in questions for claim in q.claims for passage in q.passages]
        rows = iter(self._probabilities(pairs))
        return [
            tuple(self._finding([next(rows) for _ in question.passages], question.passages) for _ in question.claims)
            for question in questions
        ]

    def _probabilities(self, pairs: list[tuple[str, str]]) -> NDArray[np.float64]:
        """Return rows of (support, contradiction), 0 to 1, one per (passage, claim) pair."""
        if not pairs:
            return np.zeros((0, 2))
        scores = self.model.predict(pairs, activation_fn=lambda logits: logits, show_progress_bar=False)
        logits = np.asarray(scores, dtype=np.float64)
        logits = logits.reshape(len(pairs), -1)
        if logits.shape[1] == 1:
            return np.hstack([expit(logits), np.zeros((len(pairs), 1))])
        shares = softmax(logits, axis=1)
        against = shares[:, self.contradiction] if self.contradiction is not None else np.zeros(len(pairs))
        return np.column_stack([shares[:, self.entailment], against])

    def _finding(self, rows: list[NDArray[np.float64]], passages: Sequence[str]) -> Finding:
        if not rows:
            return Finding("NEUTRAL", f"{self.name}: there is no passage.", 0.0)
        table = np.vstack(rows)
        best, worst = int(table[:, 0].argmax()), int(table[:, 1].argmax())
        support, against = float(table[best, 0]), float(table[worst, 1])
        verdict, places = "NEUTRAL", [best]
        if support >= self.threshold and support >= against:
            verdict = "SUPPORTED"
            places += [place for place in np.flatnonzero(table[:, 0] >= self.threshold).tolist() if place != best]
        elif against >= self.threshold:
            verdict, places = "CONTRADICTED", [worst]
        shown = f"{self.name}: support {support:.2f} (passage {best + 1}), contradiction {against:.2f}."
        quoted = () if verdict == "NEUTRAL" else places
        quotes = tuple((place + 1, passages[place][:_PASSAGE_QUOTED]) for place in quoted)
        return Finding(verdict, shown, round(support, 4), quotes)


def _load(model: str) -> Any:
    try:
        from sentence_transformers import CrossEncoder
    except ImportError as error:
        message = f"NLIJudge({model!r}) needs sentence-transformers: pip install 'mlflow_ragmetrics[nli]'"
        raise MissingExtraError(message) from error
    return CrossEncoder(model)


def _labels(model: Any, entailment: int | None) -> tuple[int, int | None]:
    """Return the label numbers of support and contradiction, detected from the label names if not given."""
    config = getattr(model, "config", None) or getattr(getattr(model, "model", None), "config", None)
    names = {int(place): str(label) for place, label in getattr(config, "id2label", {}).items()}
    if entailment is None:
        matching = [place for place, label in names.items() if _ENTAILMENT.search(label) and not _DENIAL.match(label)]
        if not matching and len(names) > 2:
            message = f"NLIJudge cannot tell which of the labels {sorted(names.values())} is entailment"
            raise InvalidOptionError(f"{message}; give entailment=", param="entailment")
        entailment = matching[0] if matching else max(names, default=0)
    return entailment, next((place for place, label in names.items() if _CONTRADICTION.search(label)), None)
