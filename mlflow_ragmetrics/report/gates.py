"""Gates for CI: what an evaluation or a comparison must reach, checked into reasons of one line each."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol
from xml.sax.saxutils import quoteattr

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

_FIGURES = ("mean", "ci_low", "ci_high", "pass_rate", "coverage", "n_scored")
_OUTCOMES = ("improved", "regressed", "unchanged", "too few rows to tell")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class GateError(RagMetricsError, AssertionError):
    """``report.check`` found a gate that is not reached; pytest shows the reasons as those of a failed assertion."""

    def __init__(self, checks: Sequence[Check]) -> None:
        super().__init__("; ".join(check.reason for check in checks))
        self.checks = tuple(checks)


@dataclass(frozen=True)
class Check:
    """One gate: its name, whether it is reached, and the line that says why."""

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
    """``InvalidOptionError`` for limits that no report with these ``keys`` can be checked against."""
    for name, least in (fail_under or {}).items():
        _figure(keys, name)
        if not (isinstance(least, (int, float)) and -math.inf < least < math.inf):
            raise InvalidOptionError(f"fail_under {name}={shown(least)}: it must be a number", param="fail_under")
    if fail_on_error_rate is not None and not 0 <= fail_on_error_rate <= 1:
        message = f"fail_on_error_rate={fail_on_error_rate!r} must lie in 0 to 1"
        raise InvalidOptionError(message, param="fail_on_error_rate")


def check_figures(
    figures: Mapping[str, float],
    fail_under: Mapping[str, float] | None = None,
    fail_on_error_rate: float | None = None,
) -> list[Check]:
    """One check for each limit of ``fail_under`` (``key`` for its mean, or ``key/figure``), one a metric for errors.

    ``figures`` are a report's ``metrics``. A figure that could not be computed is not reached. A metric's error rate is
    the share of its rows that failed, and must not exceed ``fail_on_error_rate``. ``InvalidOptionError`` for a metric
    or a figure that there is not.
    """
    keys = [name.removesuffix("/n_scored") for name in figures if name.endswith("/n_scored")]
    check_names(keys, fail_under, fail_on_error_rate)
    checks = [_reached(figures, _figure(keys, name), least) for name, least in (fail_under or {}).items()]
    erring = [] if fail_on_error_rate is None else [_erring(figures, key, fail_on_error_rate) for key in keys]
    return [*checks, *erring]


def check_comparison(outcomes: Iterable[Outcome], fail_on: Iterable[str], name: str = "") -> list[Check]:
    """One check a metric: its verdict is none of ``fail_on``. ``name`` says which comparison it is.

    ``InvalidOptionError`` for an unknown verdict; ``"too few"`` is short for "too few rows to tell".
    """
    wanted = {_outcome(each) for each in fail_on}
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
    """JUnit XML with one test case a check, as CI servers read it."""
    failures = sum(not check.passed for check in checks)
    cases = "".join(_case(check, suite) for check in checks)
    counts = f'tests="{len(checks)}" failures="{failures}" errors="0" skipped="0"'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {counts}>\n'
        f" <testsuite name={_attribute(suite)} {counts}>\n{cases} </testsuite>\n</testsuites>\n"
    )


def _figure(keys: Sequence[str], name: str) -> str:
    key, _, figure = name.partition("/")
    figure = figure or "mean"
    if key not in keys:
        message = f"fail_under {name}: {key!r} is no metric here; there are {', '.join(keys) or 'none'}"
        raise InvalidOptionError(message, param="fail_under")
    if figure not in _FIGURES:
        message = f"fail_under {name}: {figure!r} is no figure; there are {', '.join(_FIGURES)}"
        raise InvalidOptionError(message, param="fail_under")
    return f"{key}/{figure}"


def _reached(figures: Mapping[str, float], name: str, least: float) -> Check:
    value = figures.get(name)
    if value is None:
        return Check(name, False, f"{name} could not be computed and must be at least {least:g}")
    reached = passes(value, least)
    return Check(name, reached, f"{name} is {value:.4f} and {'reaches' if reached else 'must be at least'} {least:g}")


def _erring(figures: Mapping[str, float], key: str, most: float) -> Check:
    failed = figures.get(f"{key}/n_error", 0.0)
    rows = failed + figures[f"{key}/n_scored"] + figures.get(f"{key}/n_skipped", 0.0)
    rate = failed / rows if rows else 0.0
    told = f"{key}: {failed:.0f} of {rows:.0f} rows failed ({rate:.1%})"
    return Check(f"{key}/error_rate", rate <= most + 1e-9, f"{told}; at most {most:.1%} may")


def _outcome(name: str) -> str:
    for outcome in _OUTCOMES:
        if name == outcome or (name in ("too few", "too-few") and outcome.startswith("too few")):
            return outcome
    raise InvalidOptionError(f"fail_on={name!r} is not one of {', '.join(_OUTCOMES)}", param="fail_on")


def _case(check: Check, suite: str) -> str:
    head = f"  <testcase classname={_attribute(suite)} name={_attribute(check.name)}"
    if check.passed:
        return f"{head}/>\n"
    return f"{head}>\n   <failure message={_attribute(check.reason)}/>\n  </testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(_FORBIDDEN.sub("\ufffd", text))
