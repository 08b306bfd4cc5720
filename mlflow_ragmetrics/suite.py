"""A suite: metrics with judges, embeddings and weights, which you apply to samples."""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, Union

from typing_extensions import Unpack

from mlflow_ragmetrics.cache import SQLiteStore
from mlflow_ragmetrics.core.composite import Composite, Weights
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.options import Aggregate, check_aggregate, check_count, meant, shown
from mlflow_ragmetrics.core.question import Judge
from mlflow_ragmetrics.core.score import Better, Sample
from mlflow_ragmetrics.embeddings import EmbeddingLike, embeddings_of
from mlflow_ragmetrics.engine.engine import Engine
from mlflow_ragmetrics.engine.program import Row, ScoringRules, Voting, charged_to
from mlflow_ragmetrics.engine.threads import CancelledEvaluationError, Slots, awaited
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.evaluation import Scored, drive, report_or_stop
from mlflow_ragmetrics.judges.chat.judge_options import JudgeKeywords
from mlflow_ragmetrics.judges.resolve import JudgeLike, Panel, check_min_judges, judges_of
from mlflow_ragmetrics.mlflow_scorers import metric_of_scorer
from mlflow_ragmetrics.registry import Measure, MetricLike, metric_of
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.figures import grouping_of, panel_warnings
from mlflow_ragmetrics.results.gates import REPEATED
from mlflow_ragmetrics.rows import Data, read_samples
from mlflow_ragmetrics.rows.data import groups_of
from mlflow_ragmetrics.rows.record import reading_line
from mlflow_ragmetrics.selection import (
    LOOKED_AT,
    PRESETS,
    Checked,
    Preset,
    Selection,
    Thresholds,
    check_presence,
    preset_named,
    select,
)
from mlflow_ragmetrics.text.messages import Text, check_language, render

if TYPE_CHECKING:
    from mlflow_ragmetrics.display.text import Plans
    from mlflow_ragmetrics.judges.chat.chat_judge import Plan

SuiteLike = Union["Suite", Path, MetricLike, Iterable[MetricLike], Mapping[str, Any]]
"""The types that ``Suite.of`` accepts."""

_EMBEDDINGS = "char-ngram"
_SCORER = "mlflow.genai.scorers.base.Scorer"
_NOT_OF_JUDGES = {"metrics", "embeddings", "weights", "thresholds", "name_prefix", "cache", "concurrency"}
_NOT_OF_JUDGES |= {"aggregate", "tolerance", "min_judges", "groups"}


class SuiteKeywords(JudgeKeywords, total=False):
    """The options of ``Suite`` as keyword arguments, for type checkers."""

    judge: JudgeLike | Sequence[JudgeLike]
    embeddings: EmbeddingLike | Sequence[EmbeddingLike]
    weights: Weights | None
    thresholds: Thresholds | None
    language: str
    name_prefix: str
    cache: str | Path | None
    concurrency: int
    aggregate: Aggregate
    tolerance: float
    min_judges: int | None
    groups: str | None


class SuiteOverrides(SuiteKeywords, total=False):
    """The arguments of ``Suite`` that override those of a suite or its file."""

    metrics: Iterable[MetricLike] | Preset | Selection


