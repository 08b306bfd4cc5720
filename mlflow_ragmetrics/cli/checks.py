"""What ``ragmetrics doctor`` looks at in the installation, and a call to a judge."""

from __future__ import annotations

import platform
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING, Literal

from mlflow_ragmetrics import __version__
from mlflow_ragmetrics.errors import JudgeError, RagMetricsError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["Check", "check_extras", "check_judge", "check_versions"]

_EXTRA = re.compile(r"extra == ['\"](?P<name>[\w-]+)['\"]")
_DEVELOPMENT = ("test", "lint", "dev", "docs")


@dataclass(frozen=True)
class Check:
    """One finding: fine, worth knowing, or wrong."""

    level: Literal["ok", "note", "fault"]
    subject: str
    finding: str


def check_versions() -> Iterator[Check]:
    """The versions of Python, of this package and of what it stands on; whether each lies in the accepted range."""
    yield Check("ok", "python", f"{platform.python_version()} on {platform.system()}")
    yield Check("ok", "mlflow_ragmetrics", __version__)
    for extra, requirement in _requirements():
        if extra is not None:
            continue
        found = _version(requirement.name)
        if found is None:
            yield Check("fault", requirement.name, f"is not installed; pip install '{requirement}'")
        elif not requirement.specifier.contains(found, prereleases=True):
            yield Check("fault", requirement.name, f"{found} is outside {requirement.specifier}")
        else:
            yield Check("ok", requirement.name, found)


def check_extras() -> Iterator[Check]:
    """For each extra whether all of its packages are there."""
    extras: dict[str, list[str]] = defaultdict(list)
    for extra, requirement in _requirements():
        if extra is not None and extra not in _DEVELOPMENT:
            extras[extra].append(requirement.name)
    for name, packages in extras.items():
        missing = [package for package in packages if _version(package) is None]
        if missing:
            how = f"pip install 'mlflow_ragmetrics[{name}]'"
            yield Check("note", f"extra {name}", f"not installed ({', '.join(missing)}); {how} where you need it")
        else:
            yield Check("ok", f"extra {name}", "installed")


def check_judge(judge: str) -> Check:
    """Ask one short question and see whether a usable answer comes back."""
    from mlflow_ragmetrics.core.question import Claims
    from mlflow_ragmetrics.judges.resolve import judges_of

    try:
        (asked,) = judges_of(judge)
        (outcome,) = asked.answer([Claims("Paris is the capital of France.")])
    except RagMetricsError as error:
        return Check("fault", f"judge {judge}", str(error))
    if isinstance(outcome, JudgeError):
        return Check("fault", f"judge {judge}", str(outcome))
    return Check("ok", f"judge {judge}", "answers")


def _requirements() -> Iterator[tuple[str | None, Requirement]]:
    """What the installed package asks for, each with the extra that it belongs to."""
    from packaging.requirements import Requirement

    for line in requires("mlflow_ragmetrics") or ():
        requirement = Requirement(line)
        match = _EXTRA.search(str(requirement.marker or ""))
        yield (match["name"] if match else None), requirement


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
