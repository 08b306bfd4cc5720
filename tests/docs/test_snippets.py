"""The code on each page runs as a reader would run it: in an empty store, without a key or a network."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.snippets import agrees, blocks, difference, missing, run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if any(block.is_run for block in blocks(path.read_text(encoding="utf-8")))
)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(
    page: str, tmp_path: Path, mlflow_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    lacking = missing(text)
    if lacking:
        pytest.skip(f"{', '.join(lacking)} is not installed")
    if "genai.evaluate" in text:
        pytest.importorskip("mlflow.genai.evaluation.harness", reason="this MLflow cannot evaluate outside Databricks")
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "examples" / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    done = 0
    for block, printed in run(text, page):
        done += 1
        if block.output is not None:
            assert agrees(block.output, printed), difference(block.output, printed)
    assert done == sum(block.is_run for block in blocks(text))