class Suite:
    """Metrics that are scored together; questions shared by several metrics are asked once.

    ``metrics``: as ``registry.metric_of`` takes them, and MLflow's scorers (``make_judge(…)``, built-in and third-party
    ones). ``judge``: ``"lexical"`` (offline), a model URI, a LangChain chat model, a ``Judge``, or a list of these.
    ``embeddings``: ``"char-ngram"``, ``"wordllama"``, a model URI, LangChain ``Embeddings``, or a list. ``weights``:
    for ``rag_score``, or for a composite named ``composite`` if ``rag_score`` is not in the suite. ``thresholds``:
    conservative, balanced, lenient, or a mapping from key to threshold. ``language``: of reasons, ``"en"`` or ``"ru"``.
    ``name_prefix``: a prefix for every key. ``cache``: a path for judges' answers; ``None`` stores nothing.
    ``concurrency``: the maximum number of judge calls at a time, over all threads that use this suite. ``aggregate``
    and ``tolerance``: how to combine several judges' scores, unless a metric or a ``Panel`` sets this. A row that fewer
    than ``min_judges`` of several judges answered is not measured (default: all must answer). ``groups``: a
    column or metadata field shared by rows that belong together, such as the turns of a conversation, for the intervals
    of reports. The other options (``calls="compact"``, ``prompts=folder``, ``max_calls``, …) are those of
    ``ChatJudge``, for judges created here from a URI or a chat model.

    A suite is immutable; ``replace`` returns another one. The constructor raises ``InvalidOptionError`` for an argument
    that cannot be used.
    """

    def __init__(
        self,
        metrics: Iterable[MetricLike] | Preset | Selection,
        *,
        judge: JudgeLike | Sequence[JudgeLike] = "lexical",
        embeddings: EmbeddingLike | Sequence[EmbeddingLike] = _EMBEDDINGS,
        weights: Weights | None = None,
        thresholds: Thresholds | None = None,
        language: str = "en",
        name_prefix: str = "",
        cache: str | Path | None = None,
        concurrency: int = 8,
        aggregate: Aggregate = "mean",
        tolerance: float = 0.1,
        min_judges: int | None = None,
        groups: str | None = None,
        **judge_options: Unpack[JudgeKeywords],
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "judge_options")}
        known = (*SuiteKeywords.__annotations__, "columns")
        for option in judge_options:
            if option not in known and (near := meant(option, known)):
                raise InvalidOptionError(f"there is no option {option!r}{near}", param=option)
        if isinstance(metrics, Iterable) and not isinstance(metrics, (Preset, Selection, Mapping, str, bytes)):
            metrics = [metric_of_scorer(entry) if _is_scorer(entry) else entry for entry in metrics]
        self.language = check_language(language)
        self.selection = (
            metrics if isinstance(metrics, Selection) else select(metrics, weights, thresholds, name_prefix)
        )
        self.name_prefix = name_prefix
        self.cache = cache
        self.groups = _checked_groups(groups)
        self._slots = Slots(concurrency)
        self.several = isinstance(judge, (list, tuple, Panel))
        if isinstance(judge, Panel):
            aggregate, tolerance, min_judges = judge.aggregate, judge.tolerance, judge.min_judges
        aggregate, tolerance = check_aggregate(aggregate, tolerance)
        self.judges: list[Judge] = judges_of(judge, language=language, **judge_options)
        self.voting = Voting(self.several, aggregate, tolerance, check_min_judges(min_judges, len(self.judges)))
        embeds = any("embeddings" in metric.definition.asks for metric in self.selection.metrics)
        is_default = isinstance(embeddings, str) and embeddings == _EMBEDDINGS
        self.embeddings = [] if is_default and not embeds else embeddings_of(embeddings)
        arguments |= {"metrics": metrics, "embeddings": self.embeddings or embeddings}
        panel = {"aggregate": aggregate, "tolerance": tolerance, "min_judges": min_judges}
        self._arguments = arguments | panel | dict(judge_options)
        self.selection.check_models([*(j.name for j in self.judges), *(e.name for e in self.embeddings)])

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__:
            raise AttributeError(f"a suite is immutable; suite.replace({name}=…) returns another one")
        super().__setattr__(name, value)

    @classmethod
    def of(cls, what: SuiteLike, /, **overrides: Unpack[SuiteOverrides]) -> Suite:
        """Return the suite for ``what``; ``overrides`` are arguments of ``Suite`` that override its own.

        ``what``: a suite, a preset's name, the path or the content of a YAML file, or one or several metrics, as names,
        spellings, mappings, functions or ``Metric``. ``InvalidOptionError`` if it is none of these.

        >>> Suite.of("rouge(measure='recall')").keys
        ['rouge1_recall']
        """
        given: dict[str, Any] = {**overrides}
        if isinstance(what, Suite):
            return what.replace(**given) if given else what
        if is_suite_file(what) or (isinstance(what, Mapping) and what.keys() & {"preset", "metrics"}):
            from mlflow_ragmetrics.suite_file import suite_arguments

            arguments = suite_arguments(what, given)
            return cls.preset(arguments.pop("preset"), **arguments) if "preset" in arguments else cls(**arguments)
        if "metrics" in given:
            return cls(**given)
        if isinstance(what, (str, Path)):
            return cls.preset(str(what), **given) if preset_named(what) else cls([_metric_of(str(what))], **given)
        return cls([what] if callable(what) else what, **given)

    @classmethod
    def preset(cls, name: str, /, *, also: Iterable[MetricLike] = (), **options: Unpack[SuiteKeywords]) -> Suite:
        """Return the suite ``white_paper``, ``rag``, ``lexical``, ``response``, ``retrieval``, ``diagnose``, ``full``.

        ``also``: further metrics; one with the key of a preset's metric replaces it. A preset's metrics are skipped
        with a warning, not refused, if no row has their fields.
        """
        return cls(Preset(name, tuple(map(metric_of, also))), **options)

    @classmethod
    def from_yaml(cls, path: str | Path, **overrides: Unpack[SuiteOverrides]) -> Suite:
        """Return the suite of a YAML file (``ragmetrics init`` writes one); ``overrides`` override its settings.

        ``InvalidOptionError`` names an unknown key, an invalid value, or a variable that is not set.
        """
        return cls.of(Path(path) if isinstance(path, str) else path, **overrides)

    def replace(self, **changes: Unpack[SuiteOverrides]) -> Suite:
        """Return this suite with ``changes``, which are arguments of ``Suite``.

        Judges keep their counts unless a change affects them. Both suites share the limit on calls at a time, unless
        you give ``concurrency``.

        >>> Suite(["rouge"]).replace(name_prefix="v2_").keys
        ['v2_rouge1_f1']
        """
        arguments: dict[str, Any] = {**self._arguments, **changes}
        same = {} if changes.keys() - _NOT_OF_JUDGES else {"judge": self.judges if self.several else self.judges[0]}
        suite = type(self)(**{**arguments, **same})
        suite._arguments.update(arguments)
        if "concurrency" not in changes:
            suite.__dict__["_slots"] = self._slots
        return suite

    def __repr__(self) -> str:
        judges = ", ".join(judge.name for judge in self.judges)
        return f"<Suite {self.selection.name or 'custom'}: {', '.join(self.keys)}; judge {judges}>"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics, without composites."""
        return self.selection.metrics

    @property
    def composites(self) -> tuple[Composite, ...]:
        """The weighted composites."""
        return self.selection.composites

    @property
    def keys(self) -> list[str]:
        """The keys of all scores, prefix included, in order."""
        keys = [*(metric.key for metric in self.metrics), *(composite.key for composite in self.composites)]
        return [self.name_prefix + key for key in keys]

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The lowest and the highest value of each key, and of each ``<key>_1to5``."""
        metric_ranges = {metric.key: metric.definition.range for metric in self.metrics}
        ranges = metric_ranges | {composite.key: (0.0, 1.0) for composite in self.composites}
        scaled = [metric.key for metric in self.metrics if metric.definition.scaled]
        scaled += [composite.key for composite in self.composites if composite.scaled]
        ranges |= {f"{key}_1to5": (1.0, 5.0) for key in scaled}
        return {self.name_prefix + key: limits for key, limits in ranges.items()}

    @property
    def better(self) -> dict[str, Better]:
        """The keys for which higher is not better: ``False`` if lower is better, ``None`` if neither is."""
        return {self.name_prefix + key: side for key, side in self.selection.better.items()}

    def evaluate(
        self,
        data: Data,
        *,
        columns: Mapping[str, str | None] | None = None,
        progress: Union[bool, None] = None,
        repeat: int = 1,
        groups: str | None = None,
    ) -> Report:
        """Score every row of ``data`` (a DataFrame, records, a path, traces) and return the report.

        ``columns``: maps sample fields to column names. ``progress``: show a bar (default: on a terminal). ``repeat``:
        ask the judge this many times, without the cache. The report has the scores of the first time, and its metrics
        show how much the others differ (``<key>/repeat_sd``, ``<key>/flip_rate``, …). ``groups``: a column or metadata
        field shared by rows that belong together, such as the turns of a conversation (default: the suite's, else the
        sessions of MLflow's traces); intervals are then over groups.

        Raises ``MissingFieldError`` if no row has a field that a named metric needs, and ``InvalidDataError`` if the
        data cannot be read. If every judge has failed permanently (a refused key, a spent budget), the ``JudgeError``
        has a ``report`` of the rows so far. So does a ``KeyboardInterrupt`` (Ctrl-C) or a ``MemoryError`` after the
        first row. All other failures are in the report's rows.
        """
        samples = list(read_samples(data, columns))
        source = data if isinstance(data, (str, Path)) else None
        groups = mapped_field(_checked_groups(groups) or self.groups, columns)
        return self.evaluate_samples(samples, progress=progress, repeat=repeat, groups=groups, source=source)

    def evaluate_samples(
        self,
        samples: Collection[Sample],
        *,
        progress: Union[bool, None] = None,
        repeat: int = 1,
        groups: str | None = None,
        source: Union[str, Path, None] = None,
        checked: Checked | None = None,
        keep: int | None = None,
        each: Callable[[Row], object] | None = None,
    ) -> Report:
        """Evaluate samples that can be read again, such as a list; ``source`` is their origin.

        ``checked``: the result of ``check_presence``, if you have it. ``keep``: the number of rows to keep in the
        report, the worst ones; its figures cover all rows (default: keep all). ``each``: called with every scored row,
        in the first repeat only.
        """
        check_count("repeat", repeat)
        selection, warnings = checked or check_presence(self.selection, samples)
        if groups is not None:
            groups_of(list(samples), groups)  # reports errors before anything is scored

        def evaluated(each: Callable[[Row], object] | None, *, stored: bool) -> Report:
            scored = Scored(keep, each)
            with charged_to(scored.expenses):
                engine = self._engine(selection, stored=stored)
            report, stop = drive(
                lambda: engine.rows(samples),
                len(samples),
                partial(self.report, warnings=warnings, source=source, groups=groups),
                scored=scored,
                progress=progress,
                ahead=lambda: engine.ahead,
                stopped=lambda: engine.stopped,
            )
            return report_or_stop(report, stop)

        if repeat == 1:
            return evaluated(each, stored=True)
        return _repeated([partial(evaluated, each if not time else None, stored=False) for time in range(repeat)])

    def report(
        self,
        scored: Scored,
        *,
        warnings: tuple[Union[str, Text], ...] = (),
        source: Union[str, Path, None] = None,
        groups: str | None = None,
    ) -> Report:
        """Return the report on rows that this suite has scored.

        ``warnings`` and ``source`` are copied into it. ``groups``: as in ``evaluate``; a warning says if no row has
        this field.
        """
        rows, totals, expenses = scored.rows, scored.totals, scored.expenses
        grouped, more = grouping_of(rows, totals, groups or self.groups) if totals.rows == len(rows) else (None, ())
        description = self.describe() | ({} if grouped is None else {"groups": grouped})
        if line := reading_line([row.sample for row in rows[:LOOKED_AT]]):
            description["read"] = render(line, self.language)
        notes = (*warnings, *scored.warnings, *more, *expenses.warnings, *panel_warnings(rows))
        said, usage = tuple(render(note, self.language) for note in notes), expenses.usage(scored.seconds)
        figures = {REPEATED: 1.0} if more and not (groups or self.groups) else {}
        return Report(rows, description, said, usage, source, figures, ranges=self.ranges, counted=totals)

    aevaluate = awaited(evaluate)

    def stream(self, data: Data, *, columns: Mapping[str, str | None] | None = None) -> Iterator[Row]:
        """Yield each row of ``data`` once it is scored, in order, with bounded memory.

        Repeated ids are detected within 20,000 rows.
        """
        return self.score_samples(read_samples(data, columns, remembered=20_000))

    def score_samples(self, samples: Iterable[Sample], *, strict: bool = False) -> Iterator[Row]:
        """Score samples; ``strict`` raises an error instead of returning a skipped or failed score."""
        return self._engine(self.selection, strict=strict).rows(samples)

    def plan(self, data: Data, *, columns: Mapping[str, str | None] | None = None) -> Plans:
        """Estimate the cost of an evaluation of ``data`` for each language-model judge, by name; nothing is sent.

        Each ``Plan`` is a range, from one claim per sentence to three (``most``). The number of calls is exact without
        repeated requests and cached answers. Free judges are left out. ``InvalidOptionError`` for a decision model.
        """
        from mlflow_ragmetrics.display.text import Plans
        from mlflow_ragmetrics.judges.chat.chat_judge import FEWEST_CLAIMS, MOST_CLAIMS, ChatJudge, PlanJudge
        from mlflow_ragmetrics.judges.decision import DecisionJudge

        for name in [judge.name for judge in self.judges if isinstance(judge, DecisionJudge)]:
            raise InvalidOptionError(f"a plan cannot estimate a decision model; leave {name} out", param="judge")
        samples = list(read_samples(data, columns))
        selection, _ = check_presence(self.selection, samples)
        judges = self.judges

        def plans(claims: int) -> dict[str, Plan]:
            planned = [PlanJudge(judge, claims) if isinstance(judge, ChatJudge) else judge for judge in judges]
            # one call at a time: otherwise the division of long replies would depend on the calls in flight
            deque(self._engine(selection, judges=planned, stored=False, slots=Slots(1)).rows(samples), maxlen=0)
            return {judge.name: judge.plan for judge in planned if isinstance(judge, PlanJudge)}

        most = plans(MOST_CLAIMS) if any(isinstance(judge, ChatJudge) for judge in self.judges) else {}
        least = plans(FEWEST_CLAIMS) if most else {}
        return Plans({name: replace(plan, most=most[name]) for name, plan in least.items()})

    def describe(self) -> dict[str, Any]:
        """Return everything that can explain a difference between two runs: suite, judges, weights, thresholds, …."""
        votes, enough = self.voting, self.voting.min_judges or len(self.judges)
        panel = {"aggregate": votes.aggregate, "tolerance": votes.tolerance, "min_judges": enough}
        return {
            **self.selection.describe(),
            "judge": [judge.name for judge in self.judges],
            "judge_versions": {j.name: re.sub(r"calls=\w+;", "", j.fingerprint or "") for j in self.judges},
            "calls": {j.name: j.form for j in self.judges if j.form},
            "embeddings": [embedding.name for embedding in self.embeddings],
            **({"panel": panel} if self.several else {}),
            "language": self.language,
        }

    def _engine(
        self,
        selection: Selection,
        *,
        judges: list[Judge] | None = None,
        strict: bool = False,
        stored: bool = True,
        slots: Slots | None = None,
    ) -> Engine:
        about = self.voting, self.language, self.name_prefix, strict
        return Engine(
            ScoringRules(selection.metrics, selection.composites, *about),
            judges or self.judges,
            self.embeddings,
            slots=slots or self._slots,
            store=SQLiteStore(self.cache) if stored and self.cache is not None else None,
        )


