"""Scorers for ``mlflow.genai.evaluate`` that return one feedback per metric of a suite."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import mlflow
from mlflow.entities import Feedback, Trace
from mlflow.genai.scorers import Scorer
from mlflow.tracing.constant import TraceMetadataKey
from pydantic import BaseModel, PrivateAttr

from mlflow_ragmetrics import __version__
from mlflow_ragmetrics.core.safe_text import as_json, for_log, redact
from mlflow_ragmetrics.core.score import Better, Sample, Score, passes
from mlflow_ragmetrics.engine.program import Expenses, Row, charged_to
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.evaluation import Scored
from mlflow_ragmetrics.judges.resolve import JudgeLike
from mlflow_ragmetrics.registry import MetricLike, metric_of
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.figures import Totals
from mlflow_ragmetrics.results.marks import diagnoses_of, has_diagnoses
from mlflow_ragmetrics.results.tables import DIAGNOSIS
from mlflow_ragmetrics.rows import read_samples
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.rows.trace_records import failure_of, retrieved_documents, session_of
from mlflow_ragmetrics.rows.values import mapping_of
from mlflow_ragmetrics.suite import Suite, SuiteKeywords, SuiteLike
from mlflow_ragmetrics.tracking.log import run_metrics_of
from mlflow_ragmetrics.tracking.outbox import Sums
from mlflow_ragmetrics.tracking.run import COMPLETE, PARTIAL, pool_shortage, status_of
from mlflow_ragmetrics.tracking.traces import diagnosis_feedback, feedback_of
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, SUITE, RunWriter, mlflow_name, reason_of, write_errors

_logger = logging.getLogger(__name__)


def scorer(suite: SuiteLike, columns: Mapping[str, str | None] | None = None) -> RagScorer:
    """One scorer for ``mlflow.genai.evaluate(scorers=[…])`` that returns one feedback per metric of the suite.

    Fields are read from ``inputs``, ``outputs`` and ``expectations``, contexts also from the trace's retriever spans.
    ``columns`` maps sample fields to other names in those. MLflow logs the means; the scorer adds the counts of failed,
    skipped and unmeasured rows (``<key>/n_error``, …). Its method ``log(result)`` adds intervals, counts, params and
    tables to the run, and applies the thresholds to ``result.passed``.

    The scorer's name is the suite's only metric or only composite, so that you can use it in ``quality_criteria`` of
    MLflow 3.18 (``"rag_score >= 0.7"``). For criteria on all metrics, use ``scorers``.
    """
    suite = Suite.of(suite)
    keys = _composites_first(suite)
    name = keys[0] if len(keys) == 1 or len(suite.composites) == 1 else "ragmetrics"
    return _scorer(mlflow_name(name), keys, suite, _SharedRows(suite, columns or {}))


def scorers(suite: SuiteLike, columns: Mapping[str, str | None] | None = None) -> list[RagScorer]:
    """One scorer per metric, named by its key, for ``quality_criteria``. Each row is scored once for all scorers.

    Thresholds decide ``result.passed``. A metric without a threshold fails no row; a suite without thresholds passes no
    row.
    """
    suite = Suite.of(suite)
    shared = _SharedRows(suite, columns or {})
    return [_scorer(mlflow_name(key), [key], suite, shared) for key in _composites_first(suite)]


def _composites_first(suite: Suite) -> list[str]:
    """The keys in MLflow's column order, which is the order of writing."""
    composites = [suite.name_prefix + composite.key for composite in suite.composites]
    return sorted(suite.keys, key=lambda key: key not in composites)


def get_scorer(
    metric: MetricLike,
    model: JudgeLike | Sequence[JudgeLike] = "lexical",
    columns: Mapping[str, str | None] | None = None,
    **options: Any,
) -> RagScorer:
    """The scorer of one metric, created like MLflow's third-party scorers: ``get_scorer("faithfulness", model=…)``.

    ``model`` accepts the same values as ``judge`` of ``Suite``, which is its other name. ``options`` are options of the
    metric (``threshold=0.8``) or of ``Suite``; others raise ``InvalidOptionError``. A call of the scorer returns one
    ``Feedback``.

    >>> get_scorer("coherence")(outputs="The tower is red. It stands at the sea.").value
    1.0
    """
    chosen = metric_of(metric)
    of_suite = {name: options.pop(name) for name in SuiteKeywords.__annotations__.keys() & options.keys()}
    if "judge" in of_suite and model != "lexical":
        raise InvalidOptionError("model and judge are two names of one option; give one of them", param="judge")
    return scorer(Suite([chosen(**options) if options else chosen], **{"judge": model, **of_suite}), columns)


