"""From an exchange to its scores: what a scoring thread does, and what is counted on the way."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, TypeVar

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange
from mlflow_ragmetrics.adapters.langchain.sample import WHY, Reading
from mlflow_ragmetrics.core.judge import Embedding, Judge
from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.core.secrets import for_log, redact
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.judges.chat.capabilities import untraced
from mlflow_ragmetrics.suite import Suite

__all__ = ["Counts", "Scored", "Scorer", "cause_of", "untraced_suite"]


def untraced_suite(suite: Suite) -> Suite:
    """The suite with judges and embeddings whose calls are not traced; everything else is shared."""
    judges = [_UntracedJudge(judge) for judge in suite.judges]
    embeddings = [_UntracedEmbedding(embedding) for embedding in suite.embeddings]
    changed = suite.replace(judge=judges if suite.several else judges[0])
    return changed.replace(embeddings=embeddings) if embeddings else changed


class _UntracedJudge(Judge):
    """A judge whose calls are not traced, otherwise the same."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name, self.local, self.fingerprint, self.usage = judge.name, judge.local, judge.fingerprint, judge.usage
        self.calls = judge.calls  # type: ignore[method-assign]

    def answer(self, questions: Sequence[Any]) -> Sequence[Any]:
        with untraced():
            return self._judge.answer(questions)


class _UntracedEmbedding(Embedding):
    """An embedding model whose calls are not traced, otherwise the same."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self.name, self.local = embedding.name, embedding.local

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        with untraced():
            return self._embedding.embed(texts)


class Counts:
    """What became of the calls, by name, in the order in which the names were added; safe to use from many threads."""

    def __init__(self, names: Iterable[str]) -> None:
        self._lock = Lock()
        self._counts = Counter(dict.fromkeys(names, 0))

    def add_names(self, names: Iterable[str]) -> None:
        """Count further things, from 0."""
        with self._lock:
            self._counts.update(dict.fromkeys(names, 0))

    def add(self, name: str, change: int = 1) -> None:
        """Change the count of ``name``."""
        with self._lock:
            self._counts[name] += change

    def reset(self) -> None:
        """All counts from 0, as in a forked process: those so far are the parent's."""
        self._lock = Lock()
        self._counts = Counter(dict.fromkeys(self._counts, 0))

    def snapshot(self) -> dict[str, int]:
        """All counts as they are now."""
        with self._lock:
            return dict(self._counts)


@dataclass(frozen=True)
class Scored:
    """A scored answer with the call that it came from."""

    row: Row
    exchange: Exchange


T = TypeVar("T")
_logger = logging.getLogger(__name__)


class Scorer:
    """Reads and scores exchanges and hands them to each of ``takers``.

    Whatever fails is counted and named once in the log; it is never raised.
    """

    def __init__(
        self, reading: Reading, suite: Suite, takers: Sequence[Callable[[Scored], None]], counts: Counts
    ) -> None:
        self._reading = reading
        self._suite = suite
        self._takers = takers
        self._counts = counts
        self._warned_of: set[str] = set()

    def work(self, exchanges: Sequence[Exchange]) -> None:
        """Score a batch of exchanges."""
        pairs = [(exchange, self._read(exchange)) for exchange in exchanges]
        readable = [(exchange, sample) for exchange, sample in pairs if sample is not None]
        rows = self._score([sample for _, sample in readable])
        for (exchange, _), row in zip(readable, rows, strict=True):
            if row is not None:
                self._hand_over(Scored(_with_way_out(row), exchange))

    def _read(self, exchange: Exchange) -> Sample | None:
        sample = self._attempt("an answer could not be read", self._reading.sample, exchange)
        if sample is None:
            self._counts.add("failed")
            return None
        if sample.answer is None and "answer" not in sample.invalid:
            self._counts.add("skipped")
            if exchange.left:
                self._warn_once("a call that was interrupted, or whose stream was left, has no answer to score")
                return None
            kind = kind_of(exchange.outputs)
            self._warn_once(f"no answer was found in the chain's outputs ({kind}); name it with output_key= or answer=")
            return None
        if sample.question is None:
            kind = kind_of(exchange.inputs)
            message = f"no question was found in the chain's inputs ({kind}); name it with input_key= or question="
            self._warn_once(message)
        return sample

    def _score(self, samples: Sequence[Sample]) -> Sequence[Row | None]:
        """The rows; where they cannot be scored together, each by itself."""
        rows = self._attempt("an answer could not be scored", lambda: list(self._suite.score_samples(samples)))
        if rows is not None:
            return rows
        if len(samples) > 1:
            return [row for sample in samples for row in self._score([sample])]
        self._counts.add("failed")
        return [None]

    def _hand_over(self, scored: Scored) -> None:
        for key, score in scored.row.scores.items():
            if score.status == "skipped":
                self._warn_once(f"{key} is skipped: {score.reason}", key)
            elif score.status == "error":
                self._warn_once(redact(f"{key} could not be scored: {score.error}"), cause_of(score))
            for code, text in score.warnings:
                if code == "contexts_assumed":
                    self._warn_once(text)
        taken = [self._attempt("a sink failed", _taken, take, scored) for take in self._takers]
        self._counts.add(_outcome(scored.row) if all(taken) else "failed")

    def _attempt(self, failure: str, action: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return action(*arguments)
        except Exception as error:  # functions of the application run here: whatever they raise, the others go on
            self._warn_once(redact(f"{failure}: {type(error).__name__}: {error}"), failure + type(error).__name__)
            return None

    def _warn_once(self, message: str, subject: str | None = None) -> None:
        if (subject or message) not in self._warned_of:
            self._warned_of.add(subject or message)
            _logger.warning("%s", for_log(message))


def cause_of(score: Score) -> str:
    """What is the same in the failures of many rows that have one cause: the kind of failure, without its figures."""
    text = next((code for code, _ in score.warnings if code.startswith("judge_")), score.error or "")
    return re.sub(r"\d+", "", text)[:100]


def _outcome(row: Row) -> str:
    """What became of an answer: ``failed`` where a score is in error, ``skipped`` where there is none at all."""
    states = {score.status for score in row.scores.values()}
    if "error" in states:
        return "failed"
    return "scored" if "ok" in states else "skipped"


def _with_way_out(row: Row) -> Row:
    """The row, where a score is skipped for want of contexts with the reason why there are none, and the way out."""
    why = row.sample.metadata.get(WHY)
    if why is None:
        return row
    way_out = f"; {why}: name them with contexts="
    scores = {
        key: replace(score, reason=score.reason + way_out)
        if score.status == "skipped" and "'contexts'" in score.reason
        else score
        for key, score in row.scores.items()
    }
    return replace(row, scores=scores)


def _taken(take: Callable[[Scored], None], scored: Scored) -> bool:
    take(scored)
    return True
