"""``Calibration``: a metric's agreement with people, and the threshold to use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from mlflow_ragmetrics.display.document import Block, Document, Heading, Line, Table, number
from mlflow_ragmetrics.statistics.agreement import Agreement, Estimate, ThresholdGain
from mlflow_ragmetrics.text.messages import counted

_SHOWN = ("verdicts", "rows", "accuracy", "balanced_accuracy", "precision", "recall", "f1", "kappa", "auroc")
_COUNTS = ("found", "false_alarms", "missed", "cleared")
FIGURES = ("accuracy", "balanced_accuracy", "precision", "recall", "f1")


@dataclass(frozen=True)
class OtherVerdicts:
    """Verdicts of another judge or method on the same rows."""

    name: str
    agreement: Agreement
    auroc: Estimate | None = None


@dataclass(frozen=True)
class Calibration(Document):
    """The metric ``key`` compared with labels. Precision, recall and F1 are for finding bad ("unsupported") rows.

    ``rows`` counts rows with a measured score and a label; ``unlabelled`` and ``unscored`` (not measured) ones are left
    out. ``default``: the threshold in use. ``pearson``, ``spearman`` and ``auroc`` compare scores and labels directly.
    ``beside``: other judges' verdicts on the same rows.

    ``at_default``: the agreement at the threshold in use. ``at_chosen``: at the best threshold for these rows, which is
    optimistic; ``gain`` estimates the improvement on other rows. Figures that need good and bad labels are ``None`` for
    grades; ``gain`` is also ``None`` with fewer than ten rows of either. If rows have groups, all intervals are over
    groups.
    """

    key: str
    rows: int
    unlabelled: int
    unscored: int
    default: float
    pearson: Estimate | None = None
    spearman: Estimate | None = None
    auroc: Estimate | None = None
    at_default: Agreement | None = None
    at_chosen: Agreement | None = None
    gain: ThresholdGain | None = None
    beside: tuple[OtherVerdicts, ...] = ()
    judge: str = ""

    @property
    def beats_default(self) -> bool:
        """Whether cross-validation found a significantly better threshold than the default."""
        return self.gain is not None and self.gain.beats_default

    @property
    def threshold(self) -> float:
        """The threshold to use: the best one if it beats the default, else the default."""
        return self.gain.chosen if self.gain is not None and self.beats_default else self.default

    @property
    def agreement(self) -> Agreement | None:
        """The agreement at ``threshold``."""
        return self.at_chosen if self.beats_default else self.at_default

    @property
    def metrics(self) -> dict[str, float]:
        """The run metrics to log: ``calibration/<key>/kappa``, ``/auroc``, ``/threshold``, …."""
        figures: dict[str, float | None] = {"n_labelled": self.rows, "threshold": self.threshold}
        estimates: dict[str, Estimate | None] = {name: getattr(self, name) for name in ("auroc", "pearson", "spearman")}
        if self.agreement is not None:
            figures |= {name: getattr(self.agreement, name) for name in FIGURES}
            estimates["kappa"] = self.agreement.kappa
        for name, estimate in estimates.items():
            if estimate is not None:
                figures |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        if self.gain is not None:
            figures |= {"gain": self.gain.gain, "gain_low": self.gain.low, "gain_high": self.gain.high}
        return {f"calibration/{self.key}/{name}": value for name, value in figures.items() if value is not None}

    @property
    def table(self) -> pd.DataFrame:
        """One row per set of verdicts (the metric at each threshold, then the others): counts and figures."""
        judge = f" by {self.judge}" if self.judge and self.beside else ""
        own = [(f"{self.key} at {self.default:g} (default){judge}", self.at_default)]
        own += [] if self.gain is None else [(f"{self.key} at {self.gain.chosen:g} (best){judge}", self.at_chosen)]
        verdicts = [OtherVerdicts(name, found, self.auroc) for name, found in own if found is not None]
        return pd.DataFrame(list(map(_record, (*verdicts, *self.beside))))

    @property
    def decision(self) -> str:
        """Which threshold to use, and why."""
        gain, default = self.gain, f"Threshold: {self.default:g} is kept"
        if gain is None:
            if self.at_default is None:
                return "Labels are grades: no threshold is chosen; good_from (--good-from) says which grades are good."
            return f"{default}; too few labels: to choose another, label at least ten good and ten bad rows, or groups."
        interval = f"gain {gain.gain:+.3f}, 95 % interval {gain.low:+.3f} to {gain.high:+.3f}"
        if gain.beats_default:
            held_out = f"balanced accuracy {gain.held_out:.3f} instead of {gain.default:.3f}"
            why = f"{held_out} on held-out rows ({interval})"
            return f"Threshold: {gain.chosen:g} beats {self.default:g}: {why}."
        return f"{default}; the best balanced accuracy, at {gain.chosen:g}, is not significantly better ({interval})."

    @property
    def plain(self) -> str:
        """How many bad answers are found, how many alarms are right, and whether this is better than chance."""
        found = self.agreement
        if found is None:
            return ""
        alarms = found.found + found.false_alarms
        right = f"{found.found} of its {counted(alarms, 'alarm')} are right" if alarms else "it raises no alarm"
        bad = counted(found.found + found.missed, "bad answer")
        balanced = found.balanced_accuracy
        chance = "no better" if balanced == 0.5 else "worse"
        is_poor = balanced is not None and balanced <= 0.5
        words = f". This is {chance} than chance (balanced accuracy {balanced:.3f})" if is_poor else ""
        return f"{'The judge' if self.judge else self.key} finds {found.found} of {bad}; {right}{words}."

    def _blocks(self) -> list[Block]:
        """The verdict in words, counts, agreement, correlations, confusion, and the decision on the threshold."""
        counts = [counted(self.rows, "row")]
        counts += [f"{self.unlabelled} not labelled"] if self.unlabelled else []
        counts += [f"{self.unscored} not measured"] if self.unscored else []
        heading = f"{self.key} compared with people's labels: {', '.join(counts)}"
        verdict: list[Block] = [Line(self.plain)] if self.plain else []
        blocks: list[Block] = [*verdict, Heading(heading)]
        if self.at_default is not None:
            bad = self.at_default.found + self.at_default.missed
            said = f"{bad} bad. Precision, recall and F1 are for finding bad rows."
            blocks = [*verdict, Heading(f"{heading}; {said}"), self._figures_table()]
        estimates = {"AUROC": self.auroc, "Spearman": self.spearman, "Pearson": self.pearson}
        blocks += [Line(f"{name}: {_with_interval(each)}") for name, each in estimates.items() if each is not None]
        if (found := self.agreement) is not None:
            title = f"at {self.threshold:g}"
            columns = {
                title: ["people: good", "people: bad"],
                "metric: good": [str(found.cleared), str(found.missed)],
                "metric: bad": [str(found.false_alarms), str(found.found)],
            }
            blocks.append(Table(columns, left=[title]))
            blocks.append(Line(f"kappa {title}: {_with_interval(found.kappa)}"))
        return [*blocks, Line(self.decision, "good" if self.beats_default else "")]

    def _figures_table(self) -> Table:
        headings = {"balanced_accuracy": "balanced", "f1": "F1", "auroc": "AUROC"}
        records = self.table.to_dict("records")
        shown = {headings.get(name, name): [_cell(record[name]) for record in records] for name in _SHOWN}
        return Table(shown, left=["verdicts"], droppable=["F1", "accuracy", "rows"])

    def log(self, run_id: str | None = None, *, run_name: str | None = None) -> str:
        """Write figures and table to a new run, or to the run ``run_id``; return its id.

        The artifacts are ``calibration_<key>.json`` (a table) and ``.txt``; the metrics are ``calibration/<key>/…``.
        """
        from mlflow_ragmetrics.tracking.log import log_findings, safe_name

        name = safe_name(self.key)
        return log_findings(
            run_id,
            run_name or f"calibrate {self.key}",
            own=True,
            texts={f"calibration_{name}.txt": f"{self}\n"},
            tables={f"calibration_{name}.json": self.table} if self.at_default else {},
            metrics=self.metrics,
            params={f"calibration_{name}": self.decision},
        )


def _with_interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not defined"
    if estimate.low is None or estimate.high is None:
        return number(estimate.value)
    return f"{estimate.value:.3f}, 95 % interval {estimate.low:.3f} to {estimate.high:.3f}"


def _cell(value: str | float | None) -> str:
    if value is None or value != value:  # pandas stores unknown values as NaN
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _record(verdicts: OtherVerdicts) -> dict[str, Any]:
    agreement, auroc = verdicts.agreement, verdicts.auroc
    kappa = agreement.kappa
    return {
        "verdicts": verdicts.name,
        "rows": agreement.rows,
        **{figure: getattr(agreement, figure) for figure in FIGURES},
        "kappa": kappa.value if kappa else None,
        "kappa_low": kappa.low if kappa else None,
        "kappa_high": kappa.high if kappa else None,
        "auroc": auroc.value if auroc else None,
        **{count: getattr(agreement, count) for count in _COUNTS},
    }
