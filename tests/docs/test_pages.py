"""The generated pages: one for each metric, which says what ``explain`` and ``help`` say, and whole references."""

from __future__ import annotations

import inspect
import json
import pydoc
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from making import benchmark_tables, metric_pages, python_reference, reference

import mlflow_ragmetrics as rm
from mlflow_ragmetrics import errors, spark
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.core.definition import facts_of, options_of, paragraphs_of
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.registry import all_metrics, builtin_metrics, metric_of

DOCS = Path(__file__).parents[2] / "docs"
INDEX = (DOCS / "metrics" / "index.md").read_text(encoding="utf-8")
METRICS = builtin_metrics()
TABLE = INDEX.partition("| you want to know")[2].partition("\n\n")[0]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return metric_pages.pages()


def _words(text: str) -> list[str]:
    """The words of a text, whatever the marks of Markdown, tables and wrapping between them."""
    plain = re.sub(r"```\w*", " ", text.replace("\\", ""))
    return re.sub(r"[`*]", "", plain).replace("|", " ").replace(">>> ", " ").split()


def test_every_metric_has_a_page(pages: dict[str, str]) -> None:
    assert set(pages) == {f"metrics/{name}" for name in METRICS}


def _said_of(name: str) -> list[str]:
    """What there is to say of a metric: the paragraphs of its docstring, the lines of its example, facts, options."""
    found = METRICS[name]
    metric = found if isinstance(found, Metric) else None
    paragraphs, example = paragraphs_of(inspect.getdoc(metric.definition.function if metric else found) or "")
    facts = facts_of(metric.definition, metric.key, metric.threshold) if metric else {}
    options = [option for each in (options_of(metric.definition) if metric else {}).values() for option in each.items()]
    code = [line.partition(" ")[2] for line in example if line.startswith((">>> ", "... "))]
    return [*paragraphs, *code, *(f"{name} {said}" for name, said in (*facts.items(), *options))]


@pytest.mark.parametrize("name", METRICS)
def test_explain_help_and_page_say_the_same(name: str, pages: dict[str, str]) -> None:
    shown = {
        "explain": CliRunner(env={"COLUMNS": "100"}).invoke(main, ["explain", name]).output,
        "help": pydoc.plain(pydoc.render_doc(getattr(rm, name))),
        "page": pages[f"metrics/{name}"],
    }
    said = _said_of(name)
    assert len(said) > 2
    for door, text in shown.items():
        words = " ".join(_words(text))
        assert [each for each in said if " ".join(_words(each)) not in words] == [], door


@pytest.mark.parametrize("name", METRICS)
def test_a_page_says_what_is_needed_to_choose(name: str, pages: dict[str, str]) -> None:
    page = pages[f"metrics/{name}"]
    wanted = ("Formula:", "Unscored:", "## What it costs", "## How well it agrees with people", "## Read on")
    assert [each for each in wanted if each not in page] == []
    if isinstance(METRICS[name], Metric):
        example = re.search(r"## Example\n\n```python\n(.+?)```\n\ngives\n\n```text\n(.+?)\n```", page, re.DOTALL)
        assert example is not None
        assert example[2].strip()


def test_the_table_of_metrics_leaves_none_out() -> None:
    own = {name for name, each in all_metrics().items() if each in METRICS.values()}
    assert [name for name in own if not re.search(rf"`{name}(?![a-z])", TABLE)] == []


def test_every_metric_of_the_table_exists() -> None:
    columns = [line.split("|")[2] for line in TABLE.splitlines() if line.startswith("|")][1:]
    spelled = re.findall(r"`([^`]+)`", " ".join(columns))
    assert len(spelled) >= 19
    for each in spelled:
        assert metric_of(each)