def _repeated(evaluations: Sequence[Callable[[], Report]]) -> Report:
    """Return the first of several reports, with figures on how much they differ."""
    from mlflow_ragmetrics.results.evaluation import repeatability

    reports: list[Report] = []
    try:
        for evaluate in evaluations:
            reports.append(evaluate())
    except (KeyboardInterrupt, CancelledEvaluationError) as error:
        if reports:
            done = f"interrupted in repeat {len(reports) + 1} of {len(evaluations)}"
            error.report = replace(reports[0], stopped=done)  # type: ignore[union-attr]
        raise
    usage = sum((Counter(report.usage) for report in reports), Counter())
    stopped = next((report.incomplete for report in reports if report.incomplete is not None), None)
    return replace(reports[0], figures={**reports[0].figures, **repeatability(reports)}, usage=usage, stopped=stopped)


def _checked_groups(groups: object) -> str | None:
    if groups is not None and not (isinstance(groups, str) and groups):
        raise InvalidOptionError(f"groups={shown(groups)} must name a column or a metadata field", param="groups")
    return groups


def _is_scorer(given: object) -> TypeGuard[Any]:
    """Whether it is an MLflow scorer, without importing MLflow."""
    return any(f"{base.__module__}.{base.__name__}" == _SCORER for base in type(given).__mro__)


def mapped_field(name: str | None, columns: Mapping[str, str | None] | None) -> str | None:
    """Return the sample field that ``columns`` fills from the column ``name``; else ``name`` itself."""
    return name and next((field for field, column in (columns or {}).items() if column == name), name)


def is_suite_file(what: object) -> bool:
    """Whether ``what`` is the path of a YAML file: a ``Path``, a name with that ending, or an existing file."""
    if isinstance(what, str) and preset_named(what) is None:
        return what.lower().endswith((".yaml", ".yml")) or os.path.isfile(what)
    return isinstance(what, Path)


def _metric_of(spelling: str) -> Measure:
    try:
        return metric_of(spelling)
    except InvalidOptionError as error:
        presets = meant(spelling, PRESETS).removeprefix("; ") or ", ".join(PRESETS)
        message = f"{shown(spelling)} is not a preset ({presets}) or a suite's YAML file; as a metric: {error}"
        raise InvalidOptionError(message, param="suite") from None
