"""The built sdist and wheel are complete, valid and no larger than necessary."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build")
pytest.importorskip("hatchling")

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "mlflow_ragmetrics"
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def mlflow_store() -> None:
    """These tests log nothing."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    arguments = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def sdist(built: Path) -> set[str]:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    ours = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == ours


def test_the_sdist_holds_the_tests_and_what_they_read(sdist: set[str]) -> None:
    assert {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "tests/conftest.py"} <= sdist
    assert {"tests/plugin_package/pyproject.toml", "docs/conf.py", "docs/data/benchmarks.json", ".ci/run"} <= sdist
    assert {"examples/data/ragtruth_gpt-4.jsonl", "docker/compose.yaml"} <= sdist
    assert not [name for name in sdist if "__pycache__" in name or name.endswith((".db", ".sqlite"))]


def test_twine_finds_nothing(built: Path) -> None:
    pytest.importorskip("twine")
    arguments = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
