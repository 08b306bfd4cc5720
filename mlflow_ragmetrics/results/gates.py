"""CI gates: checks that an evaluation must pass, each with a one-line reason; conditions on the scores of a row."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Union

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.score import Better, passes
from mlflow_ragmetrics.errors import GateError, InvalidOptionError
from mlflow_ragmetrics.text.messages import counted, percent

MIN_SCORED = 0.95
MinScored = Union[float, Mapping[str, float]]
"""The share of all rows that must be measured, or a mapping with one share per key and ``""`` for the others."""

# These are on the metric's own scale, on which lower may be better.
_ON_SCALE = ("mean", "ci_low", "ci_high", "true_mean", "true_low", "true_high")
_ANY_SIDE = ("pass_rate", "coverage", "n_scored")
_PERCENTAGES = ("pct_records_with_at_least_one_ref", "pct_records_with_all_refs")
_BOUNDS = {
    **dict.fromkeys(("pass_rate", "coverage"), (0.0, 1.0)),
    **dict.fromkeys(_PERCENTAGES, (0.0, 100.0)),
    "n_scored": (0.0, math.inf),
}
REPEATED = "rows/share_questions"
"""The figure that marks intervals as too narrow, because rows with the same question resemble each other."""
_OF_REPEATS = {"mean": "repeat_mean", "ci_low": "repeat_ci_low", "ci_high": "repeat_ci_high"}


@dataclass(frozen=True)
class Check:
    """One gate: its name, whether it passed, and the reason in one line."""

    name: str
    passed: bool
    reason: str


class _Limit(NamedTuple):
    """The minimum (with ``is_most``, maximum) of a figure; ``None`` only requires enough measured rows of ``key``.

    ``key``: the metric whose rows count; for a 1–5 value, the metric itself.
    """

    name: str
    key: str
    figure: str
    value: float | None = None
    is_most: bool = False


def deciding(value: float, limit: float, higher_is_better: Better = True, digits: int = 4) -> str:
    """``value`` with ``digits`` decimals, or as many as show on which side of ``limit`` it is.

    >>> deciding(0.79996, 0.8), deciding(0.8, 0.8)
    ('0.79996', '0.8000')
    """
    reached = passes(value, limit, higher_is_better)
    texts = (f"{value:.{count}f}" for count in range(digits, 13))
    return next((text for text in texts if passes(float(text), limit, higher_is_better) == reached), repr(value))


def check_names(
    keys: Sequence[str],
    fail_under: Mapping[str, float] | None = None,
    min_scored: MinScored | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    *,
    fail_over: Mapping[str, float] | None = None,
    better: Mapping[str, Better] | None = None,
) -> list[_Limit]:
    """The limits; raises ``InvalidOptionError`` if one does not fit a report with these ``keys``."""
    ranges, better, checked = ranges or {}, better or {}, []
    for key, share in _shares(min_scored).items():
        name = f"min_scored {key}" if key else "min_scored"
        if key and key not in keys:
            raise _unknown(name, key, keys, "min_scored")
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise InvalidOptionError(f"{name}={shown(share)} must be a number from 0 to 1", param="min_scored")
    limits = [("fail_under", *limit) for limit in (fail_under or {}).items()]
    limits += [("fail_over", *limit) for limit in (fail_over or {}).items()]
    for param, name, value in limits:
        scale, _, figure = name.partition("/")
        key, is_percentage = scale.removesuffix("_1to5"), name in _PERCENTAGES
        named, scaled = f"{param} {name}", None
        bounds = _BOUNDS.get(figure or name) or ranges.get(scale, (1.0, 5.0) if scale not in keys else None)
        if not is_percentage:
            figure = figure or "mean"
            if scale not in keys and (figure != "mean" or key not in keys):
                raise _unknown(named, scale, keys, param)
            if figure not in (*_ON_SCALE, *_ANY_SIDE):
                known = ", ".join((*_ON_SCALE, *_ANY_SIDE))
                raise InvalidOptionError(f"{named}: {figure!r} is not a figure; use one of {known}", param=param)
            scaled = f"{scale}_1to5" if figure == "mean" and f"{scale}_1to5" in ranges else None
        if not (isinstance(value, (int, float)) and -math.inf < value < math.inf):
            raise InvalidOptionError(f"{named}={shown(value)}: it must be a number", param=param)
        if is_percentage and 0 < value <= 1:
            problem = f"the figure is a percentage, 0 to 100; write {100 * value:g} for {value:g}"
            raise InvalidOptionError(f"{named}={value:g}: {problem}", param=param)
        check_limit(named, value, bounds, param, scaled=scaled)
        side = True if figure in _ANY_SIDE else better.get(key, True)
        if side is (param == "fail_over"):
            words, other = ("higher", "fail_under") if side else ("lower", "fail_over")
            advice = f"{words} is better; use {other} (--{other.replace('_', '-')})"
            raise InvalidOptionError(f"{named}: {advice}", param=param)
        checked.append(_Limit(name if is_percentage else f"{scale}/{figure}", key, figure, value, param == "fail_over"))
    return checked


def _unknown(what: str, key: str, keys: Sequence[str], param: str) -> InvalidOptionError:
    there = ", ".join(keys) or "none"
    return InvalidOptionError(f"{what}: {key!r} is not a metric here; use one of {there}", param=param)


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
    """One check per limit in ``fail_under`` and ``fail_over`` (``key`` for the mean, or ``key/figure``).

    ``figures``: a report's ``metrics``, including ``pct_records_with_all_refs`` and
    ``pct_records_with_at_least_one_ref`` (0 to 100). ``better``: ``False`` for keys whose lower values are better
    (use ``fail_over``), ``None`` for keys without a better direction (use either). A check passes if the figure meets
    its limit and at least the share ``min_scored`` of **all** rows was measured (default 0.95; a mapping sets it by
    key, with ``""`` for the others). Scores set by the rule for rows without context or claims are not measured.
    Without limits, ``min_scored`` is checked alone, for the keys that it names or for all.
    ``keys``: further metrics that should have been scored on these ``rows``. ``incomplete``: why the evaluation is
    incomplete, which adds a failed check. For repeated evaluations, ``mean``, ``ci_low`` and ``ci_high`` are over all
    repeats, and a row counts as measured if every repeat measured it.
    Raises ``InvalidOptionError`` for an unknown metric or figure, or a limit outside the metric's range in ``ranges``.
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
    if f"{key}/repeat_n_measured" in figures:  # gates use all repeats, not only the first
        name = f"{key}/{_OF_REPEATS.get(figure, figure)}"
    counts = "sample_count" if name in _PERCENTAGES else f"{key}/n_measured"
    measured = figures.get(f"{key}/repeat_n_measured", figures.get(counts, 0.0))
    total = sum(figures.get(f"{key}/{count}", 0.0) for count in ("n_scored", "n_skipped", "n_error")) or rows
    enough = total > 0 and measured >= share * total - 1e-9 and (measured > 0 or value is None)
    on = f"{measured:.0f} of {counted(total, 'row')} {'was' if 1 in (measured, total) else 'were'} measured"
    if not enough:
        on += f", less than the required {share:.4g}" if share else ", so there is no figure"
    if value is None:
        return Check(name, enough, f"{key}: {on}")
    found = figures.get(name)
    if found is None:
        must = "must be at most" if is_most else "must be at least"
        return Check(name, False, f"{name} could not be computed and {must} {value:g}; {on}")
    reached = passes(found, value, not is_most)
    mark = " (few groups)" if f"{key}/few_groups" in figures else ""
    if figure in ("ci_low", "ci_high") and REPEATED in figures:
        mark += " (interval too narrow: rows share their questions)"
    end = figures.get(f"{name.removesuffix('mean')}ci_{'high' if is_most else 'low'}")
    if figure == "mean" and enough and end is not None:
        is_sure = not passes(found, value, not is_most) or passes(end, value, not is_most)
        on += "" if is_sure else f", too few to be sure: the interval reaches {end:.2f}"
    on += f"; coverage {coverage}" if (coverage := percent(figures.get(f"{key}/coverage", 1.0))) != "100%" else ""
    sign = "≤≥"[not is_most] if reached else "<>"[is_most]
    comparison = f"{name} = {deciding(found, value, not is_most)}{mark} {sign} {value:.12g}"
    return Check(name, reached and enough, f"{comparison}{', but ' if reached and not enough else '; '}{on}")