def _scorer(name: str, keys: Sequence[str], suite: Suite, shared: _SharedRows) -> RagScorer:
    if (shortage := pool_shortage(mlflow.get_tracking_uri())) is not None:
        warnings.warn(shortage, stacklevel=3)
    rag_scorer = RagScorer(name=name, description=as_json(suite.describe()))
    rag_scorer._keys, rag_scorer._shared = tuple(keys), shared
    criterion = shared.criteria.get(mlflow_name(keys[0])) if len(keys) == 1 else None
    if criterion is not None:
        rag_scorer._pass_if = criterion
    if "timeout" in RagScorer.model_fields:  # since MLflow 3.18; judges have their own, and a row may need many calls
        rag_scorer.timeout = 0
    return rag_scorer


class RagScorer(Scorer):
    """Scores one row with a suite; created by ``scorer``, ``scorers`` and ``get_scorer``."""

    _keys: tuple[str, ...] = PrivateAttr(default=())
    _shared: Any = PrivateAttr(default=None)

    def __call__(  # type: ignore[override]  # MLflow passes only the parameters that are named here
        self, *, inputs: Any = None, outputs: Any = None, expectations: Any = None, trace: Trace | None = None
    ) -> Feedback | list[Feedback]:
        """One feedback per metric: a number, ``None`` with "not measured: …", or an error.

        An unmeasured score is an error if the metric has a threshold or nothing in the row was measured, because
        ``result.passed`` ignores ``None``. If the metrics allow a diagnosis, the feedback ``diagnosis`` is added. A
        single feedback is returned without a list, as prompt optimisers require.
        """
        row = {"inputs": inputs, "outputs": outputs, "expectations": expectations}
        scores = self._shared.row(self.name, row, trace).scores
        nothing = not any(score.measured for score in scores.values())
        feedback = [
            feedback_of(key, scores[key], required=nothing or scores[key].threshold is not None) for key in self._keys
        ]
        if has_diagnoses(self._keys):
            feedback += [diagnosis_feedback(each) for each in diagnoses_of([scores], self._shared.suite.language)]
        return feedback[0] if len(feedback) == 1 else feedback

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """The fields as JSON values. MLflow calls this for each feedback; otherwise it would parse this file."""
        return BaseModel.model_dump(self, **{"mode": "json", **options})

    def report(self, result: Any) -> Report:
        """The report on the rows of a ``result`` of ``mlflow.genai.evaluate``, in the same order."""
        return self._shared.report(result)  # type: ignore[no-any-return]

    def log(self, result: Any) -> str:
        """Add params, the page, the tables of rows and claims, and exact means to the run; returns the run's id.

        ``result.passed`` then follows the thresholds. Without this call, MLflow has one criterion per scorer instead of
        one per metric, and treats the data's expectations as failed criteria.
        """
        for_data = dict.fromkeys(self._shared.expected, _criterion(None, None))  # expectations always pass
        result.pass_criteria.update({**for_data, **self._shared.criteria})
        report = self.report(result)
        known = {name for name, value in run_metrics_of(report).items() if result.metrics.get(name) == value}
        return report.log(run_id=result.run_id, traces=False, dataset=False, omit=known)


