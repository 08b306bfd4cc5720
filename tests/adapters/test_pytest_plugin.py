"""The rows of a data set as tests, in real pytest runs: explained failures, xdist, reports, tests without a key."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points

import mlflow
import pytest

import mlflow_ragmetrics as rm

pytest_plugins = ["pytester"]
MODULE = "mlflow_ragmetrics.adapters.pytest_plugin"
PLUGIN = () if entry_points(group="pytest11", name="ragmetrics") else ("-p", MODULE)

ROWS = [
    {
        "id": "tower",
        "question": "How high is the tower?",
        "answer": "The tower is 330 metres high. It was built in 1925.",
        "contexts": ["The tower is 330 metres high.", "It was built in 1889 by engineers."],
    },
    {"id": "river", "question": "How long?", "answer": "It is 777 km long.", "contexts": ["It is 777 km long."]},
    {"id": "nowhere", "question": "Where?", "answer": "There.", "contexts": []},
]
TESTS = """
import pytest
import mlflow_ragmetrics as rm

pytestmark = pytest.mark.ragmetrics("answers.jsonl", suite=["faithfulness"])

def test_grounded(rag_row):
    rm.assert_score("faithfulness >= 0.8", rag_row)
"""


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """pytester forgets the modules that are first imported in a test, and those that stay hold parts of them."""
    row = {"question": "Is it?", "answer": "Yes.", "contexts": ["Yes."]}
    rm.assert_score("faithfulness >= 0", row)
    rm.evaluate([row], ["faithfulness"]).to_html()


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, mlflow_store: str) -> pytest.Pytester:
    """A folder with three answers and a test for each."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "")
    pytester.makefile(".jsonl", answers="\n".join(map(json.dumps, ROWS)))
    pytester.makepyfile(test_answers=TESTS)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", *arguments)


def test_each_row_is_a_test_and_fails_with_claim_passage_and_reason(project: pytest.Pytester) -> None:
    result = run(project, "-v")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*test_grounded?tower? FAILED*", "*test_grounded?river? PASSED*"])
    result.stdout.fnmatch_lines(
        [
            "E *faithfulness is 0.500 and must be >= 0.8 (sample tower, judge lexical)",
            "E *answer: The tower is 330 metres high. It was built in 1925.",
            "E *not in the passages: “It was built in 1925.”",
            "E *why: Lexical: *1925*",
            "E *passage 2: “It was built in 1889 by engineers.”",
            "E *faithfulness was not measured and must be >= 0.8 (sample nowhere): no contexts (by rule 1)*",
        ]
    )
    result.stdout.no_fnmatch_line("*def raise_failures*")


@pytest.mark.slow
def test_a_worker_of_xdist_scores_the_rows_of_its_own_tests(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_answers="""
        import pytest
        import mlflow_ragmetrics as rm

        @rm.metric
        def counted(answer: str) -> float:
            with open("scored.txt", "a") as file:
                file.write("x")
            return 1.0

        @pytest.mark.ragmetrics("answers.jsonl", suite=[counted])
        def test_row(rag_row):
            rm.assert_score("counted > 0.5", rag_row)
        """
    )
    run(project, "-n", "2").assert_outcomes(passed=3)
    assert (project.path / "scored.txt").read_text() == "xxx"
    refused = run(project, "-n", "2", "--ragmetrics-report", "out")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*--ragmetrics-report needs the rows in one process: leave out -n*"])


def test_only_the_selected_rows_are_scored(project: pytest.Pytester) -> None:
    result = run(project, "-k", "tower", "--ragmetrics-report", "out")
    result.assert_outcomes(failed=1, deselected=2)
    assert [row["id"] for row in json.loads((project.path / "out" / "rag_rows.json").read_text())] == ["tower"]
    page = (project.path / "out" / "ragmetrics_report.html").read_text(encoding="utf-8")
    assert "2 of 3 rows were not among the selected tests" in page


def test_a_report_goes_into_an_mlflow_run(project: pytest.Pytester, mlflow_store: str) -> None:
    result = run(project, "--ragmetrics-report", "run")
    result.stdout.fnmatch_lines(["test_answers.py: MLflow run *"])
    (found,) = mlflow.search_runs(output_format="list")
    assert found.info.run_name == "pytest test_answers.py"
    assert "faithfulness/mean" in found.data.metrics


def test_a_report_that_cannot_be_written_fails_the_session(project: pytest.Pytester) -> None:
    (project.path / "taken").write_text("")
    project.makepyfile(
        test_answers=TESTS.replace(">= 0.8", ">= 0.0").replace('"answers', "'answers").replace('l"', "l'")
    )
    result = run(project, "-k", "river", "--ragmetrics-report", "taken/out")
    result.assert_outcomes(passed=1, deselected=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*not written: *"])


def test_the_judge_of_the_command_line_stands_in_where_a_test_names_none(project: pytest.Pytester) -> None:
    result = run(project, "-k", "tower", "--ragmetrics-judge", "nosuch:/model")
    result.assert_outcomes(errors=1, deselected=2)
    result.stdout.fnmatch_lines(["*the judge 'nosuch:/model'*"])


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("", "*needs the marker @pytest.mark.ragmetrics*"),
        ('pytestmark = pytest.mark.ragmetrics("gone.jsonl")', "*gone.jsonl does not exist*"),
    ],
)
def test_mistakes_are_one_sentence(project: pytest.Pytester, marker: str, said: str) -> None:
    project.makepyfile(test_answers=f"import pytest\n{marker}\ndef test_row(rag_row):\n    pass\n")
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_chain_is_asked_the_questions(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_answers="""
        import pytest
        import mlflow_ragmetrics as rm

        def chain(question):
            return {"answer": f"{question} Yes.", "contexts": [f"{question} Yes."]}

        @pytest.mark.ragmetrics([{"id": "one", "question": "Is it?"}], chain=chain)
        def test_chain(rag_row):
            assert rag_row.sample.answer == "Is it? Yes."
            assert [*rag_row.scores] == ["faithfulness", "answer_relevance", "context_relevance"]
            rm.assert_score("faithfulness >= 0.8", rag_row)
        """
    )
    run(project).assert_outcomes(passed=1)


def test_pytest_starts_without_the_package_heavy_parts() -> None:
    heavy = ("mlflow", "langchain_core", "pandas", "numpy", "pydantic", "scipy")
    code = f"import sys, {MODULE}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
