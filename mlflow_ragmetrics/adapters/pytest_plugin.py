"""pytest plugin: runs a test for each row of a data set, and writes a page or an MLflow run.

pytest always loads this module, so heavy imports are delayed until a test needs them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mlflow_ragmetrics.core.score import Sample
    from mlflow_ragmetrics.engine.program import Row
    from mlflow_ragmetrics.report import Report
    from mlflow_ragmetrics.suite import Suite

_CACHE = "ragmetrics-cache.db"
_EVALUATIONS = pytest.StashKey["dict[int, Evaluation]"]()
_LINES = pytest.StashKey["list[str]"]()
_USAGE = (
    '@pytest.mark.ragmetrics("answers.jsonl", suite="white_paper"); also takes the arguments of Suite, columns='
    " (fields to names in the data) and chain= (answers the questions of the data)"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--ragmetrics-report`` and ``--ragmetrics-judge``, the latter also as an ini setting."""
    group = parser.getgroup("ragmetrics", "RAG evaluation")
    group.addoption(
        "--ragmetrics-report",
        action="append",
        default=[],
        metavar="FOLDER|run",
        help="write the page and the rows of each evaluation to a folder or an MLflow run",
    )
    group.addoption("--ragmetrics-judge", metavar="JUDGE", help="judge of tests without one [default: lexical]")
    parser.addini("ragmetrics_judge", "judge of tests without one", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; a report needs all rows in one process."""
    config.addinivalue_line("markers", f"ragmetrics(data, suite=..., chain=..., ...): rows to score; {_USAGE}")
    if config.getoption("--ragmetrics-report") and config.getoption("dist", "no") != "no":
        raise pytest.UsageError("--ragmetrics-report needs the rows in one process: leave out -n")


@dataclass
class Evaluation:
    """The samples, suite arguments, chain and outcomes of one marker.

    ``name`` is the marker's location. ``selected`` has the ids of the rows that tests need (``None``: all).
    ``outcomes`` has the report on the selected rows under ``None``, and those on single rows under their ids.
    """

    name: str
    samples: Sequence[Sample]
    arguments: Mapping[str, Any]
    root: Path
    chain: Any = None
    source: Path | None = None
    selected: set[str] | None = field(default_factory=set)
    outcomes: dict[str | None, Report | str] = field(default_factory=dict)

    @cached_property
    def suite(self) -> Suite:
        """The suite, by default the one of ``rm.evaluate``. A language model's answers are cached unless the marker
        sets ``cache``."""
        from mlflow_ragmetrics.selection import default_metrics
        from mlflow_ragmetrics.suite import Suite

        arguments = dict(self.arguments)
        rows = self.samples if self.chain is None else (replace(row, answer="", contexts=()) for row in self.samples)
        suite = Suite.of(arguments.pop("suite", None) or default_metrics(rows)[0], **arguments)
        if suite.cache is None and "cache" not in arguments and any(judge.usage is not None for judge in suite.judges):
            return suite.replace(cache=self.root / _CACHE)
        return suite

    def report(self, row: str | None = None) -> Report:
        """The report on the selected rows, or on one ``row``; each is scored once, and an error is raised again."""
        from mlflow_ragmetrics.core.safe_text import redact
        from mlflow_ragmetrics.errors import RagMetricsError

        if row not in self.outcomes:
            try:
                self.outcomes[row] = self._scored(self.selected if row is None else {row})
            except RagMetricsError as error:
                self.outcomes[row] = redact(str(error))
        outcome = self.outcomes[row]
        if isinstance(outcome, str):
            pytest.fail(outcome, pytrace=False)
        return outcome

    def _scored(self, ids: Collection[str] | None) -> Report:
        import mlflow_ragmetrics as rm
        from mlflow_ragmetrics.text.messages import counted

        samples = [sample for sample in self.samples if ids is None or sample.id in ids]
        if self.chain is None:
            report = self.suite.evaluate(samples, progress=False)
        else:
            report = rm.evaluate_chain(self.chain, samples, self.suite, log=False, progress=False)
        left = len(self.samples) - len(samples)
        were = "was" if left == 1 else "were"
        notes = (f"{left} of {counted(len(self.samples), 'row')} {were} not among the selected tests",) if left else ()
        return replace(report, source=self.source, warnings=(*report.warnings, *notes))


def _evaluation(item: Any) -> Evaluation:
    """The evaluation of a test's marker; ``InvalidOptionError`` if the marker is missing or invalid."""
    from mlflow_ragmetrics.errors import InvalidOptionError
    from mlflow_ragmetrics.rows import read_samples

    node, mark = next(item.iter_markers_with_node("ragmetrics"), (item, None))
    if mark is None or len(mark.args) != 1:
        message = 'a test with rag_row or rag_report needs the marker @pytest.mark.ragmetrics("answers.jsonl", …)'
        raise InvalidOptionError(message, param="ragmetrics")
    evaluations: dict[int, Evaluation] = item.config.stash.setdefault(_EVALUATIONS, {})
    if id(mark) not in evaluations:
        arguments, (data,) = dict(mark.kwargs), mark.args
        chain, columns = arguments.pop("chain", None), arguments.pop("columns", None)
        if isinstance(data, (str, os.PathLike)):
            data = item.config.rootpath / data
        judge = item.config.getoption("--ragmetrics-judge") or item.config.getini("ragmetrics_judge")
        if judge:
            arguments.setdefault("judge", judge)
        samples, source = list(read_samples(data, columns)), data if isinstance(data, Path) else None
        evaluations[id(mark)] = Evaluation(node.nodeid, samples, arguments, item.config.rootpath, chain, source)
    return evaluations[id(mark)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with ``rag_row`` once per row, with the row's id in the test's name."""
    if "rag_row" not in metafunc.fixturenames:
        return
    from mlflow_ragmetrics.errors import RagMetricsError
    from mlflow_ragmetrics.rows.record import shown_id

    try:
        samples = _evaluation(metafunc.definition).samples
    except RagMetricsError as error:
        pytest.fail(f"{metafunc.definition.nodeid}: {error}", pytrace=False)
    names = [shown_id(sample, index) for index, sample in enumerate(samples)]
    metafunc.parametrize("rag_row", [sample.id for sample in samples], ids=names, indirect=True)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Select the rows that the selected tests need; only these are scored."""
    for item in session.items:
        fixtures = getattr(item, "fixturenames", ())
        if "rag_report" in fixtures:
            _evaluation(item).selected = None
        elif "rag_row" in fixtures and (selected := _evaluation(item).selected) is not None:
            selected.add(item.callspec.params["rag_row"])  # type: ignore[attr-defined]


@pytest.fixture
def rag_row(request: pytest.FixtureRequest) -> Row:
    """One row of the evaluation in the test's ``ragmetrics`` marker, with its sample and scores.

    Check limits with ``rm.assert_score("faithfulness >= 0.8", rag_row)``. The rows of all selected tests are scored
    together when the first test needs one; a worker of pytest-xdist scores the rows of its own tests, one by one. The
    scores are also properties of the test in pytest's ``--junitxml``.
    """
    is_worker = hasattr(request.config, "workerinput")
    report = _evaluation(request.node).report(request.param if is_worker else None)
    row = next(row for row in report.rows if row.sample.id == request.param)
    request.node.user_properties += [
        (key, score.status if score.value is None else score.value) for key, score in row.scores.items()
    ]
    return row


@pytest.fixture
def rag_report(request: pytest.FixtureRequest) -> Report:
    """The report on all rows of the test's ``ragmetrics`` marker, for ``rag_report.check(…)``."""
    return _evaluation(request.node).report()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report of each evaluation to the places in ``--ragmetrics-report``; a failure fails the session."""
    places = session.config.getoption("--ragmetrics-report")
    if not places:
        return
    from mlflow_ragmetrics.core.safe_text import redact
    from mlflow_ragmetrics.errors import RagMetricsError

    lines = session.config.stash[_LINES] = []
    evaluations = session.config.stash.get(_EVALUATIONS, {}).values()
    scored = [(each.name, each.report()) for each in evaluations if not isinstance(each.outcomes.get(None, ""), str)]
    for name, report in scored:
        for place in places:
            try:
                if place == "run":
                    lines.append(f"{name}: MLflow run {report.log(run_name=f'pytest {name}')}")
                else:
                    lines.append(f"{name}: {_written(report, Path(place), name if len(scored) > 1 else '')}")
            except (RagMetricsError, OSError) as error:
                lines.append(f"{name}: not written: {redact(str(error))}")
                session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print where the reports are."""
    if _LINES in config.stash:
        terminalreporter.section("ragmetrics")
        for line in config.stash[_LINES] or ["no row was scored, so no report was written"]:
            terminalreporter.write_line(line)


def _written(report: Report, folder: Path, name: str) -> Path:
    """Write page and rows to ``folder``, or to its subfolder for the evaluation ``name``; returns the page's path."""
    folder /= "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "ragmetrics_report.html"
    page.write_text(report.to_html(), encoding="utf-8")
    report.table.to_json(folder / "rag_rows.json", orient="records", force_ascii=False, indent=1)
    return page
