"""A calibration as text for a terminal or a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.statistics.agreement import Estimate

if TYPE_CHECKING:
    from mlflow_ragmetrics.calibration.result import Calibration

__all__ = ["calibration_text", "decision"]

_HEADS = {
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
_DISPENSABLE = ("f1", "accuracy", "rows")


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
        lines += ["", *_table(calibration, width), ""]
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


def _table(calibration: Calibration, width: int | None) -> list[str]:
    records = calibration.table.to_dict("records")
    columns = {name: [head, *(_cell(record.get(name)) for record in records)] for name, head in _HEADS.items()}
    widths = {name: max(map(len, column)) for name, column in columns.items()}
    for name in _DISPENSABLE:
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
