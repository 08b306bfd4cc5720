"""Runs the tests with each supported Python, and with the oldest and the newest of what the package depends on.

``python .ci/versions.py 3.10:lowest-direct 3.13:highest`` makes a new environment for each (with uv), installs the
package, runs the tests, and prints one line each. ``oldest`` and ``newest`` stand for what this machine has; without
arguments, every Python here gets the newest versions and the oldest of them the oldest versions too.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
LOWEST, HIGHEST = RESOLUTIONS = ("lowest-direct", "highest")
COMPILED: tuple[str, ...] = ("matplotlib", "numpy", "pandas", "psycopg2-binary", "pyarrow", "pydantic-core")
COMPILED += ("pytrec-eval-terrier", "pyyaml", "rapidfuzz", "scikit-learn", "scipy")
_SHOWN = ("mlflow", "langchain-core", "pandas", "numpy", "pydantic", "pyarrow")
_UV = (sys.executable, "-m", "uv", "--quiet", "--no-python-downloads")


def main(arguments: list[str] | None = None) -> int:
    """0 where every environment could be made and its tests passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("combinations", nargs="*", help=f"Python:resolution ({', '.join(RESOLUTIONS)}), oldest, newest")
    parser.add_argument("--folder", type=Path, help="where the environments are made and kept; without it they are not")
    parser.add_argument("--others", action="store_true", help="not this Python with the newest versions")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="what pytest runs")
    parser.add_argument("--without", nargs="+", default=[], help="what of these it does not run")
    parser.add_argument("--workers", default="2", help="how many tests at once")
    given = parser.parse_args(arguments)
    failures, chosen = 0, [*given.tests, *(f"--ignore={each}" for each in given.without)]
    with tempfile.TemporaryDirectory() as scratch:
        for version, resolution in combinations(given.combinations):
            if given.others and (version, resolution) == (_own_version(), HIGHEST):
                continue
            said = tested(version, resolution, given.folder or Path(scratch), chosen, given.workers)
            print(f"Python {version}, {resolution}: {said}", flush=True)
            failures += not said.startswith("passed")
    return 1 if failures else 0


def combinations(asked: list[str]) -> list[tuple[str, str]]:
    """The pairs of Python and resolution that are meant, without repetition."""
    here = [version for version in PYTHONS if interpreter(version)] or [_own_version()]
    short = {"oldest": f"{here[0]}:{LOWEST}", "newest": f"{here[-1]}:{HIGHEST}"}
    every = [short["oldest"], *(f"{version}:{HIGHEST}" for version in here)]
    pairs = [short.get(each, each).partition(":") for each in asked or every]
    return list(dict.fromkeys((version, resolution or HIGHEST) for version, _, resolution in pairs))


def interpreter(version: str) -> str | None:
    """The path of a Python of this version: the one that runs this, pyenv's, or one on the PATH that works."""
    if version == _own_version():
        return sys.executable
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin/python")
    for found in (*sorted(map(str, kept)), shutil.which(f"python{version}")):
        if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return found
    return None


def tested(version: str, resolution: str, folder: Path, tests: list[str], workers: str) -> str:
    """What came of one environment, beginning with "passed" or "failed", with the versions it holds."""
    found = interpreter(version)
    if found is None:
        return "failed: there is no such Python here"
    environment = folder / f"{version}-{resolution}"
    python = str(environment / "bin" / "python")
    if subprocess.run([*_UV, "venv", "--seed", "--clear", "--python", found, environment]).returncode:
        return "failed: no environment"
    if subprocess.run(install_command(python, resolution), cwd=ROOT).returncode:
        return "failed: it cannot be installed"
    start = time.monotonic()
    passed, last = _run_tests(python, environment, tests, workers)
    return f"{'passed' if passed else 'failed'} in {time.monotonic() - start:.0f} s with {_versions(python)}: {last}"


def install_command(python: str, resolution: str) -> list[str]:
    """How the package gets into an environment; what is written in C comes as wheels, the oldest that there are."""
    command = [*_UV, "pip", "install", "--python", python, "--resolution", resolution, "--editable", ".[test]"]
    return [*command, *(f"--only-binary={name}" for name in COMPILED)]


def _run_tests(python: str, environment: Path, tests: list[str], workers: str) -> tuple[bool, str]:
    """Whether they pass, those that failed at a second try alone, and pytest's last line of the first."""
    command = [python, "-m", "pytest", "-q", "--no-header", "--tb=short", "-o", f"cache_dir={environment}/cache"]
    surroundings = {**os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    first = [*command, "-n", workers, *tests]
    again = [*command, "-n", "0", "--last-failed", "--last-failed-no-failures=none"]
    log = environment / "tests.log"
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(first, cwd=ROOT, env=surroundings, stdout=out, stderr=subprocess.STDOUT).returncode
    said = log.read_text(encoding="utf-8", errors="replace")
    last = said.rstrip().rpartition("\n")[2].strip("= ")
    if done == 1:
        print(said, flush=True)
        done = subprocess.run([*again, *tests], cwd=ROOT, env=surroundings).returncode
        last = f"{last}, of which {'some failed again' if done else 'all passed at a second try'}"
    return done == 0, last


def _versions(python: str) -> str:
    code = f"from importlib.metadata import version\nprint(*(n + ' ' + version(n) for n in {_SHOWN!r}), sep=', ')"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


def _own_version() -> str:
    return ".".join(platform.python_version_tuple()[:2])


if __name__ == "__main__":
    sys.exit(main())
