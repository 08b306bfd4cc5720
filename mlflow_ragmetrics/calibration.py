"""``calibrate`` compares a metric's scores with people's labels, to show how far you can trust it.

``rows_to_label`` chooses rows for people to label.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd

from mlflow_ragmetrics.core.options import check_count, shown
from mlflow_ragmetrics.display.document import Block, Document, Heading, Line, Table, number
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.labels import Labels, labelled_scores, labels_of, named_key
from mlflow_ragmetrics.results.pairing import measured
from mlflow_ragmetrics.results.results import Source, results_of
from mlflow_ragmetrics.rows.data import Groups
from mlflow_ragmetrics.statistics.agreement import (
    Agreement,
    Estimate,
    ThresholdGain,
    agreement,
    auroc,
    correlation,
    threshold_gain,
)
from mlflow_ragmetrics.text.messages import counted

Values = np.ndarray[Any, Any]
_COLUMNS = ("verdicts", "rows", "accuracy", "balanced_accuracy", "precision", "recall", "f1", "kappa", "auroc")
_COUNTS = ("found", "false_alarms", "missed", "cleared")
FIGURES = ("accuracy", "balanced_accuracy", "precision", "recall", "f1")
_SHOWN = ("id", "trace_id", "question", "answer", "contexts", "reference")
_DEFAULT = 0.5
_SLACK = 1e-9


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
        verdicts = [OtherVerdicts(name, outcome, self.auroc) for name, outcome in own if outcome is not None]
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
        outcome = self.agreement
        if outcome is None:
            return ""
        alarms = outcome.found + outcome.false_alarms
        right = f"{outcome.found} of its {counted(alarms, 'alarm')} are right" if alarms else "it raises no alarm"
        bad = counted(outcome.found + outcome.missed, "bad answer")
        balanced = outcome.balanced_accuracy
        chance = "no better" if balanced == 0.5 else "worse"
        is_poor = balanced is not None and balanced <= 0.5
        words = f". This is {chance} than chance (balanced accuracy {balanced:.3f})" if is_poor else ""
        return f"{'The judge' if self.judge else self.key} finds {outcome.found} of {bad}; {right}{words}."

    def _blocks(self) -> list[Block]:
        """The verdict in words, counts, agreement, correlations, confusion, and the decision on the threshold."""
        counts = [counted(self.rows, "row")]
        counts += [f"{self.unlabelled} not labelled"] if self.unlabelled else []
        counts += [f"{self.unscored} not measured"] if self.unscored else []
        heading = f"{self.key} compared with people's labels: {', '.join(counts)}"
        blocks: list[Block] = [Line(self.plain)] if self.plain else []
        if self.at_default is None:
            blocks.append(Heading(heading))
        else:
            bad = self.at_default.found + self.at_default.missed
            ending = f"{bad} bad. Precision, recall and F1 are for finding bad rows."
            blocks += [Heading(f"{heading}; {ending}"), self._figures_table()]
        estimates = {"AUROC": self.auroc, "Spearman": self.spearman, "Pearson": self.pearson}
        blocks += [Line(f"{name}: {_with_interval(each)}") for name, each in estimates.items() if each is not None]
        if (outcome := self.agreement) is not None:
            title = f"at {self.threshold:g}"
            columns = {
                title: ["people: good", "people: bad"],
                "metric: good": [str(outcome.cleared), str(outcome.missed)],
                "metric: bad": [str(outcome.false_alarms), str(outcome.found)],
            }
            blocks.append(Table(columns, left=[title]))
            blocks.append(Line(f"kappa {title}: {_with_interval(outcome.kappa)}"))
        return [*blocks, Line(self.decision, "good" if self.beats_default else "")]

    def _figures_table(self) -> Table:
        headings = {"balanced_accuracy": "balanced", "f1": "F1", "auroc": "AUROC"}
        records = self.table.to_dict("records")
        shown = {headings.get(name, name): [_cell(record[name]) for record in records] for name in _COLUMNS}
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


def calibrate(
    report: Source | Sequence[Source],
    labels: Labels,
    *,
    key: str | None = None,
    default: float | None = None,
    good_from: float | None = None,
    groups: Groups | None = None,
    words: Mapping[str, float | None] | None = None,
) -> Calibration:
    """Measure how well the metric ``key`` of ``report`` agrees with people, and find the threshold that agrees best.

    ``report``: an evaluation, or several of the same rows by different judges. The result compares the others with the
    first, so that you can choose a judge. The judges of a panel are compared too.

    ``labels``: a mapping from id to label, one label per row, the name of a column of the data, a file or frame with
    ``id`` and ``label``, or traces with people's feedback. True, 1 and words like "supported" are good; 0.5 and
    "partially supported" are not. ``words`` defines other words (``{"Kind of": 0.5, "Skip": None}``), and a warning
    names those without a definition. If labels are grades, those of ``good_from`` or higher are good. ``default``: the
    threshold in use (the suite's, else 0.5). It is kept unless cross-validation finds a significantly better one.
    ``groups``: a column, or one name per row, shared by rows that belong together, such as answers to one question
    (default: the groups of the report, else the conversations of traces). If lower is better, rows above the threshold
    are bad. Only measured rows count. ``InvalidDataError`` if no measured row is labelled, an id has two different
    labels or, without ``good_from``, a label is outside the metric's range; ``InvalidOptionError`` for an unknown key.
    """
    for name, value in (("default", default), ("good_from", good_from)):
        if value is not None and not (isinstance(value, (int, float)) and abs(value) <= sys.float_info.max):
            raise InvalidOptionError(f"{name}={shown(value)} must be a number", param=name)
    sources: Sequence[Source] = report if isinstance(report, (list, tuple)) else [cast("Source", report)]
    if not sources:
        raise InvalidOptionError("report: an empty list has no evaluation", param="report")
    first, *others = sources
    results = results_of(first)
    chosen = named_key(results, key)
    if key is not None and results.better(chosen) is None:
        message = f"key: neither a high nor a low value of {key} is better, so labels cannot agree with it"
        raise InvalidOptionError(message, param="key")
    scores, grades, names = labelled_scores(results, chosen, labels, groups, words, in_range=good_from is None)
    known = ~(np.isnan(scores) | np.isnan(grades))
    if not known.any():
        raise InvalidDataError(f"no row with a label has a measured score of {chosen}")

    def groups_in(places: Values) -> Values | None:
        return None if names is None else np.array(names, dtype=object)[places]

    usual = _threshold(results, chosen) if default is None else default
    calibration = Calibration(
        key=chosen,
        rows=int(known.sum()),
        unlabelled=int(np.isnan(grades).sum()),
        unscored=int(np.isnan(scores).sum()),
        default=usual,
        pearson=correlation(scores[known], grades[known], "pearson", groups=groups_in(known)),
        spearman=correlation(scores[known], grades[known], "spearman", groups=groups_in(known)),
        judge=results._judges,
    )
    is_good = grades >= good_from if good_from is not None else grades > 0.5
    if good_from is None and not np.isin(grades[known], (0.0, 0.5, 1.0)).all():  # grades
        return calibration

    def turned(values: Any) -> Any:
        """Scores for which higher is better, so that bad rows are below a threshold."""
        return 1.0 - values if results.better(chosen) is False else values

    def verdicts(given: Values, threshold: float) -> tuple[Agreement, Estimate | None]:
        """The agreement of the scores of all rows (NaN: none) with the labels, and their AUROC."""
        both = known & ~np.isnan(given)
        values, bad = turned(given[both]), ~is_good[both]
        flagged = values < turned(threshold) - _SLACK
        return agreement(flagged, bad, groups=groups_in(both)), auroc(values, bad, groups=groups_in(both))

    at_default, area = verdicts(scores, usual)
    gain = threshold_gain(turned(scores[known]), ~is_good[known], turned(usual), groups=groups_in(known))
    gain = gain and replace(gain, chosen=round(turned(gain.chosen), 12))
    beside = [(name, panel_values, usual) for name, panel_values in _panel_scores(report, chosen).items()]
    beside += [_other_judge(other, results, chosen, usual) for other in others]
    return replace(
        calibration,
        at_default=at_default,
        at_chosen=verdicts(scores, gain.chosen)[0] if gain else None,
        gain=gain,
        auroc=area,
        beside=tuple(OtherVerdicts(name, *verdicts(given, threshold)) for name, given, threshold in beside),
    )


def _threshold(results: Evaluation, key: str) -> float:
    return float((results.description.get("thresholds") or {}).get(key, _DEFAULT))


def _other_judge(other: Source, results: Evaluation, key: str, default: float) -> tuple[str, Values, float]:
    """The name, scores and threshold of another evaluation of the same rows, matched by id."""
    found = results_of(other)
    if key not in found.keys:
        raise InvalidDataError(f"{found.name} has no metric {key}; use one of {', '.join(found.keys) or 'none'}")
    scores = dict(zip(map(str, found.table["id"]), measured(found, key), strict=True))
    values = np.array([scores.get(str(name), np.nan) for name in results.table["id"]])
    if np.isnan(values).all():
        raise InvalidDataError(f"{found.name} and {results.name} have no scored row in common, by id")
    usual = _threshold(found, key) if "thresholds" in found.description else default
    return found._judges or found.name, values, usual


def _panel_scores(source: Any, key: str) -> dict[str, Values]:
    """Return each panel judge's scores by row; empty for a single judge, or if only tables exist."""
    if not isinstance(source, Report):
        return {}
    model_scores = [row.scores[key].model_scores or {} if key in row.scores else {} for row in source.rows]
    names = list(dict.fromkeys(name for scores in model_scores for name in scores))
    scores = {name: np.array([scores.get(name) for scores in model_scores], dtype=float) for name in names}
    return scores if len(names) > 1 else {}


def rows_to_label(
    report: Source, *, key: str | None = None, budget: int = 60, labels: Labels | None = None, seed: int = 0
) -> pd.DataFrame:
    """Choose ``budget`` rows of ``report`` for people to label, with the fields they need and an empty ``label``.

    The rows cover the whole range of the scores of ``key``: sorted by score, at equal steps from a random start. All
    rows are equally likely, so ``Report.true_score`` stays unbiased. Rows with one of ``labels`` are left out, and so
    is the score, because it would influence people. The same ``seed`` gives the same rows. ``InvalidOptionError`` for
    an unknown key or a budget below 1, ``InvalidDataError`` if no row is left.
    """
    check_count("budget", budget)
    results = results_of(report)
    key = named_key(results, key)
    table = results.table
    if "id" not in table.columns:
        raise InvalidDataError(f"{results.name} has no ids, which are needed to read labels back")
    scores = measured(results, key)
    is_open = ~np.isnan(scores)
    if labels is not None:
        is_open &= np.array([label is None for label in labels_of(labels, results, key)])
    left = np.flatnonzero(is_open)
    if not left.size:
        raise InvalidDataError(f"no row with a measured score of {key} is without a label")
    ordered = left[np.lexsort((table["id"].astype(str).to_numpy()[left], scores[left]))]
    number = min(budget, left.size)
    drawn = (np.arange(number) + np.random.default_rng(seed).random()) * left.size / number
    chosen = table.iloc[np.sort(ordered[drawn.astype(int)])][[name for name in _SHOWN if name in table.columns]]
    return chosen.reset_index(drop=True).assign(label=pd.Series([None] * number, dtype=object))
