"""``Calibration``: how far a metric agrees with people, and which threshold to use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlflow_ragmetrics.statistics.agreement import Agreement, Estimate
from mlflow_ragmetrics.statistics.thresholds import ThresholdGain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Bin", "reliability", "FIGURES", "Beside", "Calibration"]

_BINS = 10


@dataclass(frozen=True)
class Bin:
    """Rows of neighbouring scores: their mean score, the share that is good, and how many they are."""

    score: float
    good: float
    rows: int


def reliability(values: np.ndarray[Any, Any], good: np.ndarray[Any, Any], bins: int = _BINS) -> tuple[Bin, ...]:
    """At most ``bins`` bins of equal width over the range of the scores (0 to 1 where they lie in it), none empty."""
    low, high = min(0.0, float(values.min())), max(1.0, float(values.max()))
    place = np.minimum(((values - low) / (high - low) * bins).astype(int), bins - 1)
    return tuple(
        Bin(float(values[here].mean()), float(good[here].mean()), int(here.sum()))
        for each in range(bins)
        if (here := place == each).any()
    )


FIGURES = ("accuracy", "balanced_accuracy", "precision", "recall", "f1")


@dataclass(frozen=True)
class Beside:
    """Somebody else's verdicts on the same rows."""

    name: str
    agreement: Agreement
    auroc: Estimate | None = None


@dataclass(frozen=True)
class Calibration:
    """The metric ``key`` against labels. Precision, recall and F1 are those of finding bad ("unsupported") rows.

    ``rows`` are scored and labelled; ``unlabelled`` and ``unscored`` ones are left out. ``default`` is the threshold in
    use. ``pearson``, ``spearman`` and ``auroc`` compare the scores themselves with the labels, ``bins`` are the
    reliability plot's, ``beside`` the verdicts of others on the same rows.

    ``at_default`` is the agreement at the threshold in use, ``at_chosen`` at the best one on the same rows, which
    flatters it: ``gain`` is what it gains on rows that it was not chosen on. What needs labels of two kinds is ``None``
    for grades, ``gain`` also with fewer than ten rows of a kind. Groups count in ``gain`` only: the intervals of κ,
    AUROC and the correlations take the rows as independent.
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
    bins: tuple[Bin, ...] = ()
    beside: tuple[Beside, ...] = ()

    @property
    def beats_default(self) -> bool:
        """Whether cross-validation found a threshold better than the default beyond noise."""
        return self.gain is not None and self.gain.beats_default

    @property
    def threshold(self) -> float:
        """The threshold to use: the best one where it beats the default, else the default."""
        return self.gain.chosen if self.gain is not None and self.beats_default else self.default

    @property
    def agreement(self) -> Agreement | None:
        """The agreement at ``threshold``."""
        return self.at_chosen if self.beats_default else self.at_default

    @property
    def metrics(self) -> dict[str, float]:
        """What is logged as run metrics: ``calibration/<key>/kappa``, ``/auroc``, ``/threshold``, …."""
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
        """One row a set of verdicts (the metric at each threshold, then others'): counts and figures."""
        import pandas as pd

        named = [(f"{self.key} at {self.default:g} (default)", self.at_default, self.auroc)]
        if self.gain is not None:
            named.append((f"{self.key} at {self.gain.chosen:g} (best)", self.at_chosen, self.auroc))
        named += [(other.name, other.agreement, other.auroc) for other in self.beside]
        return pd.DataFrame([_record(*each) for each in named])

    def save(self, suite: str | Path) -> bool:
        """Write ``threshold`` under ``thresholds`` into the suite's YAML file, the rest left as it is.

        Returns whether it was written: a default that was not beaten stays as it is.
        """
        from mlflow_ragmetrics.configuration.yaml_text import save_threshold

        if self.beats_default:
            save_threshold(suite, self.key, self.threshold)
        return self.beats_default

    def log(self, run_id: str | None = None, *, run_name: str | None = None) -> str:
        """Write figures, table and reliability plot into ``run_id``, else the active run, else a new one; its id."""
        from mlflow_ragmetrics.tracking.findings import log_calibration

        return log_calibration(self, run_id, run_name or f"calibrate {self.key}")

    def __str__(self) -> str:
        from mlflow_ragmetrics.views.text import calibration_text

        return calibration_text(self)


def _record(name: str, agreement: Agreement | None, auroc: Estimate | None) -> dict[str, Any]:
    if agreement is None:
        return {"verdicts": name}
    kappa = agreement.kappa
    return {
        "verdicts": name,
        "rows": agreement.rows,
        **{figure: getattr(agreement, figure) for figure in FIGURES},
        "kappa": kappa.value if kappa else None,
        "kappa_low": kappa.low if kappa else None,
        "kappa_high": kappa.high if kappa else None,
        "auroc": auroc.value if auroc else None,
        "found": agreement.found,
        "false_alarms": agreement.false_alarms,
        "missed": agreement.missed,
        "cleared": agreement.cleared,
    }
