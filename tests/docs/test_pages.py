"""The committed pages: generated parts are up to date, every metric has a page, the references are complete."""

from __future__ import annotations

import inspect
import json
import pydoc
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from making import benchmark_tables, generated

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.core.metric import Metric, facts_of, options_of, paragraphs_of
from mlflow_ragmetrics.registry import builtin_metrics

DOCS = Path(__file__).parents[2] / "docs"
INDEX = (DOCS / "metrics" / "index.md").read_text(encoding="utf-8")
METRICS = builtin_metrics()


@pytest.fixture(scope="module")
def current() -> dict[Path, str]:
    return generated.current()


def test_the_generated_parts_are_up_to_date(current: dict[Path, str]) -> None:
    stale = [path.name for path, text in current.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run: python docs/making"
    assert len(current) > 25


def _page_of(name: str) -> str:
    """The page that the list of metrics links to, from the metric's own heading if it has one."""
    found = re.search(rf"\[`{re.sub('_k$', '_k', name)}(?:_10|\(.+?\))?`\]\((\w+\.md)(#\w+)?\)", INDEX)
    assert found is not None, name
    return (DOCS / "metrics" / found[1]).read_text(encoding="utf-8")


def _words(text: str) -> list[str]:
    """The words of a text without Markdown, tables and line breaks."""
    plain = re.sub(r"```\w*", " ", text.replace("\\", ""))
    return re.sub(r"[`*]", "", plain).replace("|", " ").replace(">>> ", " ").split()


def _said_of(name: str) -> tuple[list[str], list[str]]:
    """The docstring's paragraphs and example lines, and the facts and options of a metric."""
    found = METRICS[name]
    metric = found if isinstance(found, Metric) else None
    paragraphs, example = paragraphs_of(inspect.getdoc(metric.definition.function if metric else found) or "")
    facts = facts_of(metric.definition, metric.key, metric.threshold) if metric else {}
    options = [option for each in (options_of(metric.definition) if metric else {}).values() for option in each.items()]
    code = [line.partition(" ")[2] for line in example if line.startswith((">>> ", "... "))]
    return [*paragraphs, *code], [f"{name} {said}" for name, said in (*facts.items(), *options)]


@pytest.mark.parametrize("name", METRICS)
def test_explain_and_help_say_the_same(name: str) -> None:
    docstring, facts = _said_of(name)
    assert len(docstring) > 2
    explained = CliRunner(env={"COLUMNS": "100"}).invoke(main, ["explain", name]).output
    helped = pydoc.plain(pydoc.render_doc(getattr(rm, name)))
    for said, text in (([*docstring, *facts], explained), (docstring, helped)):
        words = " ".join(_words(text))
        assert [each for each in said if " ".join(_words(each)) not in words] == []


@pytest.mark.parametrize("name", METRICS)
def test_a_page_says_what_is_needed_to_choose(name: str) -> None:
    page = _page_of(name)
    wanted = ("## Example\n", "\n```text\n", "## How to read a low score\n", f"<!-- metric: {name} -->", "ptions")
    assert [each for each in wanted if each not in page] == []
    found = METRICS[name]
    if isinstance(found, Metric):
        own = list(options_of(found.definition).values())[:-1]
        assert [option for options in own for option in options if f"\n| `{option}` |" not in page] == []
    assert "ScriptedJudge" not in page


def test_the_committed_figures_are_all_on_a_page() -> None:
    pages = (DOCS / "benchmarks" / "index.md", DOCS / "explanation" / "scale.md")
    page = "\n".join(each.read_text(encoding="utf-8") for each in pages)
    assert {*benchmark_tables.TABLES, "cost"} == set(re.findall(r"^<!-- table: (\w+) -->$", page, re.MULTILINE))
    for name, found in benchmark_tables.TABLES.items():
        shown = benchmark_tables.shown(name).splitlines()
        assert len([line for line in shown if line.startswith("|")]) == 2 + len(found["rows"]), name
        assert found["command"] in shown[-1]
        assert found["date"] in shown[-1]


def test_every_code_of_an_error_or_warning_is_explained() -> None:
    package = Path(rm.__file__).parent
    explained = json.dumps(json.loads((DOCS / "data" / "codes.json").read_text(encoding="utf-8")))
    source = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    raised = set(re.findall(r"Error\([^()]*?(?:\([^()]*\)[^()]*?)*\bcode=\"(\w+)\"", source))
    warned = set(re.findall(r"\(\"([a-z_]+)\", say\(", source))
    assert {"budget", "timeout", "claims_missing"} <= raised | warned
    assert [code for code in sorted(raised | warned) if f'"{code}"' not in explained] == []
