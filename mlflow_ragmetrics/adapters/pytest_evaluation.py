"""The evaluations of the pytest plugin, and their reports after the tests."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Union

import pytest

from mlflow_ragmetrics.core.safe_text import as_json, redact
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.display.junit import Case, to_junit
from mlflow_ragmetrics.errors import GateError, InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.codec import record_of, row_of
from mlflow_ragmetrics.rows import read_samples
from mlflow_ragmetrics.selection import default_metrics
from mlflow_ragmetrics.suite import Suite
from mlflow_ragmetrics.text.messages import counted

EVALUATION, ROW = "ragmetrics_evaluation", "ragmetrics_row"
"""The user properties with the evaluation and row of a test."""

_CACHE = "ragmetrics-cache.db"
_LONGEST_WAIT = 24 * 3600.0


@dataclass
class Request:
    """The samples, suite arguments and chain of one marker.

    ``name`` is the marker's location, the same in all workers.
    """

    name: str
    samples: Sequence[Sample]
    arguments: Mapping[str, Any]
    root: Path
    chain: Any = None
    source: Union[str, Path, None] = None
    selected: dict[str, None] | None = field(default_factory=dict)

    @cached_property
    def suite(self) -> Suite:
        """The suite, by default the one of ``rm.evaluate``. A language model's answers are cached unless the marker
        sets ``cache``."""
        given = dict(self.arguments)
        rows = self.samples if self.chain is None else (replace(row, answer="", contexts=()) for row in self.samples)
        suite = Suite.of(given.pop("suite", None) or default_metrics(rows)[0], **given)
        if suite.cache is None and "cache" not in given and any(judge.usage is not None for judge in suite.judges):
            return suite.replace(cache=self.root / _CACHE)
        return suite

    def select(self, row: str | None) -> None:
        """Select a row that a test needs; ``None`` selects all rows."""
        self.selected = None if row is None or self.selected is None else {**self.selected, row: None}

    def evaluate(self) -> Report:
        """Score the selected rows."""
        samples = [each for each in self.samples if self.selected is None or each.id in self.selected]
        if self.chain is None:
            report = self.suite.evaluate(samples, progress=False)
        else:
            import mlflow_ragmetrics as rm

            report = rm.evaluate_chain(self.chain, samples, self.suite, log=False, progress=False)
        left = len(self.samples) - len(samples)
        were = "was" if left == 1 else "were"
        said = (f"{left} of {counted(len(self.samples), 'row')} {were} not among the selected tests",) if left else ()
        return replace(report, source=self.source, warnings=(*report.warnings, *said))


class Evaluations:
    """The evaluations of a test session, each run once, in this process or in one of the workers that share ``folder``.

    The workers share an SQLite file. The first worker keeps it locked until the rows are scored and written. If a
    worker dies, its lock is released.
    """

    def __init__(self, root: Path, judge: str | None, folder: Path | None) -> None:
        self._root, self._judge, self._folder = root, judge, folder
        self._requests: dict[int, Request] = {}
        self._scored: dict[str, Union[Report, str]] = {}

    def request(self, item: Any) -> Request:
        """The request of a test's marker; ``InvalidOptionError`` if the marker is missing or invalid."""
        found = next(item.iter_markers_with_node("ragmetrics"), None)
        if found is None or len(found[1].args) != 1:
            message = 'a test with rag_row or rag_report needs the marker @pytest.mark.ragmetrics("answers.jsonl", …)'
            raise InvalidOptionError(message, param="ragmetrics")
        node, mark = found
        if id(mark) not in self._requests:
            own = getattr(node, "originalname", None)
            self._requests[id(mark)] = self._made(f"{node.parent.nodeid}::{own}" if own else node.nodeid, mark)
        return self._requests[id(mark)]

    def _made(self, place: str, mark: pytest.Mark) -> Request:
        given = dict(mark.kwargs)
        (data,) = mark.args
        chain, columns = given.pop("chain", None), given.pop("columns", None)
        if isinstance(data, (str, os.PathLike)):
            data = self._root / data
        if self._judge is not None:
            given.setdefault("judge", self._judge)
        before = sum(each.name.partition("#")[0] == place for each in self._requests.values())
        name = f"{place}#{before + 1}" if before else place
        samples = list(read_samples(data, columns))
        return Request(name, samples, given, self._root, chain, data if isinstance(data, Path) else None)

    def scored(self, request: Request) -> Report:
        """The report on ``request``; if scoring failed, the same ``RagMetricsError`` for all its tests."""
        if request.name not in self._scored:
            self._scored[request.name] = _evaluated(request) if self._folder is None else self._shared(request)
        found = self._scored[request.name]
        if isinstance(found, str):
            raise RagMetricsError(found)
        return found

    def _shared(self, request: Request) -> Union[Report, str]:
        assert self._folder is not None
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with closing(_opened(self._folder)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            row = connection.execute("SELECT content FROM evaluations WHERE name = ?", (request.name,)).fetchone()
            if row is not None:
                return _unpacked(row[0])
            made = _evaluated(request)
            connection.execute("INSERT INTO evaluations VALUES (?, ?)", (request.name, _packed(made)))
            connection.execute("COMMIT")
            return made

    def finished(self) -> Iterator[tuple[str, Report]]:
        """Name and report of each finished evaluation, in this process or in the workers."""
        made = dict(self._scored)
        if self._folder is not None and self._folder.is_dir():
            with closing(_opened(self._folder)) as connection:
                stored = connection.execute("SELECT name, content FROM evaluations")
                made |= {name: _unpacked(content) for name, content in stored}
        yield from ((name, found) for name, found in made.items() if not isinstance(found, str))


_PACKED = ("description", "warnings", "usage", "source", "figures", "stopped", "ranges")


def _packed(made: Union[Report, str]) -> str:
    """The report, or the reason why there is none, as JSON."""
    if isinstance(made, str):
        return as_json(made)
    return as_json({name: getattr(made, name) for name in _PACKED} | {"rows": list(map(record_of, made.rows))})


def _unpacked(text: str) -> Union[Report, str]:
    content = json.loads(text)
    if isinstance(content, str):
        return content
    return Report(**{**content, "rows": list(map(row_of, content["rows"])), "warnings": tuple(content["warnings"])})


def _opened(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "evaluations.db", timeout=_LONGEST_WAIT, isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS evaluations (name TEXT PRIMARY KEY, content TEXT)")
    return connection


def _evaluated(request: Request) -> Union[Report, str]:
    try:
        return request.evaluate()
    except RagMetricsError as error:
        return redact(str(error))


class ReportWriter:
    """Writes the reports and the outcomes of each row's tests to the places in ``--ragmetrics-report``."""

    def __init__(self, places: Sequence[str], evaluations: Callable[[], Evaluations]) -> None:
        self._places, self._evaluations = places, evaluations
        self._cases: dict[str, list[Case]] = {}
        self._lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the outcome of a row's test."""
        about = dict(report.user_properties)
        if EVALUATION not in about or (report.when != "call" and report.passed):
            return
        said = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else _reason(report)
        scores = {str(name): str(value) for name, value in about.items() if name not in (EVALUATION, ROW)}
        case = Case(
            report.nodeid.rpartition("::")[2],
            failure=redact(said) if report.failed else None,
            skipped=redact(said) if report.skipped else None,
            properties={"id": str(about[ROW]), **scores},
        )
        self._cases.setdefault(str(about[EVALUATION]), []).append(case)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write all reports; if one cannot be written, the session fails."""
        found = list(self._evaluations().finished())
        for name, report in found:
            junit = to_junit({name: self._cases.get(name, [])})
            for place in self._places:
                try:
                    if place == "run":
                        run_id = report.log(run_name=f"pytest {name}", files={"ragmetrics_junit.xml": junit})
                        where = f"MLflow run {run_id}"
                    else:
                        where = _written(report, Path(place), name, junit, alone=len(found) == 1)
                    self._lines.append(f"{name}: {where}")
                except (RagMetricsError, OSError) as error:
                    self._lines.append(f"{name}: not written: {redact(str(error))}")
                    session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print where the reports are."""
        terminalreporter.section("ragmetrics")
        for line in self._lines or ["no row was scored, so no report was written"]:
            terminalreporter.write_line(line)


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    said = str(report.longrepr) if crash is None else str(crash.message)
    return said.removeprefix(f"{GateError.__module__}.{GateError.__name__}: ")


def _written(report: Report, folder: Path, name: str, junit: str, *, alone: bool) -> str:
    """Write page, rows and JUnit to ``folder``, or to a subfolder per evaluation if there are several."""
    if not alone:
        folder /= "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ragmetrics_report.html").write_text(report.to_html(), encoding="utf-8")
    (folder / "ragmetrics_junit.xml").write_text(junit, encoding="utf-8")
    report.table.to_json(folder / "rag_rows.json", orient="records", force_ascii=False, indent=1)
    return str(folder / "ragmetrics_report.html")
