"""One evaluation for all metrics of a suite, however often MLflow calls them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import mlflow

from mlflow_ragmetrics.adapters.mlflow_models.columns import Reading
from mlflow_ragmetrics.core.run import Row
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.presence import check_presence
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.suite import Suite

__all__ = ["SharedEvaluation"]


class SharedEvaluation:
    """MLflow calls each metric on row 0 first and then on all rows: the row is scored once, the rest once, for all.

    A metric that asks for the same rows again belongs to an evaluation of its own, which asks the judges anew.
    """

    def __init__(self, suite: Suite, columns: Mapping[str, str], *, traces: bool) -> None:
        self._suite = suite
        self._traces = traces
        self._reading = Reading(columns)
        self._lock = threading.Lock()
        self._report: Report | None = None
        self._marks: list[int] = []
        self._run_id: str | None = None
        self._served: Counter[str] = Counter()
        self._before = suite.spent
        self._logged = False

    def report_for(self, key: str, values: Mapping[str, Any]) -> Report:
        """The report on the rows in ``values``, for the metric ``key``; logged once, on the first call after trials."""
        with self._lock:
            self._reading.read(values)
            report = self._current(key, self._reading.samples, self._reading.marks)
            trial = len(report) == 1 and not self._served[key]
            self._served[key] += 1
            if not trial and not self._logged:
                self._log(report)
        return report

    def _current(self, key: str, samples: Sequence[Sample], marks: list[int]) -> Report:
        run = mlflow.active_run()
        run_id = run.info.run_id if run else None
        served = self._served[key] >= (2 if len(samples) == 1 else 1)
        if self._report is None or served or (run_id, marks) != (self._run_id, self._marks):
            known = self._report.rows if self._report and self._is_trial(run_id, marks) else ()
            self._report = self._evaluated(samples, known)
            self._run_id, self._marks, self._logged = run_id, marks, False
            self._served.clear()
        return self._report

    def _is_trial(self, run_id: str | None, marks: list[int]) -> bool:
        return run_id == self._run_id and len(self._marks) == 1 < len(marks) and self._marks == marks[:1]

    def _evaluated(self, samples: Sequence[Sample], known: Sequence[Row]) -> Report:
        began = time.perf_counter()
        self._before = self._before if known else self._suite.spent
        warnings = check_presence(self._suite.selection, samples)[1] if len(samples) > 1 else ()
        rest = self._suite.score_samples(samples[len(known) :])
        rows = [replace(row, index=index) for index, row in enumerate((*known, *rest))]
        seconds = time.perf_counter() - began
        return self._suite.report(rows, warnings=warnings, seconds=seconds, before=self._before)

    def _log(self, report: Report) -> None:
        self._logged = True
        if self._run_id is not None:
            by_mlflow = {name for name in report.metrics if name.partition("/")[0] in report.keys}
            report.log(run_id=self._run_id, traces=self._traces, dataset=False, omit=by_mlflow)
