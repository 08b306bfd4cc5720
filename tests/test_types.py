"""Type checking of a user's program, with mypy (strict)."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from mlflow_ragmetrics.judges.chat.judge_options import JudgeKeywords, JudgeOptions
from mlflow_ragmetrics.suite import Suite, SuiteKeywords

ROOT = Path(__file__).parents[1]

MISTAKES = """
import mlflow_ragmetrics as rm

rm.nosuch  # wrong
rm.faithfulness(no_context="flor")  # wrong
rm.faithfulness(no_contexts="floor")  # wrong
rm.rouge(rouge_type="rougeM")  # wrong
rm.rouge(preset="balanced")  # wrong
rm.ndcg(k="five")  # wrong
rm.faithfulness(threshold="high")  # wrong
rm.rag_score(weight={"faithfulness": 1})  # wrong
rm.Suite(["rouge"], concurrency="many")  # wrong
rm.Suite(["rouge"], weigths={"rouge1_f1": 1})  # wrong
rm.Suite(["rouge"], calls="compacted")  # wrong
rm.Suite.preset("lexical", jugde="lexical")  # wrong
rm.Suite.from_yaml("suite.yaml", max_call=3)  # wrong
rm.NLIJudge("folder", treshold=0.4)  # wrong
score: int = rm.score("rouge", {"answer": "a", "reference": "a"})  # wrong
rm.JudgeReplyErorr  # wrong
rm.Suite(["rouge"], calls="compact", max_cost=1, prices={"input": 0.15, "output": 0.6})
"""


def _mypy(folder: Path) -> dict[int, str]:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    flags = ["--strict", "--config-file=", "--cache-dir", str(folder / "cache"), "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *flags, "program.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return {
        int(line): text for line, text in re.findall(r"^program\.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    }


@pytest.mark.slow
def test_a_script_that_uses_all_doors_has_no_errors(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parent / "types" / "all_doors.py", tmp_path / "program.py")
    assert _mypy(tmp_path) == {}


@pytest.mark.slow
def test_exactly_the_mistakes_are_found(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(MISTAKES, encoding="utf-8")
    found = _mypy(tmp_path)
    lines = MISTAKES.splitlines()
    assert [lines[number - 1] for number in sorted(found)] == [line for line in lines if "# wrong" in line]


def test_the_keywords_of_judges_and_suites_are_their_options() -> None:
    assert JudgeKeywords.__annotations__.keys() == JudgeOptions.model_fields.keys()
    parameters = inspect.signature(Suite).parameters
    own = {name: each.annotation for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
    keywords = {name: each.__forward_arg__ for name, each in SuiteKeywords.__annotations__.items() if name in own}
    assert keywords == own
    assert SuiteKeywords.__annotations__.keys() == own.keys() | JudgeKeywords.__annotations__.keys()
    assert typing.get_type_hints(Suite.__init__)["concurrency"] is int
