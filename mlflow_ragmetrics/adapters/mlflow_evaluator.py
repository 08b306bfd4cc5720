"""A suite in ``mlflow.models.evaluate``: as ``extra_metrics``, one per metric, or as ``evaluators="ragmetrics"``.

Both score a row once for all metrics, and log what ``Report.log`` logs.
"""

from __future__ import annotations

import inspect
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

import mlflow
import pandas as pd
from mlflow.metrics import MetricValue
from mlflow.models import EvaluationMetric
from mlflow.models.evaluation import EvaluationResult, ModelEvaluator
from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact

from mlflow_ragmetrics.core.safe_text import plain_text
from mlflow_ragmetrics.core.score import Better, Sample, Score
from mlflow_ragmetrics.engine.program import Expenses, Row
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError
from mlflow_ragmetrics.evaluation import Scored, drive, report_or_stop
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.rows import read_samples
from mlflow_ragmetrics.rows.aliases import RECORD_NAMES
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.rows.trace_records import record_of_trace
from mlflow_ragmetrics.selection import check_presence
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.tracking.log import run_metrics_of
from mlflow_ragmetrics.tracking.writer import CLAIMS, ROWS, mlflow_name


class _Columns(inspect.Signature):
    """A signature with an optional parameter for each column name, because MLflow finds columns by parameter.

    All names must be listed: MLflow misinterprets functions with two parameters and fails on ``**columns``.
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._named = {name: inspect.Parameter("column", kind, default=None) for name in names}

    @property
    def parameters(self) -> MappingProxyType[str, inspect.Parameter]:
        """The parameters by column name."""
        return MappingProxyType(self._named)


class _SharedEvaluation:
    """One evaluation for all metrics. MLflow calls each metric first on row 0, then on all rows; rows are scored once.

    If a metric requests the same rows again, a new evaluation starts, which asks the judges again.
    """

    def __init__(self, suite: Suite, columns: Mapping[str, str | None], *, traces: bool) -> None:
        self._suite = suite
        self._columns = columns
        self._traces = traces
        self._lock = threading.Lock()
        self._run_id: str | None = None
        self._hashes: list[int] = []
        self._report: Report | None = None
        self._served: Counter[str] = Counter()
        self._expenses = Expenses()
        self._logged = False

    def report_for(self, key: str, values: Mapping[str, Any]) -> Report:
        """The report on the rows in ``values``, for the metric ``key``; logged on the first call with all rows."""
        named = {name: column for name, column in values.items() if column is not None}
        # for row 0, MLflow passes the model's other output columns at full length
        records = [dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=False)]
        hashes = [hash(repr(record)) for record in records]  # unlike ==, this works with NaN and arrays
        with self._lock:
            run = mlflow.active_run()
            run_id = run.info.run_id if run else None
            is_new = (run_id, hashes) != (self._run_id, self._hashes)
            is_again = self._served[key] >= (2 if len(records) == 1 else 1)
            if self._report is None or is_new or is_again:
                is_tried = is_new and (run_id, hashes[:1]) == (self._run_id, self._hashes)
                known = self._report.rows if self._report is not None and is_tried else ()
                self._run_id, self._hashes, self._report, self._logged = run_id, hashes, None, False
                self._report = self._evaluated(records, known)
                self._served.clear()
            is_trial = len(records) == 1 and not self._served[key]
            self._served[key] += 1
            if not is_trial and not self._logged and run_id is not None:
                self._logged = True
                keys = self._report.keys
                by_mlflow = {mlflow_name(f"{key}/{figure}") for key in keys for figure in _figures(self._report, key)}
                self._report.log(run_id=run_id, traces=self._traces, dataset=False, omit=by_mlflow)
            return self._report

    def _evaluated(self, records: Sequence[Mapping[str, Any]], known: Sequence[Row]) -> Report:
        """The report on ``records``; the first ones are already scored (``known``)."""
        self._expenses = self._expenses if known else Expenses()
        samples = with_traced_contexts(list(_samples(records, self._columns)), self._suite, self._run_id)
        warnings = check_presence(self._suite.selection, samples)[1] if len(samples) > 1 else ()

        def rows() -> Iterator[Row]:
            rest = self._suite.score_samples(samples[len(known) :])
            return (replace(row, index=index) for index, row in enumerate(chain(known, rest)))

        scored = Scored(expenses=self._expenses)
        make_report = partial(self._suite.report, warnings=warnings)
        return report_or_stop(*drive(rows, len(samples), make_report, scored=scored))


def _samples(records: Sequence[Mapping[str, Any]], columns: Mapping[str, str | None]) -> Iterable[Sample]:
    explicit: dict[str, str] = {}
    if records and "predictions" in records[0]:  # "outputs" may be dicts with contexts and ids
        records = [{"outputs" if name == "predictions" else name: v for name, v in each.items()} for each in records]
        explicit["answer"] = "outputs"
    if records and "targets" in records[0]:
        explicit["reference"] = "targets"
    return read_samples(records, {**explicit, **columns})


_LEFT_OUT = Score(status="skipped", reason="no row has the fields for this metric")


def extra_metrics(
    suite: SuiteLike, columns: Mapping[str, str | None] | None = None, *, traces: bool = True
) -> list[EvaluationMetric]:
    """The suite's metrics and composites for ``mlflow.models.evaluate(extra_metrics=…)``.

    Fields are found by name and alias in the columns of the data and the model's output; ``predictions`` is the answer
    and ``targets`` the reference. If the output has no contexts, they are read from the model's traces. ``columns``
    maps sample fields to other column names. The run has the same content as from ``Report.log``, and MLflow's table
    has a score and a reason per row. With ``traces=False`` no traces are written, and MLflow's pages show no rows.
    """
    suite = Suite.of(suite)
    shared = _SharedEvaluation(suite, columns or {}, traces=traces)
    mapped = [name for name in (columns or {}).values() if name is not None]
    others = ("expectations", "metadata", *mapped, *([suite.groups] if suite.groups else []))
    names = list(dict.fromkeys(["predictions", "targets", *RECORD_NAMES, *others]))
    return [_metric(shared, key, names, suite.better.get(key, True)) for key in suite.keys]


def _metric(shared: _SharedEvaluation, key: str, names: list[str], better: Better) -> EvaluationMetric:
    def eval_fn(*values: Any) -> MetricValue:
        report = shared.report_for(key, dict(zip(names, values, strict=True)))
        scores = [row.scores.get(key) or _LEFT_OUT for row in report.rows]
        reasons = [each.reason if each.measured else each.error or f"not measured: {each.cause}" for each in scores]
        return MetricValue(
            scores=[score.measurement for score in scores],  # type: ignore[arg-type]  # MLflow stores None as null
            justifications=list(map(plain_text, reasons)),
            aggregate_results=_figures(report, key),
        )

    eval_fn.__name__ = key
    eval_fn.__signature__ = _Columns(names)  # type: ignore[attr-defined]
    # MLflow requires greater_is_better to be True or False
    return EvaluationMetric(eval_fn, name=mlflow_name(key), greater_is_better=better is not False)  # type: ignore[no-untyped-call]


def _figures(report: Report, key: str) -> dict[str, float]:
    """The run's figures ``<key>/…``; a metric named ``key`` itself (such as ``ndcg_10``) is left out."""
    parts = ((name.partition("/"), value) for name, value in run_metrics_of(report).items())
    return {figure: value for (owner, _, figure), value in parts if owner == mlflow_name(key) and figure}


