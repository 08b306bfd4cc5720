"""Type checking of a user's program, with mypy (strict) and pyright."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import shutil
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path

import pytest

from mlflow_ragmetrics.judges.chat.judge_options import JudgeKeywords, JudgeOptions
from mlflow_ragmetrics.suite import Suite, SuiteKeywords

ROOT = Path(__file__).parents[1]
PYRIGHT = shutil.which("pyright")

PROGRAM = """
from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import assert_type

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import BudgetExceededError, GateError, MissingFieldError, NoConsensusError

suite = rm.Suite(
    [rm.faithfulness(no_context="floor"), "rouge", rm.rouge(rouge_type="rougeL", key="longest"), rm.ndcg(k=5)],
    judge=rm.LexicalJudge(),
    calls="compact",
    max_calls=20,
)
preset = rm.Suite.preset("white_paper", judge="openai:/gpt-4o-mini", timeout=20, weights={"faithfulness": 1})
report = suite.evaluate([{"question": "q", "answer": "a"}])
score: rm.Score = rm.score(rm.faithfulness, {"answer": "a", "contexts": ["a"]})
assert_type(report.metrics, dict[str, float])
assert_type(rm.NLIJudge("folder", threshold=0.6), rm.NLIJudge)
assert_type(rm.rag_score(weights={"faithfulness": 2}), rm.Composite)
assert_type(rm.content_safety(additional_blocklist=["word"], threshold=1).threshold, "float | None")
assert_type(rm.compare(report, report).verdict["faithfulness"] == "regressed", bool)


@rm.metric
def brevity(answer: str, *, limit: int = 20) -> float:
    return min(1.0, limit / max(1, len(answer.split())))


@rm.metric
def first_passage_suffices(answer: str, contexts: Sequence[str]) -> rm.Steps[rm.Score]:
    claims = yield from rm.ask(rm.Claims(answer))
    findings = yield from rm.ask(rm.Verify(tuple(claims), (contexts[0],)))
    return rm.Score(value=sum(each.verdict == "SUPPORTED" for each in findings) / len(claims))


assert_type(brevity, rm.Metric)
try:
    rm.score(first_passage_suffices(threshold=0.5), {"answer": "a"})
except MissingFieldError as error:
    assert_type(error.field, str)
except (BudgetExceededError, NoConsensusError, GateError) as other:
    assert_type(other.metric, "str | None")
"""
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

Check = Callable[[Path], dict[int, str]]


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


def _pyright(folder: Path) -> dict[int, str]:
    if PYRIGHT is None:
        pytest.skip("pyright is not installed")
    settings = {"include": ["program.py"], "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [PYRIGHT, "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1: each["message"] for each in found if each["severity"] == "error"}


CHECKERS = [pytest.param(_mypy, id="mypy"), pytest.param(_pyright, id="pyright")]


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKERS)
def test_a_correct_program_has_no_errors_and_the_types_are_known(check: Check, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert check(tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKERS)
def test_a_script_that_uses_all_doors_has_no_errors(check: Check, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parent / "types" / "all_doors.py", tmp_path / "program.py")
    assert check(tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKERS)
def test_exactly_the_mistakes_are_found(check: Check, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(MISTAKES, encoding="utf-8")
    found = check(tmp_path)
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
