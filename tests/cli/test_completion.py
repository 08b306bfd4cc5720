from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from mlflow_ragmetrics.cli import main


def offered(*words: str) -> list[tuple[str, str]]:
    *given, begun = words
    items = ShellComplete(main, {}, "ragmetrics", "_RAGMETRICS_COMPLETE").get_completions(list(given), begun)
    return [(item.value, item.type) for item in items]


def test_commands_and_options_are_offered():
    assert ("evaluate", "plain") in offered("ev")
    assert [name for name, _ in offered("evaluate", "--fail")] == ["--fail-under", "--fail-over"]


@pytest.mark.parametrize("words", [("evaluate", "-m", "fai"), ("explain", "fai"), ("calibrate", "run", "-k", "fai")])
def test_metrics_are_offered(words):
    assert offered(*words) == [("faithfulness", "plain")]


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "rows"),
        ("evaluate", "--suite", "rows"),
        ("evaluate", "-o", "rows"),
        ("compare", "rows"),
        ("calibrate", "rows"),
        ("init", "rows"),
    ],
)
def test_the_shell_completes_files(words):
    assert offered(*words) == [("rows", "file")]