_READ_HERE = ("suite", "columns", "col_mapping", "traces")


class RagMetricsEvaluator(ModelEvaluator):
    """Evaluates with a suite if ``evaluator_config`` has the key ``suite``.

    ``suite`` is a preset's name, a list of metrics, a YAML file or a ``Suite``. ``columns`` maps sample fields to
    column names, like MLflow's ``col_mapping``. ``traces=False`` writes no traces. The other keys (judge, embeddings,
    weights, thresholds, …) are options of ``Suite`` and of its judges. The configuration may be nested under
    ``"ragmetrics"``. Metrics, params and tables are logged to the run.
    """

    @classmethod
    def can_evaluate(cls, *, evaluator_config: Mapping[str, Any] | None, **_: Any) -> bool:
        """Whether the configuration has a suite."""
        return "suite" in _unnested(evaluator_config)

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any] | None,
        model: Any = None,
        predictions: str | None = None,
        model_id: str | None = None,
        **_: Any,
    ) -> EvaluationResult:
        """Score the dataset's predictions, or those of ``model``, and log the result to ``run_id``."""
        config = _unnested(evaluator_config)
        suite = Suite.of(config["suite"], **{name: option for name, option in config.items() if name not in _READ_HERE})
        features = dataset.features_data  # MLflow names the columns of a frame that are no texts anew
        names = features.columns if isinstance(features, pd.DataFrame) else dataset.feature_names
        table = pd.DataFrame(features, columns=names)
        outputs = dataset.predictions_data if model is None else model.predict(table)
        columns = {"answer": "outputs"} | ({"reference": "targets"} if dataset.has_targets else {})
        if dataset.has_targets:
            table = table.assign(targets=list(dataset.labels_data))
        table = _with_outputs(table, outputs, predictions)
        traces = bool(config.get("traces", True))
        columns |= config.get("col_mapping", {}) | config.get("columns", {})
        try:
            samples = list(read_samples(table, columns))
            report = suite.evaluate(with_traced_contexts(samples, suite, run_id if model is not None else None))
        except JudgeError as error:  # no judge is left: earlier answers are logged
            if error.report is not None:
                error.report.log(run_id=run_id, traces=traces, dataset=False)
            raise
        figures = run_metrics_of(report)
        omit = figures if model_id else ()  # with a model, MLflow logs the returned metrics
        report.log(run_id=run_id, model_id=model_id, traces=traces, dataset=False, omit=omit)
        artifacts = {
            name.removesuffix(".json"): JsonEvaluationArtifact(mlflow.get_artifact_uri(name))  # type: ignore[no-untyped-call]
            for name in (ROWS, CLAIMS)
        }
        return EvaluationResult(figures, artifacts, run_id)  # type: ignore[no-untyped-call]


