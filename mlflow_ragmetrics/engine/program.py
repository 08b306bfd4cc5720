"""One sample's programs, one per metric and judge, with the resulting scores and costs."""

from __future__ import annotations

import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from mlflow_ragmetrics.core.composite import Composite, aggregate, agreement
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.options import Aggregate
from mlflow_ragmetrics.core.question import Declined, Outcome, Question, Steps, together
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.core.score import BY_RULE, Sample, Score
from mlflow_ragmetrics.display.document import cell
from mlflow_ragmetrics.display.marked import row_blocks
from mlflow_ragmetrics.errors import AllJudgesFailedError, JudgeError, MissingFieldError, RagMetricsError, origin_of
from mlflow_ragmetrics.text.messages import joined, say


class Expenses:
    """One caller's judge usage: counts by name, added up across threads, and warnings."""

    def __init__(self) -> None:
        self.warnings: dict[str, None] = {}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def update(self, counts: Mapping[str, float]) -> None:
        """Add to the counts."""
        with self._lock:
            self._counts.update(counts)

    def usage(self, seconds: float) -> dict[str, float]:
        """The usage for a report: nonzero counts, answers from the cache, and elapsed time."""
        with self._lock:
            counts = {name: count for name, count in self._counts.items() if count}
        return {"cached": 0.0, **counts, "wall_seconds": seconds}


_CALLER: ContextVar[Expenses | None] = ContextVar("ragmetrics_expenses", default=None)


@contextmanager
def charged_to(expenses: Expenses) -> Iterator[Expenses]:
    """Within this context, charge judge usage to ``expenses``; other contexts are not affected."""
    charged = _CALLER.set(expenses)
    try:
        yield expenses
    finally:
        _CALLER.reset(charged)


def expenses_of_caller() -> Expenses:
    """The expenses of this context's caller, or new ones if there is none."""
    return _CALLER.get() or Expenses()


def charge(counts: Mapping[str, float]) -> None:
    """Add to the expenses of this context's caller, if there is one."""
    caller = _CALLER.get()
    if caller is not None:
        caller.update(counts)


def warn_caller(message: str) -> None:
    """Issue a Python warning, and add it to the report of this context's caller."""
    caller = _CALLER.get()
    if caller is not None:
        caller.warnings[message] = None
    warnings.warn(message, RuntimeWarning, stacklevel=3)


class ChargesCaller:
    """A judge's meter that also charges each request to its caller, so that usage is known per caller."""


def start(metric: Metric, sample: Sample) -> Steps[Score]:
    """The program of ``metric`` on ``sample``; with several references, one program each, keeping the best score."""
    return _best(metric, sample, sample.references or ()) if metric.is_best_of(sample) else metric.start(sample)


def _best(metric: Metric, sample: Sample, references: tuple[str, ...]) -> Steps[Score]:
    programs = [_outcome(metric.start(replace(sample, references=(reference,)))) for reference in references]
    outcomes = yield from together(*programs)
    failures = [outcome for outcome in outcomes if isinstance(outcome, RagMetricsError)]
    scores = {place: outcome for place, outcome in enumerate(outcomes) if isinstance(outcome, Score)}
    values = {place: score.value for place, score in scores.items() if score.value is not None}
    if not values:
        if failures:
            raise failures[0]
        return next(iter(scores.values()))
    place = (min if metric.definition.higher_is_better is False else max)(values, key=values.__getitem__)
    best = scores[place]
    if failures:
        failed = ("reference_failed", say("reference.failed", n=len(failures)))
        best = best.changed(warnings=(*best.warnings, failed))
    if len(set(values.values())) == 1:
        return best
    reason = say("joined", first=best.reason, second=say("reference.matched", reference=references[place]))
    return best.with_details(matched_reference=references[place]).changed(reason=reason)


def _outcome(program: Steps[Score]) -> Steps[Score | RagMetricsError]:
    try:
        return (yield from program)
    except RagMetricsError as error:
        return error


@dataclass(slots=True)
class Row:
    """A sample with its scores by metric key, in the suite's order; ``index`` is its position in the data, from 0."""

    sample: Sample
    scores: dict[str, Score]
    index: int = 0

    def __repr__(self) -> str:
        values = {
            key: score.status if score.value is None else f"{score.value:.3f}" for key, score in self.scores.items()
        }
        return f"<Row {self.sample.id!r}: {', '.join(f'{key} {value}' for key, value in values.items())}>"

    def _repr_html_(self) -> str:
        return cell(row_blocks(self.sample, self.scores))


