"""pytest plugin: runs a test for each row of a data set, and writes a page, an MLflow run and JUnit.

pytest always loads this module, so heavy imports are delayed until a test needs them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from mlflow_ragmetrics.adapters.pytest_evaluation import Evaluations
    from mlflow_ragmetrics.engine.program import Row
    from mlflow_ragmetrics.report import Report

_FOLDER = "ragmetrics_folder"
_EVALUATIONS: pytest.StashKey[Evaluations] = pytest.StashKey()
_SHARED: pytest.StashKey[Path] = pytest.StashKey()
_FIXTURES = ("rag_row", "rag_report")
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
        help="write the page, the rows and JUnit of each evaluation to a folder or an MLflow run",
    )
    group.addoption("--ragmetrics-judge", metavar="JUDGE", help="judge of tests without one [default: lexical]")
    parser.addini("ragmetrics_judge", "judge of tests without one", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and, with ``--ragmetrics-report``, the writer of reports."""
    config.addinivalue_line("markers", f"ragmetrics(data, suite=..., chain=..., ...): rows to score; {_USAGE}")
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None and _FOLDER in worker:
        config.stash[_SHARED] = Path(worker[_FOLDER])
    elif worker is None and config.getoption("--ragmetrics-report"):
        from mlflow_ragmetrics.adapters.pytest_evaluation import ReportWriter

        writer = ReportWriter(config.getoption("--ragmetrics-report"), lambda: _evaluations(config))
        config.pluginmanager.register(writer, "ragmetrics-report")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the shared folder's path to a worker of pytest-xdist; the first worker to use the folder creates it."""
    stash = node.config.stash
    name = f"ragmetrics-{uuid4().hex}"
    node.workerinput[_FOLDER] = str(stash.setdefault(_SHARED, Path(tempfile.gettempdir()) / name))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the workers' shared folder."""
    if not hasattr(config, "workerinput") and _SHARED in config.stash:
        shutil.rmtree(config.stash[_SHARED], ignore_errors=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with ``rag_row`` once per row, with the row's id in the test's name."""
    if "rag_row" not in metafunc.fixturenames:
        return
    from mlflow_ragmetrics.errors import RagMetricsError
    from mlflow_ragmetrics.rows.record import shown_id

    try:
        samples = _evaluations(metafunc.config).request(metafunc.definition).samples
    except RagMetricsError as error:
        pytest.fail(f"{metafunc.definition.nodeid}: {error}", pytrace=False)
    names = [shown_id(sample, index) for index, sample in enumerate(samples)]
    metafunc.parametrize("rag_row", [sample.id for sample in samples], ids=names, indirect=True)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Select the rows that the selected tests need; only these are scored."""
    for item in session.items:
        wanted = [name for name in _FIXTURES if name in getattr(item, "fixturenames", ())]
        if wanted:
            request = _evaluations(session.config).request(item)
            request.select(item.callspec.params["rag_row"] if wanted == ["rag_row"] else None)  # type: ignore[attr-defined]


@pytest.fixture
def rag_row(request: pytest.FixtureRequest) -> Row:
    """One row of the evaluation in the test's ``ragmetrics`` marker, with its sample and scores.

    Check limits with ``rm.assert_score("faithfulness >= 0.8", rag_row)``. The rows of all selected tests are scored
    together when the first test needs one, and only once across all workers of pytest-xdist.
    """
    wanted = _evaluations(request.config).request(request.node)
    row = next(row for row in _scored(request).rows if row.sample.id == request.param)
    from mlflow_ragmetrics.adapters.pytest_evaluation import EVALUATION, ROW

    request.node.user_properties += [(EVALUATION, wanted.name), (ROW, row.sample.id)]
    request.node.user_properties += [
        (key, score.status if score.value is None else score.value) for key, score in row.scores.items()
    ]
    return row


@pytest.fixture
def rag_report(request: pytest.FixtureRequest) -> Report:
    """The report on all rows of the test's ``ragmetrics`` marker, for ``rag_report.check(…)``."""
    return _scored(request)


def _scored(request: pytest.FixtureRequest) -> Report:
    from mlflow_ragmetrics.errors import RagMetricsError

    try:
        evaluations = _evaluations(request.config)
        return evaluations.scored(evaluations.request(request.node))
    except RagMetricsError as error:
        pytest.fail(str(error), pytrace=False)


def _evaluations(config: pytest.Config) -> Evaluations:
    if _EVALUATIONS not in config.stash:
        from mlflow_ragmetrics.adapters.pytest_evaluation import Evaluations

        judge = config.getoption("--ragmetrics-judge") or config.getini("ragmetrics_judge") or None
        config.stash[_EVALUATIONS] = Evaluations(config.rootpath, judge, config.stash.get(_SHARED, None))
    return config.stash[_EVALUATIONS]