def _unnested(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    config = config or {}
    inner = config.get("ragmetrics")
    return inner if isinstance(inner, Mapping) else config


def _with_outputs(table: pd.DataFrame, outputs: Any, answer: str | None) -> pd.DataFrame:
    """The inputs with the model's outputs: one column, or several, with the answer in the column ``answer``."""
    if isinstance(outputs, Mapping) or (isinstance(outputs, list) and outputs and isinstance(outputs[0], Mapping)):
        outputs = pd.DataFrame(outputs)
    if not isinstance(outputs, pd.DataFrame):
        return table.assign(outputs=list(outputs))
    names = list(outputs.columns)
    name = answer if answer in names else names[0] if len(names) == 1 else None
    if name is None:
        message = f"the model returns the columns {', '.join(map(str, names))}; set predictions= to the answer's column"
        raise InvalidOptionError(message, param="predictions")
    others = {other: list(outputs[other]) for other in names if other != name}
    return table.assign(**{**others, "outputs": list(outputs[name])})


def with_traced_contexts(samples: Sequence[Sample], suite: Suite, run_id: str | None) -> list[Sample]:
    """The samples with contexts from the run's retriever spans, if no sample has contexts of its own.

    This is for chains that return only a text. A trace belongs to the samples with its question and answer, else to
    those with its answer. Traces without a retriever, and traces of a sample with different contexts, are ignored.
    """
    wanted = any("contexts" in (*metric.definition.required, *metric.definition.optional) for metric in suite.metrics)
    known = any(sample.contexts is not None or "contexts" in sample.invalid for sample in samples)
    if run_id is None or known or not wanted:
        return list(samples)
    mlflow.flush_trace_async_logging()
    of_run = f"request_metadata.`mlflow.sourceRun` = '{run_id}'"
    traces = mlflow.search_traces([mlflow.get_run(run_id).info.experiment_id], of_run, return_type="list")
    records = [record for record in map(record_of_trace, traces) if record is not None and "contexts" in record]
    traced: defaultdict[tuple[str | None, str | None], list[Sample]] = defaultdict(list)
    for call in map(to_sample, records):
        for key in {(call.question, call.answer), (None, call.answer)}:
            traced[key].append(call)

    def with_contexts(sample: Sample) -> Sample:
        calls = traced[sample.question, sample.answer] or traced[None, sample.answer]
        if sample.answer is None or not calls or any(call.texts != calls[0].texts for call in calls):
            return sample
        ids = sample.retrieved_doc_ids if sample.retrieved_doc_ids is not None else calls[0].retrieved_doc_ids
        return replace(sample, contexts=calls[0].contexts, retrieved_doc_ids=ids)

    return list(map(with_contexts, samples))
