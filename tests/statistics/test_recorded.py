"""Every statistic of random samples (small, tied, skewed, grouped, with gaps) is as recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlflow_ragmetrics.statistics import agreement, intervals, significance
from tests.recorded import check_recorded

SIZES = (2, 3, 7, 12, 40, 150)


def sample(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Scores from 0 to 1, other scores of the same rows, bad rows, and groups of about four."""
    draw = np.random.default_rng([rows, seed])
    kind = seed % 3
    scores = draw.beta(5, 2, rows) if kind == 0 else np.round(draw.random(rows) * 4) / 4
    others = np.clip(scores + draw.normal(0.05, 0.2, rows) * (draw.random(rows) < 0.5), 0, 1)
    bad = draw.random(rows) < 1 - scores if kind < 2 else draw.random(rows) < 0.1
    bad[:2] = True, False
    return scores, others, bad, [f"g{n}" for n in draw.integers(0, max(1, rows // 4), rows)]


def gapped(values: np.ndarray, share: int) -> np.ndarray:
    """The values with every ``share``-th missing."""
    found = values.copy()
    found[::share] = np.nan
    return found


def plain(result: Any) -> Any:
    """The result as JSON."""
    if is_dataclass(result) and not isinstance(result, type):
        return plain(asdict(result))
    if isinstance(result, dict):
        return {name: plain(each) for name, each in result.items()}
    if isinstance(result, (list, tuple)):
        return [plain(each) for each in result]
    if isinstance(result, (np.ndarray, np.generic)):
        return plain(result.tolist())
    return result


def of_sample(rows: int, seed: int) -> dict[str, Callable[[], Any]]:
    a, b, bad, groups = sample(rows, seed)
    both = np.column_stack([b - a, gapped(b - a, 5), np.zeros(rows)])
    said, inside = a < 0.6, np.arange(rows) % 3 > 0
    labels = gapped(np.round(b), 2)
    grades = np.round(4 * np.column_stack([a, b, gapped(a, 3)])) / 4
    found: dict[str, Callable[[], Any]] = {
        "power": lambda: significance.power_of(both, 0.05),
        "best_threshold": lambda: agreement.best_threshold(a, bad, 0.5),
        "alpha": lambda: agreement.krippendorff_alpha(grades),
        "equal": lambda: significance.equal_columns(np.column_stack([a, b, a]).T),
        "holm": lambda: significance.holm(a.tolist()),
        "wilson": lambda: intervals.wilson_limits(float(bad.mean()), rows, 1.96),
        "agresti-min": lambda: intervals.agresti_min_interval(
            float((b - a).mean()), float(((b - a) ** 2).mean()), rows, (-1.0, 1.0), 1.96
        ),
        "unseen": lambda: intervals.unseen_share(rows),
        "crossed": lambda: intervals.crossed_interval(np.column_stack([a, b]).T),
    }
    for name, own in (("", None), (" in groups", groups)):
        found |= {
            f"interval{name}": lambda own=own: intervals.bootstrap_intervals([a], groups=own, resamples=999)[0],
            f"gapped interval{name}": lambda own=own: intervals.bootstrap_intervals([gapped(a, 4)], groups=own)[0],
            f"paired intervals{name}": lambda own=own: intervals.paired_intervals(both, groups=own),
            f"paired tests{name}": lambda own=own: significance.paired_tests(both, groups=own),
            f"welch{name}": lambda own=own: significance.welch_tests(np.column_stack([a, b]), inside, own),
            f"agreement{name}": lambda own=own: agreement.agreement(said, bad, groups=own),
            f"auroc{name}": lambda own=own: agreement.auroc(a, bad, groups=own),
            f"pearson{name}": lambda own=own: agreement.correlation(a, b, "pearson", groups=own),
            f"spearman{name}": lambda own=own: agreement.correlation(a, b, "spearman", groups=own),
            f"true mean{name}": lambda own=own: intervals.true_mean(labels, a, groups=own),
            f"threshold gain{name}": lambda own=own: agreement.threshold_gain(a, bad, 0.5, groups=own),
        }
    return found


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return plain(call())
    except ValueError as error:
        return f"{type(error).__name__}: {error}"


def test_figures_are_as_recorded() -> None:
    found = {
        f"{rows} rows, sample {seed}, {name}": outcome(call)
        for rows in SIZES
        for seed in range(3)
        for name, call in of_sample(rows, seed).items()
    }
    check_recorded(found, Path(__file__).with_name("recorded.json"))


def test_sample_sizes_are_as_recorded() -> None:
    found = {}
    for spread in (0.05, 0.2, 0.45):
        for detect in (0.01, 0.05, 0.2):
            found[f"{spread}, {detect}"] = [outcome(lambda s=spread, d=detect: significance.rows_needed(s, d))]
            found[f"{spread}, {detect}"] += [
                outcome(lambda s=spread, n=rows: significance.smallest_difference(s, n)) for rows in (5, 50, 500)
            ]
    found["about"] = [significance.about(number) for number in (1, 9, 11, 94, 137, 1_234, 98_765)]
    check_recorded(found, Path(__file__).with_name("recorded_sizes.json"))