class _SharedRows:
    """The scored rows by trace id: the scorers of a row run in parallel and share one evaluation."""

    def __init__(self, suite: Suite, columns: Mapping[str, str | None]) -> None:
        self.suite = suite
        self.columns = dict(columns)
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._expenses = Expenses()
        self.expected: set[str] = set()
        limits = {suite.name_prefix + metric.key: metric.threshold for metric in suite.metrics}
        limits |= {suite.name_prefix + composite.key: composite.threshold for composite in suite.composites}
        names = (DIAGNOSIS, *(limits if {*limits.values()} != {None} else ()))  # without a limit, nothing passes
        self.criteria = {mlflow_name(n): _criterion(limits.get(n), suite.better.get(n, True)) for n in names}

    def __deepcopy__(self, memo: Any) -> _SharedRows:
        return self

    def row(self, name: str, row: Mapping[str, Any], trace: Trace | None) -> Row:
        """The scored row, for the scorer ``name``."""
        if trace is None:
            return self._scored(row, None)
        with self._lock:
            entry = self._entries.get(trace.info.trace_id)
            if entry is None or name in entry.served:  # served before: a new evaluation
                entry = self._entries[trace.info.trace_id] = _Entry()
            entry.served.add(name)
        with entry.lock:
            if entry.row is None:
                entry.row = self._scored(row, trace)
                self._mark(entry.row, trace)
        return entry.row

    def report(self, result: Any) -> Report:
        entries = [self._entries[name] for name in result.result_df["trace_id"] if name in self._entries]
        rows = [entry.row for entry in entries if entry.row is not None]
        if not rows:
            raise InvalidDataError(f"run {result.run_id} has no rows scored by this scorer")
        samples = read_samples([row.sample for row in rows])
        scored = Scored(expenses=self._expenses)
        for index, (row, sample) in enumerate(zip(rows, samples, strict=True)):
            scored.add(replace(row, sample=sample, index=index))
        return self.suite.report(scored)

    def _scored(self, row: Mapping[str, Any], trace: Trace | None) -> Row:
        self.expected.update(row.get("expectations") or ())
        sample = _sample_of(row, trace, self.columns)
        failure = failure_of(trace) if trace is not None else None
        if row["outputs"] is None and (failure or trace is None):
            failure = failure or "it left no trace"
            failed = Score(status="error", error=failure, reason=f"the predict function failed: {failure}")
            return Row(sample, dict.fromkeys(self.suite.keys, failed))
        with charged_to(self._expenses):
            (scored,) = self.suite.score_samples([sample])
        return scored

    def _mark(self, row: Row, trace: Trace) -> None:
        """Record the suite, the status and the counts of unmeasured rows in MLflow's run."""
        run_id = (trace.info.trace_metadata or {}).get(TraceMetadataKey.SOURCE_RUN)
        if run_id:
            try:
                _evaluated_run(run_id).add(self.suite, row)
            except write_errors() as error:
                _logger.warning("cannot write to run %s: %s", run_id, for_log(reason_of(error)))


class _EvaluatedRun:
    """A run owned by MLflow, with the suites of its scorers and the counts of their rows."""

    def __init__(self, run_id: str) -> None:
        self._writer = RunWriter(run_id)
        self._lock = threading.Lock()
        self._suites: dict[Suite, tuple[Totals, Sums]] = {}
        self._status = ""

    def add(self, suite: Suite, row: Row) -> None:
        """Count a row scored with ``suite``, and write the changes."""
        with self._lock:
            if suite not in self._suites:
                self._suites[suite] = Totals(), Sums()
                self._describe()
            totals, sums = self._suites[suite]
            before = sums.marks
            totals.add(row)
            sums.add(row)
            figures = {mlflow_name(name): value for name, value in sums.marks.items() - before.items()}
            statuses = [status_of(each.failures.silence, each.partial) for each, _ in self._suites.values()]
            status = min(statuses, key=lambda each: (each.startswith(COMPLETE), each.startswith(PARTIAL)))
            if status != self._status:
                self._writer.tags({STATUS_TAG: status})
                self._status = status
        self._writer.figures(figures)

    def _describe(self) -> None:
        about: dict[str, Any] = {}
        for name, value in (entry for suite in self._suites for entry in suite.describe().items()):
            if isinstance(value, list):
                about[name] = list(dict.fromkeys([*about.get(name, ()), *value]))
            else:
                about[name] = about.get(name, {}) | value if isinstance(value, dict) else value
        self._writer.files({SUITE: redact(as_json({"suite": about}, indent=2))})
        self._writer.tags({"ragmetrics.version": __version__, "ragmetrics.judge": ", ".join(about["judge"])})


_evaluated_run = lru_cache(maxsize=100)(_EvaluatedRun)


def _criterion(threshold: float | None, better: Better) -> Callable[[Any], bool]:
    """Whether a feedback's value passes; without a threshold, it always does."""
    return lambda value: threshold is None or (isinstance(value, (int, float)) and passes(value, threshold, better))


class _Entry:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.served: set[str] = set()
        self.row: Row | None = None


def _sample_of(row: Mapping[str, Any], trace: Trace | None, columns: Mapping[str, str | None]) -> Sample:
    record = {**row, **(session_of(trace) if trace is not None else {})}
    outputs = record["outputs"]
    if isinstance(outputs, list) and len(outputs) == 1:  # from a model for many rows that received one
        (only,) = outputs
        is_message = isinstance(only, Mapping) and {"role", "content"} <= only.keys()
        if isinstance(only, (str, Mapping)) and not is_message:
            record["outputs"] = only
    for name in filter(None, columns.values()):
        record[name] = next((part[name] for part in map(mapping_of, row.values()) if name in part), None)
    sample = to_sample(record, columns)
    documents = retrieved_documents(trace) if trace is not None else None
    if documents is not None and sample.contexts is None and "contexts" not in sample.invalid:
        return to_sample({**record, "contexts": documents}, columns)
    return sample
