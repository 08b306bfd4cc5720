"""Mutation testing: changes one token of the package at a time, and counts the changes that a test notices.

Install the tool with ``pip install -e ".[test,mutation]"``, then run ``python tests/mutation.py --sample 200``. The
table ``[tool.cosmic-ray]`` in pyproject.toml names the modules and the operators. A change counts as noticed when a
test of its room fails: the tests of its own file run first, then the other tests of the room, the golden cases and
those of the public reports.
A change that no test notices is printed as a diff. The script ends with 1 if fewer than `--least` are noticed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import importlib.util
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
import toml
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.modules import find_modules
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
CONFIG = toml.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cosmic-ray"]
PRINTED = Path("pytest.log")  # in a worker's own copy
# The tests of the modules that lie in no room, which all tests use.
ROOT_TESTS = ["tests/results", "tests/test_report.py", "tests/test_suite.py", "tests/test_every_row.py"]
ROOT_TESTS += ["tests/cli/test_streaming.py"]
ANY_ROOM = ["tests/test_golden.py", "tests/reports"]
Span = tuple[tuple[int, int], tuple[int, int]]
# In a forked process, it would wait for an import that a thread of the parent began.
AUTOLOGGING = "tests/tracking/test_writer.py::test_autologging_neither_changes_the_run_nor_is_changed"
# These say nothing about a figure: how strictly a class or a `zip` is built, where a warning points, and how much is
# remembered.
_FLAGS = {"frozen", "slots", "strict", "stacklevel", "maxsize"}


def main() -> int:
    """Test a sample of the changes; 1 if too few are noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=100, help="how many changes are tested [default: 100]")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9), help="[default: drawn]")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be noticed [default: 0.9]")
    parser.add_argument("--workers", type=int, default=1, help="how many changes are tested at once [default: 1]")
    options = parser.parse_args()
    os.chdir(ROOT)
    possible = list(changes())
    drawn = random.Random(options.seed).sample(possible, min(options.sample, len(possible)))
    print(f"{len(drawn)} of {len(possible)} changes, --seed {options.seed}", flush=True)
    outcomes = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(options.workers, initializer=prepare, initargs=(folder,)) as pool,
    ):
        list(pool.map(check, sorted({*ANY_ROOM, *(path for change in drawn for path in change.tests)})))
        for change, (diff, was_noticed) in zip(drawn, pool.map(noticed, drawn), strict=True):
            outcomes.append((change.room, was_noticed))
            outcome = "noticed" if was_noticed else f"NO TEST NOTICES\n{diff}"
            print(f"{len(outcomes)} {change.module} {change.operator} {outcome}", flush=True)
    return summary(outcomes, options.least)


class Change(NamedTuple):
    """One change of one token: which operator of the tool makes it, and at which of its places in the module."""

    module: Path
    operator: str
    occurrence: int

    @property
    def room(self) -> str:
        """The folder of the module, and of its tests."""
        return str(self.module.parent.relative_to("mlflow_ragmetrics"))

    @property
    def tests(self) -> list[str]:
        """The paths of the tests of its room."""
        return ROOT_TESTS if self.room == "." else [f"tests/{self.room}"]


def changes() -> Iterator[Change]:
    """The changes that the tool makes in the modules, in a fixed order, without those that cannot change a figure."""
    excluded = re.compile("|".join(CONFIG["exclude-operators"]))
    operators = {name: get_operator(name)() for name in operator_names() if not excluded.fullmatch(name)}
    for module in sorted(find_modules(map(Path, CONFIG["module-path"]))):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        still = [span(node) for node in neutral(tree)]
        arithmetic = [span(node) for node in ast.walk(tree) if isinstance(node, ast.BinOp)]
        nodes = list(ast_nodes(get_ast_from_path(module)))
        for name, operator in operators.items():
            places = (place for node in nodes for place in operator.mutation_positions(node))
            for occurrence, place in enumerate(places):
                # The tool also takes the `*` of a signature and the `**` of a dictionary for operators.
                real = "BinaryOperator" not in name or lies_in(place, arithmetic)
                if real and not lies_in(place, still):
                    yield Change(module, name, occurrence)