_VOTING = ("aggregate", "tolerance", "min_judges")
_UNUSABLE = ("JudgeError", "JudgeReplyError", "AllJudgesFailedError", "BudgetExceededError")
"""The errors of a score that has no usable answer of a judge, by name."""


def is_judged(row: Row) -> bool:
    """Whether a judge gave a usable answer."""
    return any(score.scored and score.judge is not None for score in row.scores.values())


def judge_failure(row: Row) -> str | None:
    """Return the first error of a score that has no usable answer of a judge."""
    errors = (score.error for score in row.scores.values() if score.error)
    return next((error for error in errors if error.partition(":")[0] in _UNUSABLE), None)


@dataclass(eq=False, slots=True)
class Run:
    """Runs one program: collects answers until all its questions have one.

    ``has_asked``: whether the program has asked any question so far that costs something.
    """

    program: Steps[Score]
    judge: str | None
    score: Score | None = None
    duration_ms: float = 0.0
    failure: Exception | None = None
    asked: tuple[Question[Any], ...] = ()
    has_asked: bool = False
    _began: float = field(default_factory=time.perf_counter)
    _outcomes: list[Outcome] | None = None
    _open: int = 0

    def advance(self) -> None:
        """Continue to the next questions, or to the end, which sets ``score`` or ``failure``."""
        try:
            outcomes = self._outcomes
            self.asked = next(self.program) if outcomes is None else self.program.send(tuple(outcomes))
            self._open = len(self.asked)
            self.has_asked = self.has_asked or not all(isinstance(question, Declined) for question in self.asked)
            self._outcomes = [None] * self._open
            return
        except StopIteration as end:
            self.score, self.asked = end.value, ()
        except Exception as error:  # a bug in a metric fails only its own score
            self.failure, self.asked = error, ()
        self.duration_ms = 1000.0 * (time.perf_counter() - self._began)

    def fill(self, place: int, outcome: Outcome) -> bool:
        """Set the outcome of the question at ``place``; returns True once all questions have outcomes."""
        assert self._outcomes is not None
        self._outcomes[place] = outcome
        self._open -= 1
        return not self._open

    @property
    def done(self) -> bool:
        """Whether the program has ended."""
        return self.score is not None or self.failure is not None


@dataclass(eq=False, slots=True)
class Job:
    """One sample: its runs by metric, and by session its questions that are pending or in flight to remote judges."""

    index: int
    sample: Sample
    runs: list[list[Run]]
    pending: dict[Any, dict[Question[Any], None]] = field(default_factory=dict)
    in_flight: dict[Any, dict[Question[Any], None]] = field(default_factory=dict)
    open_runs: int = 0


@dataclass(frozen=True)
class Voting:
    """How the scores of several judges become one, unless a metric sets its own ``aggregate`` and so on.

    ``several``: the user gave a list of judges, so if all fail, the error is an ``AllJudgesFailedError``.
    ``min_judges``: if fewer judges answer (default: all), the score is not measured.
    """

    several: bool = False
    aggregate: Aggregate = "mean"
    tolerance: float = 0.1
    min_judges: int | None = None


@dataclass(frozen=True)
class ScoringRules:
    """How runs become scores. ``strict``: raise errors and missing fields instead of recording them."""

    metrics: Sequence[Metric]
    composites: Sequence[Composite] = ()
    voting: Voting = Voting()
    language: str = "en"
    prefix: str = ""
    strict: bool = False

    def scores(self, job: Job) -> dict[str, Score]:
        """The scores of one sample by key, composites last."""
        scores = {m.key: self.score(m, runs, job.sample) for m, runs in zip(self.metrics, job.runs, strict=True)}
        for composite in self.composites:
            scores[composite.key] = composite.score(scores, self._spans, self.language)
        return {self.prefix + key: score for key, score in scores.items()} if self.prefix else scores

    @cached_property
    def _spans(self) -> dict[str, tuple[float, float]]:
        return {metric.key: metric.definition.range for metric in self.metrics}

    def score(self, metric: Metric, runs: list[Run], sample: Sample) -> Score:
        """The score of one metric, from its runs on ``sample``."""
        try:
            score = self._merged(metric, runs)
        except Exception as error:  # raised in strict mode, else recorded in this score only
            if self._raises(metric, error):
                raise
            score = _unscored(error)
            error.__traceback__ = None  # breaks a reference cycle with the run, so that memory is freed immediately
        return metric.finish(score, sample, self.language, max([run.duration_ms for run in runs]))

    def _merged(self, metric: Metric, runs: list[Run]) -> Score:
        for run in runs:
            if run.failure is not None and not isinstance(run.failure, JudgeError):
                raise run.failure
        if runs[0].judge is None or not any(run.has_asked for run in runs):
            if runs[0].failure is not None:
                raise runs[0].failure
            assert runs[0].score is not None
            return runs[0].score
        outcomes = {str(run.judge): run.score or run.failure for run in runs}
        named = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, (Score, JudgeError))}
        own = {name: getattr(metric.options, name) for name in _VOTING if metric.given.get(name) is not None}
        return merge_judges(named, replace(self.voting, **own) if own else self.voting)

    def _raises(self, metric: Metric, error: Exception) -> bool:
        on_missing = metric.options.on_missing
        if isinstance(error, MissingFieldError) and on_missing is not None:
            return on_missing == "raise"
        return self.strict and on_missing != "skip"


