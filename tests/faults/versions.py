"""Runs the tests with each supported Python, and with the oldest and the newest of what the package depends on.

``python tests/faults/versions.py 3.10:lowest-direct 3.13:highest`` makes an environment for each (with uv), installs
the package, runs the tests, and prints one line each; without arguments, oldest and newest of what is on this machine.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
RESOLUTIONS = ("highest", "lowest-direct")
_SHOWN = ("mlflow", "langchain-core", "pandas", "numpy", "pydantic", "pyarrow")


def main(arguments: list[str] | None = None) -> int:
    """0 where every environment could be made and its tests passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("combinations", nargs="*", help=f"Python:resolution, such as 3.10:{RESOLUTIONS[1]}")
    parser.add_argument("--folder", type=Path, default=ROOT / ".versions", help="where the environments are made")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="what pytest runs")
    given = parser.parse_args(arguments)
    asked = [each.split(":") for each in given.combinations] or list(available())
    results = {(version, resolution): tested(version, resolution, given) for version, resolution in asked}
    for (version, resolution), said in results.items():
        print(f"Python {version}, {resolution}: {said}")
    return 0 if all(said.startswith("passed") for said in results.values()) else 1


def available() -> list[tuple[str, str]]:
    """The oldest Python with the oldest and the newest versions, and every other with the newest."""
    found = [version for version in PYTHONS if interpreter(version)]
    return [(found[0], "lowest-direct"), *((version, "highest") for version in found)] if found else []


def interpreter(version: str) -> str | None:
    """The path of a Python of this version: pyenv's, else one on the PATH."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(kept[-1]) if kept else shutil.which(f"python{version}")


def tested(version: str, resolution: str, given: argparse.Namespace) -> str:
    """What came of one environment, beginning with "passed" or "failed", with the versions it holds."""
    environment = given.folder / f"{version}-{resolution}"
    python = str(environment / "bin" / "python")
    found = interpreter(version)
    if found is None:
        return "failed: there is no such Python here"
    made = not Path(python).exists()
    if made and subprocess.run(["uv", "venv", "--quiet", "--python", found, environment]).returncode:
        return "failed: no environment"
    install = ["uv", "pip", "install", "--quiet", "--python", python, "--resolution", resolution, "-e", ".[test]"]
    if subprocess.run(install, cwd=ROOT).returncode:
        return "failed: it cannot be installed"
    run = subprocess.run([python, "-m", "pytest", "-q", "-x", "--no-header", *given.tests], cwd=ROOT, text=True)
    return f"{'failed' if run.returncode else 'passed'} with {_versions(python)}"


def _versions(python: str) -> str:
    code = f"from importlib.metadata import version\nprint(*(n + ' ' + version(n) for n in {_SHOWN!r}), sep=', ')"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
