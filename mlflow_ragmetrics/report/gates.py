"""Gates for CI: checks that an evaluation or a comparison must pass, each with its reason in one line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.score import passes
from mlflow_ragmetrics.errors import InvalidOptionError, RagMetricsError

__all__ = [
    "Check",
    "GateError",
    "check_comparison",
    "check_figures",
    "check_names",
    "raise_failures",
    "to_json",
    "to_junit",
]

_FIGURES = (
    *("mean", "ci_low", "ci_high", "pass_rate", "coverage", "n_scored"),
    *("true_mean", "true_low", "true_high", "anytime_low", "anytime_high"),
)
_VERDICTS = ("improved", "regressed", "unchanged", "too few rows to tell")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class GateError(RagMetricsError, AssertionError):
    """A check failed; pytest shows the reasons as those of a failed assertion."""

    def __init__(self, checks: Sequence[Check]) -> None:
        super().__init__("; ".join(check.reason for check in checks))
        self.checks = tuple(checks)


@dataclass(frozen=True)
class Check:
    """One gate: its name, whether it passed, and the line that says why."""

    name: str
    passed: bool
    reason: str


class Outcome(Protocol):
    """One metric of a comparison."""

    @property
    def key(self) -> str:
        """The metric's key."""

    @property
    def verdict(self) -> str:
        """Improved, regressed, unchanged or too few rows to tell."""

    @property
    def sentence(self) -> str:
        """Metric, verdict and figures in one line."""


def check_names(
    keys: Sequence[str], fail_under: Mapping[str, float] | None = None, fail_on_error_rate: float | None = None
) -> None:
    """``InvalidOptionError`` for limits that do not fit a report with these ``keys``."""
    for name, least in (fail_under or {}).items():
        _figure(keys, name)
        if not (isinstance(least, (int, float)) and -math.inf < least < math.inf):
            raise InvalidOptionError(f"fail_under {name}={shown(least)}: it must be a number", param="fail_under")
    if fail_on_error_rate is not None and not 0 <= fail_on_error_rate <= 1:
        message = f"fail_on_error_rate={fail_on_error_rate!r} must be between 0 and 1"
        raise InvalidOptionError(message, param="fail_on_error_rate")


def check_figures(
    figures: Mapping[str, float],
    fail_under: Mapping[str, float] | None = None,
    fail_on_error_rate: float | None = None,
) -> list[Check]:
    """One check for each limit of ``fail_under`` (``key`` for its mean, or ``key/figure``), and each metric's errors.

    ``figures`` are a report's ``metrics``. A figure that could not be computed fails. A metric's error rate is
    the share of its rows that failed, and must not exceed ``fail_on_error_rate``. ``InvalidOptionError`` for an unknown
    metric or figure.
    """
    keys = [name.removesuffix("/n_scored") for name in figures if name.endswith("/n_scored")]
    check_names(keys, fail_under, fail_on_error_rate)
    checks = [_at_least(figures, _figure(keys, name), least) for name, least in (fail_under or {}).items()]
    if fail_on_error_rate is not None:
        checks += [_error_rate(figures, key, fail_on_error_rate) for key in keys]
    return checks


def check_comparison(outcomes: Iterable[Outcome], fail_on: Iterable[str], name: str = "") -> list[Check]:
    """One check per metric: its verdict is none of ``fail_on``. ``name`` says which comparison it is.

    ``InvalidOptionError`` for an unknown verdict; ``"too few"`` is short for "too few rows to tell".
    """
    wanted = {_verdict(each) for each in fail_on}
    prefix = f"{name}: " if name else ""
    return [Check(f"{prefix}{each.key}", each.verdict not in wanted, f"{prefix}{each.sentence}") for each in outcomes]


def raise_failures(checks: Sequence[Check]) -> None:
    """``GateError`` with all reasons when a check failed."""
    failed = [check for check in checks if not check.passed]
    if failed:
        raise GateError(failed)


def to_json(checks: Sequence[Check]) -> str:
    """``{"passed": …, "checks": [{"name", "passed", "reason"}]}``."""
    content = {"passed": all(check.passed for check in checks), "checks": [asdict(check) for check in checks]}
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def to_junit(checks: Sequence[Check], suite: str = "ragmetrics") -> str:
    """JUnit XML with one test case per check, as CI servers read it."""
    failures = sum(not check.passed for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failures), "errors": "0", "skipped": "0"}
    root = Element("testsuites", counts)
    cases = SubElement(root, "testsuite", {"name": _xml_text(suite), **counts})
    for check in checks:
        case = SubElement(cases, "testcase", {"classname": _xml_text(suite), "name": _xml_text(check.name)})
        if not check.passed:
            SubElement(case, "failure", {"message": _xml_text(check.reason)})
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, "unicode")}\n'


def _figure(keys: Sequence[str], name: str) -> str:
    key, _, figure = name.partition("/")
    figure = figure or "mean"
    if key not in keys:
        message = f"fail_under {name}: {key!r} is not a metric here; there are {', '.join(keys) or 'none'}"
        raise InvalidOptionError(message, param="fail_under")
    if figure not in _FIGURES:
        message = f"fail_under {name}: {figure!r} is not a figure; there are {', '.join(_FIGURES)}"
        raise InvalidOptionError(message, param="fail_under")
    return f"{key}/{figure}"


def _at_least(figures: Mapping[str, float], name: str, least: float) -> Check:
    value = figures.get(name)
    if value is None:
        return Check(name, False, f"{name} could not be computed and must be at least {least:g}")
    reached = passes(value, least)
    mark = " (few groups)" if f"{name.partition('/')[0]}/few_groups" in figures else ""
    outcome = "reaches" if reached else "must be at least"
    return Check(name, reached, f"{name} is {value:.4f}{mark} and {outcome} {least:g}")


def _error_rate(figures: Mapping[str, float], key: str, most: float) -> Check:
    failed = figures.get(f"{key}/n_error", 0.0)
    rows = failed + figures[f"{key}/n_scored"] + figures.get(f"{key}/n_skipped", 0.0)
    rate = failed / rows if rows else 0.0
    reason = f"{key}: {failed:.0f} of {rows:.0f} rows failed ({rate:.1%}); at most {most:.1%} may"
    return Check(f"{key}/error_rate", rate <= most + 1e-9, reason)


def _verdict(name: str) -> str:
    if name in ("too few", "too-few"):
        return "too few rows to tell"
    if name in _VERDICTS:
        return name
    raise InvalidOptionError(f"fail_on={name!r} is not one of {', '.join(_VERDICTS)}", param="fail_on")


def _xml_text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
