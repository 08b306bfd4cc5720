"""Suites for ``mlflow.models.evaluate``: one ``EvaluationMetric`` per metric, all of them from one evaluation."""

from __future__ import annotations

import inspect
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import mlflow
from mlflow.metrics import MetricValue
from mlflow.models import EvaluationMetric

from mlflow_ragmetrics.adapters.mlflow_retrieval import with_traced_contexts
from mlflow_ragmetrics.core.json_text import plain_text
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.questions import Expenses, charged_to
from mlflow_ragmetrics.report.report import Report
from mlflow_ragmetrics.rows import read_samples
from mlflow_ragmetrics.rows.fields import RECORD_NAMES
from mlflow_ragmetrics.selection import check_presence
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.tracking.describe import run_metrics_of

__all__ = ["Columns", "Reading", "column_names", "SharedEvaluation", "extra_metrics"]


class Columns(inspect.Signature):
    """A signature whose parameters, all optional, may have any column's name: MLflow looks columns up by parameter.

    Listing every name is the only way: MLflow takes a function of two parameters for one of another kind and fails
    on ``**columns``.
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._named = {name: inspect.Parameter("column", kind, default=None) for name in names}

    @property
    def parameters(self) -> MappingProxyType[str, inspect.Parameter]:
        """The parameters by column name."""
        return MappingProxyType(self._named)


def column_names(columns: Mapping[str, str]) -> list[str]:
    """All names under which a field may come: MLflow's own, the canonical ones, aliases, and those of ``columns``."""
    return list(dict.fromkeys(["predictions", "targets", *RECORD_NAMES, "expectations", "metadata", *columns.values()]))


class Reading:
    """Samples read from columns; equal columns, which MLflow hands over once per metric, are read once."""

    def __init__(self, columns: Mapping[str, str], suite: Suite) -> None:
        self._columns = dict(columns)
        self._suite = suite
        self._run_id: str | None = None
        self._given: dict[str, list[Any]] | None = None
        self.samples: list[Sample] = []
        self.hashes: list[int] = []

    def read(self, values: Mapping[str, Any], run_id: str | None) -> None:
        """Set ``samples``, with what the run's traces say of their contexts, and ``hashes`` that tell them apart.

        Unlike ``==`` between samples, hashes can take NaN and arrays in the metadata.
        """
        given = {name: list(column) for name, column in values.items() if column is not None}
        if run_id != self._run_id or not self._is_known(given):
            self._given, self._run_id = given, run_id
            self.samples = with_traced_contexts(list(_samples(given, self._columns)), self._suite, run_id)
            self.hashes = [hash(repr(sample)) for sample in self.samples]

    def _is_known(self, given: Mapping[str, list[Any]]) -> bool:
        try:
            return given == self._given
        except ValueError:  # arrays in the cells do not say whether they are equal
            return False


def _samples(given: Mapping[str, list[Any]], columns: Mapping[str, str]) -> Iterable[Sample]:
    named, explicit = dict(given), {}
    if "predictions" in named:  # as outputs, what else a dict holds (contexts, ids) is found as well
        named["outputs"] = named.pop("predictions")
        explicit["answer"] = "outputs"
    if "targets" in named:
        explicit["reference"] = "targets"
    # on its trial of row 0, MLflow hands over the model's further output columns at full length
    records = [dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=False)]
    return read_samples(records, {**explicit, **columns})


