from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.cli.output import OutputFile
from mlflow_ragmetrics.errors import GateError, InvalidOptionError
from mlflow_ragmetrics.results.results import results_of, stored
from mlflow_ragmetrics.rows.files import read_file

from .reports import noisy, report_of


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"judge": ["openai:/gpt-4o-mini"]}, "judge (lexical / openai:/gpt-4o-mini)"),
        ({"judge_versions": {"lexical": "2"}}, "judge or prompt version (lexical 1 / lexical 2)"),
        ({"metrics": ["faithfulness(no_context='skip')"]}, "suite (faithfulness / faithfulness(no_context='skip'))"),
        ({"thresholds": {"faithfulness": 0.7}}, "thresholds (faithfulness 0.6 / faithfulness 0.7)"),
    ],
)
def test_what_was_measured_otherwise_is_refused_and_can_be_allowed(changed: dict[str, Any], named: str) -> None:
    a, b = report_of(noisy(30)), report_of(noisy(30, seed=1), **changed)
    with pytest.raises(InvalidOptionError) as refusal:
        rm.compare(a, b)
    assert named in str(refusal.value)
    assert "allow_different=True" in str(refusal.value)
    assert refusal.value.param == "allow_different"
    assert any(named in warning for warning in rm.compare(a, b, allow_different=True).warnings)


def test_the_order_of_judges_and_metrics_does_not_matter() -> None:
    a = report_of(noisy(30), judge=["x", "y"], weights={"rag_score": {"a": 1, "b": 2}})
    b = report_of(noisy(30), judge=["y", "x"], weights={"rag_score": {"b": 2, "a": 1}})
    assert rm.compare(a, b).warnings == ()


def test_a_side_that_does_not_say_how_it_was_measured_is_a_warning() -> None:
    a = results_of(report_of(noisy(30)))
    silent = stored("silent", a.table, a.items)
    assert rm.compare(a, silent).warnings == ("silent: its suite is not recorded, so its options are unknown",)


def test_judges_that_nothing_identifies_are_not_taken_for_the_same() -> None:
    a = report_of(noisy(30), judge_versions={"mine": "", "lexical": "1"})
    (warning,) = rm.compare(a, a).warnings
    assert "were judged by mine without a known version or prompts" in warning


DATA = [
    {"id": str(n), "question": f"How tall is mast {n}?", "answer": f"Mast {n} is {40 + n % 3} m tall.",
     "contexts": [f"Mast {n} is 40 m tall."], "reference": f"The tower number {n} was sold for nine coins."}
    for n in range(80)
]  # fmt: skip
OWN = rm.composite("own", {"faithfulness": 1, "rouge1_f1": 1})
SUITE = rm.Suite.preset("white_paper", also=["rouge", OWN])
Change = Callable[[dict[str, Any]], dict[str, Any]]
CAUSES: dict[str, tuple[Change, str, list[str]]] = {
    "another question": (lambda row: {"question": f"{row['question']} Why?"}, "questions", ["faithfulness"]),
    "another reference": (lambda row: {"reference": "Else."}, "references", ["correctness", "rag_score", "own"]),
    "no reference": (lambda row: {"reference": None}, "references", ["correctness", "rag_score", "own"]),
    "a blank reference": (lambda row: {"reference": ""}, "references", ["correctness", "rag_score", "own"]),
    "no contexts": (lambda row: {"contexts": None}, "measured members of own", ["own"]),
    "a refusal": (lambda row: {"answer": "I don't know."}, "", []),
}
LEFT_OUT = list(CAUSES)[:-1]
FILE_DOORS = ("text", "markdown", "html", "json")
Doors = dict[str, str]


@cache
def side(cause: str = "", changed: int = 0) -> Any:
    """A report on ``DATA``, of which the first ``changed`` rows are changed."""
    change = CAUSES[cause][0] if cause else dict
    rows = [{**row, **change(row)} if n < changed else row for n, row in enumerate(DATA)]
    return SUITE.evaluate(rows, progress=False)


def doors(folder: Path, a: Any, b: Any) -> tuple[rm.Comparison, Doors, int]:
    """The comparison, what each door shows of it, and the exit code with a gate on regressions."""
    found = rm.compare(a, b)
    files = []
    for name, report in (("a", a), ("b", b)):
        files.append(str(folder / f"{name}.parquet"))
        with OutputFile(files[-1], SUITE) as output:
            for row in report.rows:
                output.add(row)
            output.finish(report)
    written = {name: folder / f"out.{name}" for name in ("html", "junit")}
    outputs = [f"--{name}={path}" for name, path in written.items()]
    compare = ["compare", *files, "--fail-on", "regressed"]
    run, as_json = (CliRunner().invoke(main, [*compare, *more]) for more in (outputs, ["--format", "json"]))
    shown = {name: path.read_text() for name, path in written.items()}
    shown |= {"text": run.output, "json": as_json.output, "markdown": found.to_markdown(["regressed"])}
    shown["notebook"] = found._repr_html_()
    shown["python"] = "; ".join([found.plain, *found.warnings, *(check.reason for check in found.checks())])
    tags = r"</?\w[^>]*>"
    plain = {name: re.sub(tags, " ", text) if name in ("html", "notebook") else text for name, text in shown.items()}
    plain = {name: " ".join(html.unescape(text).replace("\\", "").split()) for name, text in plain.items()}
    assert run.exit_code == as_json.exit_code
    return found, plain, run.exit_code


