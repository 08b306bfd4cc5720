"""Gates for CI: checks that an evaluation must pass, each with its reason in one line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, Union

from mlflow_ragmetrics.core.condition import check_limit
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.score import Better, passes
from mlflow_ragmetrics.errors import GateError, InvalidOptionError
from mlflow_ragmetrics.text.messages import counted

MIN_SCORED = 0.95
MinScored = Union[float, Mapping[str, float]]
"""The share of all rows that must be measured, or one per key and under ``""`` for all others."""

_SESSIONS = ("session_pass_rate", "session_ci_low", "session_ci_high")
# On the metric's own scale, where lower may be better.
_ON_SCALE = ("mean", "ci_low", "ci_high", "true_mean", "true_low", "true_high")
_ANY_SIDE = ("pass_rate", "coverage", "n_scored", *_SESSIONS)
_PERCENTAGES = ("pct_records_with_at_least_one_ref", "pct_records_with_all_refs")
_BOUNDS = {
    **dict.fromkeys(("pass_rate", "coverage", *_SESSIONS), (0.0, 1.0)),
    **dict.fromkeys(_PERCENTAGES, (0.0, 100.0)),
    "n_scored": (0.0, math.inf),
}
_OF_REPEATS = {"mean": "repeat_mean", "ci_low": "repeat_ci_low", "ci_high": "repeat_ci_high"}


@dataclass(frozen=True)
class Check:
    """One gate: its name, whether it passed, and the line that says why."""

    name: str
    passed: bool
    reason: str


class _Limit(NamedTuple):
    """What a figure must reach, or where ``is_most`` not exceed; ``None``: enough of the rows of ``key`` be measured.

    ``key`` is the metric whose rows the figure counts: those of a 1–5 value are the metric's own.
    """

    name: str
    key: str
    figure: str
    value: float | None = None
    is_most: bool = False


def check_names(
    keys: Sequence[str],
    fail_under: Mapping[str, float] | None = None,
    min_scored: MinScored | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    *,
    fail_over: Mapping[str, float] | None = None,
    better: Mapping[str, Better] | None = None,
) -> list[_Limit]:
    """The limits; ``InvalidOptionError`` for those that do not fit a report with these ``keys``."""
    given = [("fail_under", *each) for each in (fail_under or {}).items()]
    given += [("fail_over", *each) for each in (fail_over or {}).items()]
    for key, share in _shares(min_scored).items():
        name = f"min_scored {key}" if key else "min_scored"
        if key and key not in keys:
            raise _unknown(name, key, keys, "min_scored")
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise InvalidOptionError(f"{name}={shown(share)} must be a number from 0 to 1", param="min_scored")
    return [_limit(param, name, value, keys, ranges or {}, better or {}) for param, name, value in given]


def _limit(
    param: str,
    given: str,
    value: float,
    keys: Sequence[str],
    ranges: Mapping[str, tuple[float, float]],
    better: Mapping[str, Better],
) -> _Limit:
    scale, _, figure = given.partition("/")
    key = scale.removesuffix("_1to5")
    bounds = _BOUNDS.get(figure or given) or ranges.get(scale, (1.0, 5.0) if scale not in keys else None)
    scaled = None
    if given not in _PERCENTAGES:
        figure = figure or "mean"
        if scale not in keys and (figure != "mean" or key not in keys):
            raise _unknown(f"{param} {given}", scale, keys, param)
        if figure not in (*_ON_SCALE, *_ANY_SIDE):
            known = ", ".join((*_ON_SCALE, *_ANY_SIDE))
            raise InvalidOptionError(f"{param} {given}: {figure!r} is not a figure; there are {known}", param=param)
        scaled = f"{scale}_1to5" if figure == "mean" and f"{scale}_1to5" in ranges else None
    if not (isinstance(value, (int, float)) and -math.inf < value < math.inf):
        raise InvalidOptionError(f"{param} {given}={shown(value)}: it must be a number", param=param)
    check_limit(f"{param} {given}", value, bounds, param, scaled=scaled)
    side = True if figure in _ANY_SIDE else better.get(key, True)
    if side is (param == "fail_over"):
        words, other = ("the higher", "fail_under") if side else ("the lower", "fail_over")
        message = f"{param} {given}: it is better {words}; use {other} (--{other.replace('_', '-')}) for it"
        raise InvalidOptionError(message, param=param)
    name = given if given in _PERCENTAGES else f"{scale}/{figure}"
    return _Limit(name, key, figure, value, param == "fail_over")


def _unknown(what: str, key: str, keys: Sequence[str], param: str) -> InvalidOptionError:
    there = ", ".join(keys) or "none"
    return InvalidOptionError(f"{what}: {key!r} is not a metric here; there are {there}", param=param)


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
    counts = (name.split("/") for name in figures)
    known = list(dict.fromkeys([*keys, *(key for key, *figure in counts if figure == ["n_scored"])]))
    limits = check_names(known, fail_under, min_scored, ranges, fail_over=fail_over, better=better)
    shares = _shares(min_scored)
    limited = {limit.key for limit in limits}
    alone = [key for key in shares if key] or ([] if limited or min_scored is None else known)
    limits += [_Limit(f"{key}/n_measured", key, "n_measured") for key in alone if key not in limited]
    checks = [] if incomplete is None else [Check("evaluation", False, f"the evaluation is not complete: {incomplete}")]
    shares = {"": MIN_SCORED, **shares}
    return checks + [_check(figures, limit, shares.get(limit.key, shares[""]), rows) for limit in limits]


def _check(figures: Mapping[str, float], limit: _Limit, share: float, rows: int) -> Check:
    name, key, figure, value, is_most = limit
    if f"{key}/repeat_n_measured" in figures:  # a gate is on all that was asked, not on the first time
        name = f"{key}/{_OF_REPEATS.get(figure, figure)}"
    counts = "sample_count" if name in _PERCENTAGES else f"{key}/n_measured"
    measured = figures.get(f"{key}/repeat_n_measured", figures.get(counts, 0.0))
    total = sum(figures.get(f"{key}/{count}", 0.0) for count in ("n_scored", "n_skipped", "n_error")) or rows
    enough = total > 0 and measured >= share * total - 1e-9 and (measured > 0 or value is None)
    on = f"{measured:.0f} of {counted(total, 'row')} {'was' if 1 in (measured, total) else 'were'} measured"
    if not enough:
        on += f", and at least {share:.4g} of them must be" if share else ", so that no figure is one of theirs"
    if value is None:
        return Check(name, enough, f"{key}: {on}")
    found = figures.get(name)
    must, does = ("must be at most", "stays within") if is_most else ("must be at least", "reaches")
    if found is None:
        return Check(name, False, f"{name} could not be computed and {must} {value:g}; {on}")
    reached = passes(found, value, not is_most)
    mark = " (few groups)" if f"{key}/few_groups" in figures else ""
    said = f"{name} is {found:.4f}{mark} and {does if reached else must} {value:g}"
    return Check(name, reached and enough, f"{said}{', but ' if reached and not enough else '; '}{on}")


def _shares(min_scored: MinScored | None) -> dict[str, float]:
    if min_scored is None:
        return {}
    return dict(min_scored) if isinstance(min_scored, Mapping) else {"": min_scored}


def raise_failures(checks: Sequence[Check]) -> None:
    """``GateError`` with all reasons when a check failed."""
    __tracebackhide__ = True  # pytest shows the line of the test
    failed = [check for check in checks if not check.passed]
    if failed:
        raise GateError("; ".join(check.reason for check in failed), failed)


def to_json(checks: Sequence[Check]) -> str:
    """``{"passed": …, "checks": [{"name", "passed", "reason"}]}``."""
    content = {"passed": all(check.passed for check in checks), "checks": [asdict(check) for check in checks]}
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"
