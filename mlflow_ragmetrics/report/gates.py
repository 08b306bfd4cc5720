"""Gates for CI: checks that an evaluation or a comparison must pass, each with its reason in one line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, Union

from mlflow_ragmetrics.core.condition import check_limit
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.score import Better, passes
from mlflow_ragmetrics.errors import InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.text.messages import counted

__all__ = [
    "MIN_SCORED",
    "Check",
    "GateError",
    "MinScored",
    "check_comparison",
    "check_figures",
    "check_names",
    "raise_failures",
    "to_json",
]

MIN_SCORED = 0.95
MinScored = Union[float, Mapping[str, float]]
"""The share of all rows that must be measured, or one per key and under ``""`` for all others."""

_SESSIONS = ("session_pass_rate", "session_ci_low", "session_ci_high")
_FIGURES = (
    *("mean", "ci_low", "ci_high", "pass_rate", "coverage", "n_scored"),
    *_SESSIONS,
    *("true_mean", "true_low", "true_high", "anytime_low", "anytime_high"),
)
_PERCENTAGES = ("pct_records_with_at_least_one_ref", "pct_records_with_all_refs")
_SHARES = ("pass_rate", "coverage", *_SESSIONS)
_BOUNDS = {
    "n_scored": (0.0, math.inf),
    **dict.fromkeys(_PERCENTAGES, (0.0, 100.0)),
    **dict.fromkeys(_SHARES, (0.0, 1.0)),
}
_VERDICTS = ("improved", "regressed", "changed", "unchanged", "too few rows to tell")


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
        """Improved, regressed, changed (of what is neither better), unchanged or too few rows to tell."""

    @property
    def sentence(self) -> str:
        """Metric, verdict and figures in one line."""


def check_names(
    keys: Sequence[str],
    fail_under: Mapping[str, float] | None = None,
    min_scored: MinScored | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    *,
    fail_over: Mapping[str, float] | None = None,
    better: Mapping[str, Better] | None = None,
) -> None:
    """``InvalidOptionError`` for limits that do not fit a report with these ``keys``, as ``check_figures`` has them."""
    for param, limits in (("fail_under", fail_under or {}), ("fail_over", fail_over or {})):
        for name, limit in limits.items():
            figure = _figure(keys, name, param)
            key, _, what = figure.partition("/")
            if not (isinstance(limit, (int, float)) and -math.inf < limit < math.inf):
                raise InvalidOptionError(f"{param} {name}={shown(limit)}: it must be a number", param=param)
            bounds = _BOUNDS.get(what or key, (1.0, 5.0) if key not in keys else (ranges or {}).get(key))
            scaled = f"{key}_1to5" if what == "mean" and f"{key}_1to5" in (ranges or {}) else None
            check_limit(f"{param} {name}", limit, bounds, param, scaled=scaled)
            _check_side(figure, param, better or {})
    for key, share in _shares(min_scored).items():
        if key and key not in keys:
            message = f"min_scored {key}: {key!r} is not a metric here; there are {', '.join(keys) or 'none'}"
            raise InvalidOptionError(message, param="min_scored")
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            name = f"min_scored {key}" if key else "min_scored"
            raise InvalidOptionError(f"{name}={shown(share)} must be a number from 0 to 1", param="min_scored")


def check_figures(
    figures: Mapping[str, float],
    fail_under: Mapping[str, float] | None = None,
    min_scored: MinScored | None = None,
    *,
    fail_over: Mapping[str, float] | None = None,
    better: Mapping[str, Better] | None = None,
    keys: Sequence[str] = (),
    rows: int = 0,
    incomplete: str | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> list[Check]:
    """One check for each limit of ``fail_under`` and ``fail_over`` (``key`` for its mean, or ``key/figure``).

    ``figures`` are a report's ``metrics``; ``pct_records_with_all_refs`` and ``pct_records_with_at_least_one_ref``
    (0 to 100) can be limited too. ``better`` says of which keys lower is better (``False``), which take
    ``fail_over``, or neither (``None``), which take both. A check passes where the figure reaches its limit, or does
    not exceed it, and at least the share
    ``min_scored`` (default 0.95; a mapping gives it by key, and under ``""`` for all others) of **all** rows was
    measured, that is scored otherwise than by the rule for rows without context or without claims. Without a limit
    ``min_scored`` is a check of its own, for the keys that it names, else for all. ``keys`` are further metrics that
    were to be scored on these ``rows``; ``incomplete`` says why the evaluation is, which is a failed check.
    Where the evaluation was repeated, ``mean``, ``ci_low`` and ``ci_high`` are those over all repeats, and a row is
    measured that was measured each time. ``InvalidOptionError`` for an unknown metric or figure, and for a
    limit outside the metric's range in ``ranges``.
    """
    known = list(dict.fromkeys([*keys, *(name.removesuffix("/n_scored") for name in figures if _is_count(name))]))
    check_names(known, fail_under, min_scored, ranges, fail_over=fail_over, better=better)
    shares = _shares(min_scored)
    limits: list[tuple[str, float | None, bool]] = [
        *((_figure(known, name, "fail_under"), least, False) for name, least in (fail_under or {}).items()),
        *((_figure(known, name, "fail_over"), most, True) for name, most in (fail_over or {}).items()),
    ]
    limited = {_counted(name) for name, _, _ in limits}
    alone = [key for key in shares if key] or ([] if limited or min_scored is None else known)
    limits += [(f"{key}/n_measured", None, False) for key in alone if key not in limited]
    checks = [] if incomplete is None else [Check("evaluation", False, f"the evaluation is not complete: {incomplete}")]
    for name, limit, is_most in limits:
        key = _counted(name)
        share = shares.get(key, shares.get("", MIN_SCORED))
        checks.append(_check(figures, name, limit, is_most, share, rows))
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
    __tracebackhide__ = True  # pytest shows the line of the test
    failed = [check for check in checks if not check.passed]
    if failed:
        raise GateError(failed)


def to_json(checks: Sequence[Check]) -> str:
    """``{"passed": …, "checks": [{"name", "passed", "reason"}]}``."""
    content = {"passed": all(check.passed for check in checks), "checks": [asdict(check) for check in checks]}
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


_ANY_SIDE = ("pass_rate", "coverage", "n_scored", *_SESSIONS)


def _check_side(figure: str, param: str, better: Mapping[str, Better]) -> None:
    """``InvalidOptionError`` for a limit on the wrong side of a figure on the metric's own scale."""
    key, name = _counted(figure), figure.partition("/")[2]
    side = better.get(key, True)
    wrong = param == "fail_over" and (side is True or name in _ANY_SIDE)
    if wrong or (param == "fail_under" and side is False and name not in _ANY_SIDE):
        words, other = ("the higher", "fail_under") if wrong else ("the lower", "fail_over")
        option = other.replace("_", "-")
        message = f"{param} {figure}: it is better {words}; use {other} (--{option}) for it"
        raise InvalidOptionError(message, param=param)