def _shares(min_scored: MinScored | None) -> dict[str, float]:
    if min_scored is None:
        return {}
    return dict(min_scored) if isinstance(min_scored, Mapping) else {"": min_scored}


def raise_failures(checks: Sequence[Check]) -> None:
    """Raise ``GateError`` with all reasons if a check failed."""
    __tracebackhide__ = True  # pytest shows the line of the test
    failed = [check for check in checks if not check.passed]
    if failed:
        raise GateError("; ".join(check.reason for check in failed), failed)


_CONDITION = re.compile(r"\s*(?P<name>[^<>=()\s]+(?:\(.*\))?)\s*(?P<sign>>=|<=|[<>])\s*(?P<number>[^<>=!\s]+)\s*")


@dataclass(frozen=True)
class Condition:
    """A metric's name, key or spelling, a sign (``>=``, ``>``, ``<=`` or ``<``) and a limit."""

    name: str
    sign: str
    limit: float

    def holds(self, value: float) -> bool:
        """Whether ``value`` meets the condition, with a tolerance for rounding errors.

        >>> condition_of("faithfulness < 0.3").holds(0.1 + 0.2), condition_of("faithfulness >= 0.3").holds(0.1 + 0.2)
        (False, True)
        """
        is_lower = self.sign.startswith(">")
        # A value beyond the limit is one that does not pass the opposite limit.
        return passes(value, self.limit, is_lower) if "=" in self.sign else not passes(value, self.limit, not is_lower)