@pytest.mark.parametrize("cause", LEFT_OUT)
def test_pairs_that_are_not_alike_give_no_verdict_in_any_door(cause: str, tmp_path: Path) -> None:
    _, noun, keys = CAUSES[cause]
    found, shown, code = doors(tmp_path, side(cause, 40), side())
    for key in keys:
        assert (found[key].verdict, found[key].unlike, found[key].rows) == ("cannot be told", 40, 40)
        assert f"no verdict on {key}: 40 of 80 rows are not comparable" in shown["python"]
        for door in (*FILE_DOORS, "junit", "notebook"):
            assert f"no verdict on {key}: 40 of 80 rows are not comparable" in shown[door], door
    for door in (*FILE_DOORS, "notebook", "python"):
        assert f"40 rows of a and b have different {noun}".lower() in shown[door].lower(), door
    assert code == 1
    with pytest.raises(GateError, match="40 not comparable"):
        found.check()
    assert {record["metric"]: record["unlike"] for record in found.to_dict()["metrics"]}[keys[0]] == 40
    if keys[0] != "faithfulness" and cause != "no contexts":
        assert found.verdict["faithfulness"] == "unchanged"


@pytest.mark.parametrize("cause", LEFT_OUT)
def test_few_pairs_that_are_not_alike_are_named_and_left_out(cause: str, tmp_path: Path) -> None:
    _, noun, keys = CAUSES[cause]
    found, shown, code = doors(tmp_path, side(), side(cause, 4))
    assert code == 0
    for key in keys:
        assert (found[key].unlike, found[key].rows, found[key].difference) == (4, 76, 0)
        assert found[key].verdict == "unchanged"
    assert all(
        f"4 rows of a and b have different {noun} (0, 1, 2, 3)" in shown[door].lower() for door in ("text", "html")
    )
    allowed = rm.compare(side(), side(cause, 40), allow_different=True)
    assert all(each.unlike == 0 for each in allowed.differences)
    (warning,) = [each for each in allowed.warnings if f"40 rows of A and B have different {noun}" in each]
    assert "not compared" not in warning


@pytest.mark.parametrize(("cause", "unlike"), [("no contexts", {"own": 40}), ("a refusal", {"own": 0, "rag_score": 0})])
def test_a_composite_compares_rows_with_the_same_members(cause: str, unlike: dict[str, int]) -> None:
    for found in (rm.compare(side(), side(cause, 40)), rm.compare(side(cause, 40), side())):
        assert {key: found[key].unlike for key in unlike} == unlike


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv", "json"])
def test_files_know_their_suite(ending: str, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(json.dumps(row) for row in DATA))
    files = [str(tmp_path / f"{name}.{ending}") for name in "ab"]
    for path, metric in zip(files, ("rouge", "rouge(tokenizer='rouge_score')"), strict=True):
        made = CliRunner().invoke(main, ["evaluate", str(data), "-m", metric, "--no-log", "-o", path])
        assert made.exit_code == 0, made.output
    with pytest.raises(InvalidOptionError, match=r"suite \(rouge / rouge\(tokenizer='rouge_score'\)\)"):
        rm.compare(*files)
    assert CliRunner().invoke(main, ["compare", *files]).exit_code == 2
    assert len(list(read_file(data))) == len(DATA)
    if ending == "parquet":
        pd.read_parquet(files[1]).to_parquet(files[1])
    else:
        Path(files[1]).write_text(f"{Path(files[1]).read_text()}\n")  # changed since: the description is out of date
    found = rm.compare(*files)
    note, gate = "b: its suite is not recorded, so its options are unknown", "; the options of b are unknown"
    assert all(
        note in text for text in (str(found), found.to_html(), found.to_markdown(), *found.to_dict()["warnings"])
    )
    assert found.checks()[0].reason.endswith(gate)
    done = CliRunner().invoke(
        main, ["compare", *files, "--fail-on", "regressed", "--junit", str(tmp_path / "junit.xml")]
    )
    assert gate in " ".join(done.output.split())
    assert gate in (tmp_path / "junit.xml").read_text()
