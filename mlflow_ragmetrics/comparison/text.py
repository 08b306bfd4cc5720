"""A comparison as text for a terminal or a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow_ragmetrics.comparison.difference import Difference
    from mlflow_ragmetrics.comparison.result import Comparison

__all__ = ["comparison_text", "heading", "number", "sentence", "signed", "threshold_lines"]

_HEADS = ("metric", "A", "B", "B−A", "95 % interval", "p (Holm)", "d_z", "won/tied/lost", "rows", "needed", "verdict")
_DISPENSABLE = ("d_z", "needed", "p (Holm)", "won/tied/lost", "rows")


def number(value: float | None, digits: int = 3) -> str:
    """A figure, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def signed(value: float | None) -> str:
    """A difference with its sign."""
    return "–" if value is None else f"{value:+.3f}"


def heading(comparison: Comparison) -> str:
    """What was compared, over how many rows."""
    return (
        f"{_side(comparison.name_b, 'B')} against {_side(comparison.name_a, 'A')}: {len(comparison.pairing)} rows "
        f"paired by {comparison.pairing.by}, tolerance {comparison.tolerance:g}"
    )


def _side(name: str, letter: str) -> str:
    return name if name == letter or name.endswith(f"({letter})") else f"{name} ({letter})"


def sentence(each: Difference) -> str:
    """One metric in one line: the verdict and why."""
    if each.difference is None:
        return f"{each.key}: {each.verdict}; no row is scored on both sides"
    told = f"{each.key}: {each.verdict}, {number(each.mean_a)} → {number(each.mean_b)} ({signed(each.difference)}"
    if each.low is None:
        return f"{told}, {each.rows} row)"
    told += f", 95 % interval {signed(each.low)} to {signed(each.high)}, p = {number(each.p_holm, 4)} after Holm)"
    if each.verdict == "too few rows to tell" and each.needed is not None:
        if each.needed > each.rows:
            told += f"; {each.rows} rows, about {each.needed} would show a difference of {each.tolerance:g}"
        else:
            told += f"; a difference of {each.tolerance:g} cannot be ruled out with {each.rows} rows"
    return told


def comparison_text(comparison: Comparison, width: int | None = None) -> str:
    """A table of the metrics, then what is not in it: thresholds and warnings.

    Where the table is wider than ``width`` columns, it goes without the figures that a reader misses least.
    """
    cells = [_HEADS, *map(_cells, comparison.differences)]
    widths = {head: max(map(len, column)) for head, column in zip(_HEADS, zip(*cells, strict=True), strict=True)}
    for head in _DISPENSABLE:
        if width is not None and sum(widths.values()) + 2 * len(widths) - 2 > width:
            del widths[head]
    table = ["  ".join(_padded(line[_HEADS.index(head)], widths[head], head) for head in widths) for line in cells]
    notes = (*threshold_lines(comparison), *(f"Note: {warning}" for warning in comparison.warnings))
    return "\n".join([heading(comparison), "", *map(str.rstrip, table), "", *notes]).rstrip()


def _cells(each: Difference) -> tuple[str, ...]:
    return (
        each.key,
        number(each.mean_a),
        number(each.mean_b),
        signed(each.difference),
        "–" if each.low is None else f"{signed(each.low)} … {signed(each.high)}",
        number(each.p_holm, 4),
        number(each.effect, 2),
        f"{each.wins}/{each.ties}/{each.losses}",
        str(each.rows),
        "–" if each.needed is None else str(each.needed),
        each.verdict,
    )


def _padded(cell: str, width: int, head: str) -> str:
    return cell.ljust(width) if head in (_HEADS[0], _HEADS[-1]) else cell.rjust(width)


def threshold_lines(comparison: Comparison) -> list[str]:
    """One line a metric with a threshold: the rows that pass, and McNemar's exact test."""
    return [
        f"{each.key}: {passes.rate_a:.1%} → {passes.rate_b:.1%} of the rows pass ({passes.newly_passed} newly pass, "
        f"{passes.newly_failed} newly fail, McNemar p = {passes.p_value:.4f})"
        for each in comparison.differences
        if (passes := each.passes) is not None
    ]
