"""Conditions on scores, such as ``"faithfulness >= 0.8"``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidOptionError

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_SLACK = {">=": -1e-9, "<=": 1e-9, ">": 1e-9, "<": -1e-9}
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
        return _OPERATORS[self.sign](value, self.limit + _SLACK[self.sign])

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.limit:g}"


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
    found = _CONDITION.fullmatch(text) if isinstance(text, str) else None
    try:
        limit = float(found["number"]) if found is not None else math.nan
    except ValueError:
        limit = math.nan
    if found is None or not math.isfinite(limit):
        message = f'{shown(text)} is not a condition on a score; write, for example, "faithfulness >= 0.8"'
        raise InvalidOptionError(message, param=param)
    return Condition(found["name"], found["sign"], limit)