class SharedEvaluation:
    """MLflow calls each metric on row 0 first and then on all rows: the row is scored once, the rest once, for all.

    A metric that asks for the same rows again belongs to an evaluation of its own, which asks the judges anew.
    """

    def __init__(self, suite: Suite, columns: Mapping[str, str], *, traces: bool) -> None:
        self._suite = suite
        self.better = suite.better
        self._traces = traces
        self._reading = Reading(columns, suite)
        self._lock = threading.Lock()
        self._report: Report | None = None
        self._hashes: list[int] = []
        self._run_id: str | None = None
        self._served: Counter[str] = Counter()
        self._expenses = Expenses()
        self._logged = False

    def report_for(self, key: str, values: Mapping[str, Any]) -> Report:
        """The report on the rows in ``values``, for the metric ``key``; logged once, on the first call after trials."""
        with self._lock:
            run = mlflow.active_run()
            run_id = run.info.run_id if run else None
            self._reading.read(values, run_id)
            report = self._current(key, run_id, self._reading.samples, self._reading.hashes)
            trial = len(report) == 1 and not self._served[key]
            self._served[key] += 1
            if not trial and not self._logged:
                self._log(report)
        return report

    def _current(self, key: str, run_id: str | None, samples: Sequence[Sample], hashes: list[int]) -> Report:
        served = self._served[key] >= (2 if len(samples) == 1 else 1)
        if self._report is None or served or (run_id, hashes) != (self._run_id, self._hashes):
            known = self._report.rows if self._report and self._is_trial(run_id, hashes) else ()
            self._report = self._evaluated(samples, known)
            self._run_id, self._hashes, self._logged = run_id, hashes, False
            self._served.clear()
        return self._report

    def _is_trial(self, run_id: str | None, hashes: list[int]) -> bool:
        return run_id == self._run_id and len(self._hashes) == 1 < len(hashes) and self._hashes == hashes[:1]

    def _evaluated(self, samples: Sequence[Sample], known: Sequence[Row]) -> Report:
        began = time.perf_counter()
        self._expenses = self._expenses if known else Expenses()
        warnings = check_presence(self._suite.selection, samples)[1] if len(samples) > 1 else ()
        with charged_to(self._expenses):
            rest = self._suite.score_samples(samples[len(known) :])
            rows = [replace(row, index=index) for index, row in enumerate((*known, *rest))]
        seconds = time.perf_counter() - began
        return self._suite.report(rows, warnings=warnings, seconds=seconds, expenses=self._expenses)

    def _log(self, report: Report) -> None:
        self._logged = True
        if self._run_id is not None:
            by_mlflow = {f"{key}/{figure}" for key in report.keys for figure in _figures(report, key)}
            report.log(run_id=self._run_id, traces=self._traces, dataset=False, omit=by_mlflow)


_LEFT_OUT = Score(status="skipped", reason="no row has the fields that this metric needs")


def extra_metrics(
    suite: SuiteLike, columns: Mapping[str, str] | None = None, *, traces: bool = False
) -> list[EvaluationMetric]:
    """The suite's metrics and composites for ``mlflow.models.evaluate(extra_metrics=…)``.

    Fields are found by their names and aliases among the data's and the model's output columns; ``predictions`` is
    the answer and ``targets`` the reference. What a model retrieved is read from its traces where its output does not
    say it. ``columns`` maps sample fields to other column names. The run gets
    ``<key>/mean``, ``<key>/ci_low``, ``<key>/n_scored``, …, the suite's params and the tables ``rag_rows.json`` and
    ``rag_claims.json``; MLflow's own table gets a score and a reason per row. ``traces`` writes one trace per row with
    its scores, so that MLflow's pages compare two runs row by row.
    """
    suite = Suite.of(suite)
    shared = SharedEvaluation(suite, columns or {}, traces=traces)
    names = column_names(columns or {})
    names += [suite.groups] if suite.groups is not None and suite.groups not in names else []
    return [_metric(shared, key, names) for key in suite.keys]


def _metric(shared: SharedEvaluation, key: str, names: list[str]) -> EvaluationMetric:
    def eval_fn(*values: Any) -> MetricValue:
        return _metric_value(shared.report_for(key, dict(zip(names, values, strict=True))), key)

    eval_fn.__name__ = key
    eval_fn.__signature__ = Columns(names)  # type: ignore[attr-defined]
    better = shared.better.get(key, True) is not False  # MLflow knows no metric of which neither side is better
    return EvaluationMetric(eval_fn, name=key, greater_is_better=better)  # type: ignore[no-untyped-call]


def _metric_value(report: Report, key: str) -> MetricValue:
    scores = [row.scores.get(key) or _LEFT_OUT for row in report.rows]
    return MetricValue(
        scores=[score.value for score in scores],  # type: ignore[arg-type]  # None is what MLflow stores as null
        justifications=[plain_text(score.error or score.reason) for score in scores],
        aggregate_results=_figures(report, key),
    )


def _figures(report: Report, key: str) -> dict[str, float]:
    """The run's figures of ``key``; a metric of just that name (such as ``ndcg_10``) is none of its figures."""
    parts = ((name.partition("/"), value) for name, value in run_metrics_of(report).items())
    return {figure: value for (owner, _, figure), value in parts if owner == key and figure}
