"""Comparisons and calibrations as text for a terminal or a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.statistics.agreement import Estimate

if TYPE_CHECKING:
    from mlflow_ragmetrics.calibration.result import Calibration
    from mlflow_ragmetrics.comparison.difference import Difference
    from mlflow_ragmetrics.comparison.result import Comparison

__all__ = [
    "comparison_text",
    "heading",
    "number",
    "sentence",
    "signed",
    "threshold_lines",
    "calibration_text",
    "decision",
]

_COMPARISON_HEADS = (
    "metric",
    "A",
    "B",
    "B−A",
    "95 % interval",
    "p (Holm)",
    "d_z",
    "won/tied/lost",
    "rows",
    "needed",
    "verdict",
)
_COMPARISON_DISPENSABLE = ("d_z", "needed", "p (Holm)", "won/tied/lost", "rows")


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
    cells = [_COMPARISON_HEADS, *map(_comparison_cells, comparison.differences)]
    widths = {
        head: max(map(len, column)) for head, column in zip(_COMPARISON_HEADS, zip(*cells, strict=True), strict=True)
    }
    for head in _COMPARISON_DISPENSABLE:
        if width is not None and sum(widths.values()) + 2 * len(widths) - 2 > width:
            del widths[head]
    table = [
        "  ".join(_padded_of_comparison(line[_COMPARISON_HEADS.index(head)], widths[head], head) for head in widths)
        for line in cells
    ]
    notes = (*threshold_lines(comparison), *(f"Note: {warning}" for warning in comparison.warnings))
    return "\n".join([heading(comparison), "", *map(str.rstrip, table), "", *notes]).rstrip()


def _comparison_cells(each: Difference) -> tuple[str, ...]:
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


def _padded_of_comparison(cell: str, width: int, head: str) -> str:
    return cell.ljust(width) if head in (_COMPARISON_HEADS[0], _COMPARISON_HEADS[-1]) else cell.rjust(width)


def threshold_lines(comparison: Comparison) -> list[str]:
    """One line a metric with a threshold: the rows that pass, and McNemar's exact test."""
    return [
        f"{each.key}: {passes.rate_a:.1%} → {passes.rate_b:.1%} of the rows pass ({passes.newly_passed} newly pass, "
        f"{passes.newly_failed} newly fail, McNemar p = {passes.p_value:.4f})"
        for each in comparison.differences
        if (passes := each.passes) is not None
    ]


_CALIBRATION_HEADS = {
    "verdicts": "verdicts",
    "rows": "rows",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "kappa": "kappa",
    "auroc": "AUROC",
}
_CALIBRATION_DISPENSABLE = ("f1", "accuracy", "rows")


def decision(calibration: Calibration) -> str:
    """Which threshold to use, and why."""
    gain, default = calibration.gain, calibration.default
    if gain is None:
        if calibration.at_default is None:
            return "Labels are grades: no threshold is chosen; say which grades are good with good_from."
        return f"Threshold: {default:g} is kept; fewer than ten rows of a kind are labelled, too few to choose another."
    found = f"balanced accuracy {gain.held_out:.3f} instead of {gain.default:.3f} on rows that it was not chosen on"
    interval = f"gain {gain.gain:+.3f}, 95 % interval {gain.low:+.3f} to {gain.high:+.3f}"
    if gain.beats_default:
        return f"Threshold: {gain.chosen:g} beats {default:g}: {found} ({interval})."
    return f"Threshold: {default:g} is kept; the best, {gain.chosen:g}, does not beat it beyond noise ({interval})."


def calibration_text(calibration: Calibration, width: int | None = None) -> str:
    """Head, table of agreement, correlations, and the decision on the threshold.

    Where the table is wider than ``width`` columns, it goes without the figures that the others imply.
    """
    lines = [f"{calibration.key} against people's labels: {calibration.rows} rows"]
    for count, why in ((calibration.unlabelled, "not labelled"), (calibration.unscored, "not scored")):
        lines[0] += f", {count} {why}" if count else ""
    if calibration.at_default is not None:
        bad = calibration.at_default.found + calibration.at_default.missed
        lines[0] += f"; {bad} bad. Precision, recall and F1 are those of finding bad rows."
        lines += ["", *_calibration_table(calibration, width), ""]
    known = {name: getattr(calibration, name.lower()) for name in _ESTIMATES}
    lines += [f"{name}: {_told(estimate)}" for name, estimate in known.items() if estimate is not None]
    if calibration.agreement is not None:
        lines.append(f"kappa at {calibration.threshold:g}: {_told(calibration.agreement.kappa)}")
    return "\n".join([*lines, decision(calibration)])


_ESTIMATES = ("AUROC", "Spearman", "Pearson")


def _told(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not defined"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f}, 95 % interval {estimate.low:.3f} to {estimate.high:.3f}"


def _calibration_table(calibration: Calibration, width: int | None) -> list[str]:
    records = calibration.table.to_dict("records")
    columns = {
        name: [head, *(_cell(record.get(name)) for record in records)] for name, head in _CALIBRATION_HEADS.items()
    }
    widths = {name: max(map(len, column)) for name, column in columns.items()}
    for name in _CALIBRATION_DISPENSABLE:
        if width is not None and sum(widths.values()) + 2 * len(widths) - 2 > width:
            del widths[name]
    padded = ([_padded(cell, widths[name], name) for cell in columns[name]] for name in widths)
    return ["  ".join(row) for row in zip(*padded, strict=True)]


def _padded(cell: str, width: int, name: str) -> str:
    return cell.ljust(width) if name == "verdicts" else cell.rjust(width)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