def check_limit(
    name: str, limit: float, bounds: tuple[float, float] | None, param: str, *, scaled: str | None = None
) -> None:
    """Raise ``InvalidOptionError`` if ``limit`` is outside ``bounds``, the range of the figure ``name``.

    ``scaled`` is the name of the same figure on the 1–5 scale, if there is one.
    """
    if bounds is None or bounds[0] - 1e-9 <= limit <= bounds[1] + 1e-9:
        return
    low, high = bounds
    hint = f"; write {limit / 100:g} for {limit:g} %" if low == 0 and high == 1 and 1 < limit <= 100 else ""
    hint = f"; write {scaled}={limit:g} for {limit:g} of 5" if scaled and 1 < limit <= 5 else hint
    scale = f"from {low:g} to {high:g}" if high < math.inf else f"{low:g} or more"
    raise InvalidOptionError(
        f"{name}={limit:g}: the limit must be within the figure's range, {scale}{hint}", param=param
    )


def condition_of(text: str, param: str = "condition") -> Condition:
    """Parse ``text`` into a condition; ``InvalidOptionError`` if it is not one.

    >>> condition_of("ndcg(k=5) >= 0.5")
    Condition(name='ndcg(k=5)', sign='>=', limit=0.5)
    """
    match = _CONDITION.fullmatch(text) if isinstance(text, str) else None
    try:
        limit = float(match["number"]) if match is not None else math.nan
    except ValueError:
        limit = math.nan
    if match is None or not math.isfinite(limit):
        message = f'{shown(text)} is not a condition on a score; write, for example, "faithfulness >= 0.8"'
        raise InvalidOptionError(message, param=param)
    return Condition(match["name"], match["sign"], limit)