def _figure(keys: Sequence[str], name: str, param: str) -> str:
    if name in _PERCENTAGES:
        return name
    key, _, figure = name.partition("/")
    figure = figure or "mean"
    if key not in keys and (figure != "mean" or _counted(key) not in keys):
        message = f"{param} {name}: {key!r} is not a metric here; there are {', '.join(keys) or 'none'}"
        raise InvalidOptionError(message, param=param)
    if figure not in _FIGURES:
        message = f"{param} {name}: {figure!r} is not a figure; there are {', '.join(_FIGURES)}"
        raise InvalidOptionError(message, param=param)
    return f"{key}/{figure}"


def _counted(name: str) -> str:
    """The key whose rows a figure counts: the 1–5 value of a metric is that of its own rows."""
    return name.partition("/")[0].removesuffix("_1to5")


def _is_count(name: str) -> bool:
    return name.count("/") == 1 and name.endswith("/n_scored")


def _shares(min_scored: MinScored | None) -> dict[str, float]:
    if min_scored is None:
        return {}
    return dict(min_scored) if isinstance(min_scored, Mapping) else {"": min_scored}


_OF_REPEATS = {"mean": "repeat_mean", "ci_low": "repeat_ci_low", "ci_high": "repeat_ci_high"}


def _check(
    figures: Mapping[str, float], name: str, limit: float | None, is_most: bool, share: float, rows: int
) -> Check:
    key, figure = _counted(name), name.partition("/")[2]
    if f"{key}/repeat_n_measured" in figures:  # a gate is on all that was asked, not on the first time
        name = f"{key}/{_OF_REPEATS.get(figure, figure)}"
    counts = "sample_count" if name in _PERCENTAGES else f"{key}/n_measured"
    measured = figures.get(f"{key}/repeat_n_measured", figures.get(counts, 0.0))
    total = sum(figures.get(f"{key}/{count}", 0.0) for count in ("n_scored", "n_skipped", "n_error")) or rows
    enough = total > 0 and measured >= share * total - 1e-9 and (measured > 0 or limit is None)
    on = f"{measured:.0f} of {counted(total, 'row')} {'was' if 1 in (measured, total) else 'were'} measured"
    if not enough:
        on += f", and at least {share:.4g} of them must be" if share else ", so that no figure is one of theirs"
    if limit is None:
        return Check(name, enough, f"{key}: {on}")
    value = figures.get(name)
    must, does = ("must be at most", "stays within") if is_most else ("must be at least", "reaches")
    if value is None:
        return Check(name, False, f"{name} could not be computed and {must} {limit:g}; {on}")
    reached = passes(value, limit, not is_most)
    mark = " (few groups)" if f"{key}/few_groups" in figures else ""
    said = f"{name} is {value:.4f}{mark} and {does if reached else must} {limit:g}"
    return Check(name, reached and enough, f"{said}{', but ' if reached and not enough else '; '}{on}")


def _verdict(name: str) -> str:
    if name in ("too few", "too-few"):
        return "too few rows to tell"
    if name in _VERDICTS:
        return name
    raise InvalidOptionError(f"fail_on={name!r} is not one of {', '.join(_VERDICTS)}", param="fail_on")
