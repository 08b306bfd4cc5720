"""Many rows of a file into a file: scored, summed up and written as they come, in memory that does not grow with them.

The file is read twice: first to see how many rows there are and that each metric finds its fields.
"""

from __future__ import annotations

import math
import os
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappush, heappushpop
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlflow_ragmetrics.cli import say_stopping
from mlflow_ragmetrics.cli.output import unwritable
from mlflow_ragmetrics.engine.questions import Expenses, charged_to
from mlflow_ragmetrics.errors import MissingFieldError, RagMetricsError
from mlflow_ragmetrics.report.marks import Ranking
from mlflow_ragmetrics.report.progress import progress_of
from mlflow_ragmetrics.report.report import Report
from mlflow_ragmetrics.report.summary import repeated_questions
from mlflow_ragmetrics.report.table_file import TABLES, TableFile
from mlflow_ragmetrics.report.tables import has_diagnoses
from mlflow_ragmetrics.rows import read_samples
from mlflow_ragmetrics.rows.groups import SESSION, SESSION_FIELDS, sample_value
from mlflow_ragmetrics.selection import check_presence
from mlflow_ragmetrics.statistics.intervals import MANY_ROWS
from mlflow_ragmetrics.text.messages import Text, render

if TYPE_CHECKING:
    from mlflow_ragmetrics.cli.request import Request
    from mlflow_ragmetrics.core.sample import Sample
    from mlflow_ragmetrics.engine.program import Row
    from mlflow_ragmetrics.suite import Suite

__all__ = ["StreamedReport", "Survey", "streamed_report", "survey_of"]

_REMEMBERED = 20_000


@dataclass(frozen=True)
class StreamedReport(Report):
    """The report of ``count`` rows that went by; ``rows`` are the worst of them."""

    count: int = 0

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True)
class Survey:
    """What the first reading found: how many rows there are, the suite without what no row has, and warnings."""

    rows: int
    suite: Suite
    warnings: tuple[Text, ...]


def survey_of(request: Request, suite: Suite) -> Survey | None:
    """What the first reading of many rows finds; ``None`` where rows have to be kept.

    That is where something is asked for that needs all of them at once (a page, slices, …), and where they are few,
    share an id, or are turns of conversations.
    """
    needs_all = any((request.repeat > 1, request.true_score, request.anytime, request.by, request.junit))
    needs_all = needs_all or bool(suite.groups) or suite.several or request.data is None or bool(request.results)
    is_streamed = request.output is None or Path(request.output).suffix.lower() in TABLES
    if needs_all or has_diagnoses(suite.keys) or not is_streamed or not os.path.exists(str(request.data)):
        return None
    ids = array("q")
    sessions = {name: array("q") for name in SESSION_FIELDS}

    def seen() -> Iterator[Sample]:
        for sample in _samples(request):
            ids.append(hash(sample.id))
            for name, found in sessions.items():
                if (value := sample_value(sample, name)) is not None and str(value).strip():
                    found.append(hash(str(value)))
            yield sample

    try:
        selection, warnings = check_presence(suite.selection, seen())
    except MissingFieldError as error:
        raise RagMetricsError(f"{request.data}: {error}") from None
    if len(ids) <= MANY_ROWS or sessions[SESSION] or any(map(_repeats, (ids, *sessions.values()))):
        return None
    return Survey(len(ids), suite.replace(metrics=selection), warnings)


def _repeats(hashes: array[int]) -> bool:
    found = np.frombuffer(hashes, dtype="q")
    found.sort()  # in place: copies of so many would be the most memory that the command ever takes
    return bool((found[1:] == found[:-1]).any())


