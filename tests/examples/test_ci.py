"""The CI examples are valid files, and their steps run unchanged."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
import yaml

CI = Path(__file__).parents[2] / "examples" / "ci"
GITHUB: dict[str, Any] = yaml.safe_load((CI / "github-actions.yml").read_text(encoding="utf-8"))
GITLAB: dict[str, Any] = yaml.safe_load((CI / "gitlab-ci.yml").read_text(encoding="utf-8"))


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW_", "OPENAI_"))}
    environment = {**kept, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(CI.parents[1])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )


@pytest.mark.skipif(importlib.util.find_spec("check_jsonschema") is None, reason="check-jsonschema is not installed")
@pytest.mark.parametrize(("name", "schema"), [("github-actions", "github-workflows"), ("gitlab-ci", "gitlab-ci")])
def test_the_files_are_valid(name: str, schema: str) -> None:
    done = _run(CI, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", f"{name}.yml")
    assert done.returncode == 0, done.stdout


def commands() -> dict[str, str]:
    """The step of either file that compares."""
    found = [step["run"] for step in GITHUB["jobs"]["compare"]["steps"] if "ragmetrics compare" in step.get("run", "")]
    found += [step for step in GITLAB["rag-evaluation"]["script"] if "ragmetrics compare" in step]
    return dict(zip(("github", "gitlab"), found, strict=True))


def test_pull_requests_get_no_rights_to_write() -> None:
    assert GITHUB["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in GITHUB[True]  # YAML parses `on` as true


@pytest.mark.slow
def test_a_worse_chain_fails_the_step_and_the_summary_says_why(tmp_path: Path) -> None:
    assert _run(tmp_path, str(CI / "evaluate.py"), "base.parquet", "").returncode == 0
    rows = pd.read_parquet(tmp_path / "base.parquet")
    rows["faithfulness"] = (rows["faithfulness"] - 0.6).clip(lower=0)
    rows.to_parquet(tmp_path / "change.parquet")
    for command in commands().values():
        words, _, target = command.rpartition(">")
        done = _run(
            tmp_path, "-c", "from mlflow_ragmetrics.cli import main; main()", *shlex.split(words.strip("> \n"))[1:]
        )
        assert done.returncode == 1, done.stderr
        assert re.search(r"\| faithfulness \|.*🔴 regressed", done.stdout)
        assert re.match(r"## change \(B\) against base \(A\)", done.stdout)
        assert "Gate failed" in done.stderr
        suites = ElementTree.fromstring((tmp_path / "comparison.xml").read_text(encoding="utf-8"))
        assert [suite.get("tests") for suite in suites] == ["7"]
        assert suites.find(".//testcase/failure") is not None
        assert target.strip() in ('"$GITHUB_STEP_SUMMARY"', "comparison.md")


@pytest.mark.slow
def test_the_example_tests_fail_on_the_two_rows_without_an_answer(tmp_path: Path) -> None:
    from tests.adapters.test_pytest_plugin import PLUGIN

    done = _run(
        tmp_path,
        "-m",
        "pytest",
        *PLUGIN,
        "-p",
        "no:cacheprovider",
        "-n0",
        f"--rootdir={CI}",
        str(CI / "test_answers.py"),
    )
    assert "2 failed, 15 passed, 1 skipped" in done.stdout, done.stdout
    assert "I don't know." in done.stdout