def neutral(tree: ast.Module) -> Iterator[ast.AST]:
    """The parts of a module whose tokens cannot change a figure: annotations, and what only type checkers read.

    So are floats too large to become another number if 1 is added, and dotted names of exceptions, which the tool
    cannot replace.
    """
    for node in ast.walk(tree):
        if isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation:
            yield node.annotation
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from [node.returns] if node.returns else []
            is_overload = any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)
            yield from filter(None, node.args.kw_defaults if is_overload else [])
        elif isinstance(node, ast.ExceptHandler) and node.type:
            yield from (each for each in ast.walk(node.type) if isinstance(each, ast.Attribute))
        elif (
            (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
            or (isinstance(node, ast.keyword) and node.arg in _FLAGS)
            or (isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value + 1 == node.value)
        ):
            yield node


def span(node: ast.AST) -> Span:
    """Where a node begins and ends: line and column."""
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def lies_in(place: Span, spans: list[Span]) -> bool:
    """Whether a token lies in one of these spans."""
    return any(start <= place[0] and place[1] <= end for start, end in spans)


def prepare(folder: str) -> None:
    """Give this worker a copy of the project, and import there what most tests need."""
    copy = Path(folder) / str(os.getpid())
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "mlruns", "mlflow.db"))
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy)
    sys.path.insert(0, str(copy))
    for name in (
        "matplotlib.pyplot",
        "mlflow.genai",
        "langchain_core.language_models",
        "scipy.stats",
        "sklearn.metrics",
    ):
        importlib.import_module(name)


def passes(*paths: str) -> bool:
    """Whether the tests pass, in a process of their own; false too if they take too long."""
    arguments = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-o", "timeout=60"]
    arguments += ["--deselect", AUTOLOGGING, *paths]
    process = multiprocessing.get_context("fork").Process(target=run_pytest, args=(arguments,))
    process.start()
    process.join(CONFIG["timeout"])
    if process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode == 0


def run_pytest(arguments: list[str]) -> None:
    """Run the tests, write what they print to a file, and end with their exit code."""
    os.setsid()
    printed = os.open(PRINTED, os.O_CREAT | os.O_TRUNC | os.O_RDWR)
    for stream in range(3):
        os.dup2(printed, stream)
    os._exit(pytest.main(arguments))


def noticed(change: Change) -> tuple[str, bool]:
    """The change as a diff, and whether a test fails with it."""
    module = change.module
    own = Path("tests", change.room, f"test_{module.name}")
    compiled = Path(importlib.util.cache_from_source(str(module)))
    with use_mutation(module, get_operator(change.operator)(), change.occurrence) as (before, after):
        compiled.unlink(missing_ok=True)  # Python compares the second and the size only
        passed = not own.exists() or passes(str(module), str(own))
        passed = passed and passes(str(module), *change.tests, *ANY_ROOM, f"--ignore={own}")
    compiled.unlink(missing_ok=True)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(module), n=1, lineterm="")
    return "\n".join(lines), not passed


def check(tests: str) -> None:
    """Stop if tests fail without any change: they can say nothing about one."""
    if not passes(tests):
        raise SystemExit(f"{tests} fails without a change:\n{PRINTED.read_text(encoding='utf-8')[-5000:]}")


def summary(outcomes: list[tuple[str, bool]], least: float) -> int:
    """Print the share of the changes that were noticed, a room and in all; 1 if it is too low."""
    print()
    for of_room in [*sorted({name for name, _ in outcomes}), "all"]:
        seen = [was_noticed for name, was_noticed in outcomes if of_room in (name, "all")]
        print(f"{of_room:<16} {sum(seen):>4} of {len(seen):>4}  {sum(seen) / len(seen):.1%}")
    print(f"at least {least:.0%} expected")
    return 0 if sum(seen) / len(seen) >= least else 1


if __name__ == "__main__":
    sys.exit(main())