def streamed_report(
    request: Request, suite: Suite, survey: Survey
) -> tuple[Report, KeyboardInterrupt | None, RagMetricsError | None]:
    """The report on all rows, or on those before Ctrl-C or SIGTERM, and why the output could not be written."""
    began = time.perf_counter()
    interruption: KeyboardInterrupt | None = None
    output = _Output(request.output)
    seen = _Seen(survey.suite, max(1, request.worst))
    with charged_to(Expenses()) as expenses, progress_of(request.progress, survey.rows) as bar:
        stream = survey.suite.stream(_samples(request))
        try:
            for row in stream:
                seen.add(row)
                output.add(row)
                bar.advance(row)
                if output.refusal is not None:
                    break
        except KeyboardInterrupt as error:
            if not seen.count:
                raise
            interruption = error
        stream.close()
    if interruption is not None:
        say_stopping(seen.count)
    output.close()
    stopped = None
    if seen.count < survey.rows:
        why = "interrupted" if interruption is not None else "ended, as nothing more could be written,"
        stopped = f"{why} when {seen.count} of {survey.rows} rows were scored"
    said = (render(warning, suite.language) for warning in (*survey.warnings, *seen.warnings))
    report = StreamedReport(
        rows=seen.worst,
        description=suite.describe(),
        warnings=tuple(said),
        usage=expenses.usage(time.perf_counter() - began),
        source=request.data,
        stopped=stopped or stream.summary.incomplete,
        ranges=suite.ranges,
        count=seen.count,
    )
    vars(report).update(
        metrics=dict(stream.summary.metrics),
        keys=survey.suite.keys,
        better=survey.suite.better,
        composites=seen.composites,
        diagnoses=[],
        _failures=stream.failures,
        ranking=seen.ranking,
    )
    return report, interruption, output.refusal


def _samples(request: Request) -> Iterator[Sample]:
    read = read_samples(request.data, request.columns, remembered=_REMEMBERED, delimiter=request.delimiter)
    return islice(read, request.limit)


class _Output:
    """The file of rows, if one was asked for; what the disk refuses is kept as ``refusal``."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._file: TableFile | None = None
        self.refusal: RagMetricsError | None = None

    def add(self, row: Row) -> None:
        if self._name is None or self.refusal is not None:
            return
        try:
            self._file = self._file or TableFile(Path(self._name))
            self._file.add(row)
        except OSError as error:
            self._refused(error)

    def close(self) -> None:
        try:
            if self._file is not None and self.refusal is None:
                self._file.close()
        except OSError as error:
            self._refused(error)

    def _refused(self, error: OSError) -> None:
        self.refusal = unwritable(str(self._name), error)
        if self._file is not None:
            self._file.discard()


class _Seen:
    """What a report keeps of rows that go by: how many there were, the worst ones, and whether questions repeat."""

    def __init__(self, suite: Suite, worst: int) -> None:
        self.count = 0
        self._first: Row | None = None
        self.composites = [suite.name_prefix + each.key for each in suite.composites]
        self._keys = suite.keys
        self._most = worst
        rankings = [Ranking(suite.keys, suite.better, key) for key in (*self.composites, None)]
        self._worst: list[tuple[Ranking, list[tuple[float, float, int, Row]]]] = [(each, []) for each in rankings]
        self._questions: list[str | None] = []
        self._values = array("d")

    def add(self, row: Row) -> None:
        self._first = self._first or row
        for ranking, worst in self._worst:
            rank = ranking.rank(row)
            if rank is not None:
                entry = (-rank[0], -rank[1], -self.count, row)
                (heappush if len(worst) < self._most else heappushpop)(worst, entry)
        if self.count < MANY_ROWS:
            self._questions.append(row.sample.question)
            scores = (row.scores[key].value for key in self._keys)
            self._values.extend(math.nan if value is None else value for value in scores)
        self.count += 1

    @property
    def ranking(self) -> Ranking:
        """By which composite that was scored, else by what else, rows are the worst."""
        return self._ranked[0]

    @property
    def worst(self) -> list[Row]:
        """The worst rows, in the order in which they came; where none is scored, the first."""
        found = [row for _, _, _, row in sorted(self._ranked[1], key=lambda entry: -entry[2])]
        return found or ([] if self._first is None else [self._first])

    @property
    def _ranked(self) -> tuple[Ranking, list[tuple[float, float, int, Row]]]:
        return next((each for each in self._worst if each[1]), self._worst[-1])

    @property
    def warnings(self) -> list[str]:
        """Whether the first rows ask the same questions and resemble each other for it."""
        said = repeated_questions(self._questions, self._keys, np.array(self._values).reshape(-1, len(self._keys)))
        return [] if said is None else [f"of the first {len(self._questions)} rows: {said}"]