def score_without_judge(metric: Metric, sample: Sample, *, language: str, strict: bool) -> Score | None:
    """The score of a program that asks no questions; ``None`` if it asks one. ``strict`` as in ``ScoringRules``."""
    run = Run(start(metric, sample), None)
    run.advance()
    rules = ScoringRules([metric], language=language, strict=strict)
    return rules.score(metric, [run], sample) if run.done else None


def _unscored(error: Exception) -> Score:
    if isinstance(error, MissingFieldError):
        cause = {} if error.field is None else {"unmeasured": say("unmeasured.missing", field=error.field)}
        return Score(status="skipped", reason=str(error), details=cause)
    message = str(error) if isinstance(error, RagMetricsError) else redact(str(error))
    code = error.code if isinstance(error, JudgeError) else None
    warnings = ((f"judge_{code}", message),) if code else ()
    details = error.details if isinstance(error, JudgeError) else {}
    details = details if isinstance(error, RagMetricsError) else origin_of(error)
    error_text = f"{type(error).__name__}: {message}"
    return Score(status="error", error=error_text, reason=message, details=details, warnings=warnings)


def merge_judges(outcomes: Mapping[str, Score | JudgeError], voting: Voting) -> Score:
    """Merge one score (or failure) per judge into one.

    Details come from the first judge that scored; of several judges, the reasons and items of all are kept.
    Failed judges are left out and listed in ``excluded_models``; if fewer than ``min_judges`` answered, the score is
    not measured. If none scored, a single judge's reply error is raised; of several, ``AllJudgesFailedError``.
    """
    scores = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Score)}
    failures = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, JudgeError)}
    if not scores:
        first_failure = next(iter(failures.values()))
        if not voting.several and type(first_failure) is not JudgeError:
            raise first_failure
        failure = AllJudgesFailedError(f"no judge answered ({'; '.join(_named(failures))})")
        failure.details = first_failure.details
        raise failure
    voted = {name: score.value for name, score in scores.items() if score.value is not None}
    measured = {name: value for name, value in voted.items() if scores[name].details.get("rule") not in BY_RULE}
    voted = measured or voted  # a judge that found no claims counts only if no other judge found any
    if not voted:
        return next(iter(scores.values()))
    first = scores[next(iter(voted))]
    merged = first.changed(model_scores=voted, judge=", ".join(voted))
    if voting.several:
        votes = "; ".join(f"{name}: {value:.3f}" for name, value in voted.items())
        judges = say("judges.merged", n=len(voted), how=say(f"aggregate.{voting.aggregate}"), each=votes)
        value = aggregate(list(voted.values()), voting.aggregate, voting.tolerance)
        reasons = [say("judges.reason", name=name, reason=scores[name].reason) for name in voted if scores[name].reason]
        items = tuple(item.changed(judge=name) for name in voted for item in scores[name].items)
        merged = merged.changed(value=value, reason=joined(judges, *reasons), items=items).with_details(
            agreement=agreement(list(voted.values())),
            n_judges=len(voted),
            judges_asked=len(outcomes),
            within_tolerance=max(voted.values()) - min(voted.values()) <= voting.tolerance + 1e-9,
        )
    if not failures:
        return merged
    if voting.several and len(scores) < min(voting.min_judges or len(outcomes), len(outcomes)):
        short = say("unmeasured.judges", n=len(scores), total=len(outcomes))
        merged = merged.with_details(unmeasured=short, judges_missing=len(failures))
    excluded = tuple((f"judge_failed:{name}", text) for name, text in zip(failures, _named(failures), strict=True))
    return merged.changed(
        excluded_models=(*merged.excluded_models, *failures),
        warnings=(*merged.warnings, *excluded),
    )


def _named(failures: Mapping[str, JudgeError]) -> list[str]:
    messages = {name: str(failure) for name, failure in failures.items()}
    return [text if text.startswith(f"{name}:") else f"{name}: {text}" for name, text in messages.items()]