def test_every_figure_of_agreement_stands_in_the_committed_tables(pages: dict[str, str]) -> None:
    rows = {
        tuple(str(row.get(column, "")) for column in found["columns"])
        for found in benchmark_tables.TABLES.values()
        for row in found["rows"]
    }
    shown = {
        tuple(cell.strip() for cell in line.strip("| ").split(" | "))
        for page in pages.values()
        for line in page.partition("## How well it agrees")[2].partition("\n## ")[0].splitlines()
        if line.startswith("| ") and not line.startswith("| ---")
    } - {tuple(found["columns"]) for found in benchmark_tables.TABLES.values()}
    assert len(shown) > 8
    assert shown <= rows


def test_the_page_of_benchmarks_shows_the_committed_tables_and_nothing_else() -> None:
    pages = (DOCS / "benchmarks" / "index.md", DOCS / "explanation" / "scale.md")
    page = "\n".join(each.read_text(encoding="utf-8") for each in pages)
    named = set(re.findall(r"^<!-- table: (\w+) -->$", page, re.MULTILINE))
    assert {*benchmark_tables.TABLES, "cost", "speed"} == named
    assert not [line for line in page.splitlines() if line.startswith("|")]
    for name, found in benchmark_tables.TABLES.items():
        shown = benchmark_tables.shown(name).splitlines()
        assert len([line for line in shown if line.startswith("|")]) == 2 + len(found["rows"]), name
        assert found["command"] in shown[-1]
        assert found["date"] in shown[-1]


_OWN_FIGURES = re.compile(
    r"\d\.\d+ \[\d\.\d+, \d\.\d+\]|(?:AUROC|κ|kappa)[^|\n]{0,30}0\.\d"
    r"|\d[\d.,]* (?:×|times) (?:as |more )?(?:fast|slow|quick)"
)


def test_no_page_holds_a_measured_figure_of_its_own() -> None:
    """What reads like 0.79 [0.73, 0.85] or "3 times as fast" stands in a committed table or is printed by code."""
    for path in (*DOCS.rglob("*.md"), DOCS.parent / "README.md"):
        if (path.parent.name in ("metrics", "reference") and path.name not in ("index.md", "migrating.md")) or (
            path.name == "summary.md"
        ):
            continue  # generated
        text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert _OWN_FIGURES.findall(text) == [], path


def test_committed_figures_say_how_and_when_they_were_made() -> None:
    for name, found in benchmark_tables.TABLES.items():
        command = found["command"].split()
        assert command[0] == "python", name
        assert (DOCS.parent / command[1]).is_file(), f"{name}: {command[1]}"
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", found["date"])
        assert found["rows"]
        for row in found["rows"]:
            assert set(row) - {"metrics"} <= set(found["columns"])
            for metric in row.get("metrics", ()):
                assert metric in METRICS


def test_every_public_name_is_in_the_reference() -> None:
    text = "\n".join(python_reference.pages().values())
    names = [f"rm.{name}" for name in rm.__all__ if name != "__version__"]
    names += [f"{beside.__name__}.{name}" for beside in (errors, spark) for name in beside.__all__]
    names = [name for name in names if name.removeprefix("mlflow_ragmetrics.errors.") not in rm.__all__]
    assert [name for name in names if f"## {name}\n" not in text] == []


def test_every_command_and_option_is_in_the_reference() -> None:
    text = reference.pages()["reference/commands"]
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert f"## ragmetrics {name}\n" in text
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert max(parameter.opts, key=len) in text


def test_every_code_of_an_error_or_warning_is_explained() -> None:
    package = Path(rm.__file__).parent
    explained = json.dumps(json.loads((DOCS / "data" / "codes.json").read_text(encoding="utf-8")))
    source = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    raised = set(re.findall(r"Error\([^()]*?(?:\([^()]*\)[^()]*?)*\bcode=\"(\w+)\"", source))
    warned = set(re.findall(r"\(\"([a-z_]+)\", say\(", source))
    assert {"budget", "timeout", "quote_not_found"} <= raised | warned
    assert [code for code in sorted(raised | warned) if f'"{code}"' not in explained] == []
