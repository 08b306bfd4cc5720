"""The true score from few labels: coverage and width by simulation, and what chosen labels save on real ones.

``python tests/benchmarks/statistics_true_score.py [--repetitions 4000] [--data mtrag.dev.jsonl …]``. ``width`` is how
many times as wide the intervals are as the correlation ρ of judge and labels allows: √(1 − ρ²(1 − n/N)) of those of
labels alone. ``published`` is PPI++ with its normal limits.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlflow_ragmetrics.statistics.agreement import Agreement
from mlflow_ragmetrics.statistics.label_choice import choose_rows, expected_errors, label_probabilities, score_doubt
from mlflow_ragmetrics.statistics.prevalence import rogan_gladen
from mlflow_ragmetrics.statistics.true_score import ppi_mean, true_difference, true_mean

ROWS, LABELS = 400, (40, 80)
BUDGETS = (40, 60, 80, 120)
Pair = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, float], Pair]


def shares(generator: np.random.Generator, mean: float) -> Pair:
    truth = generator.beta(3 * mean, 3 * (1 - mean), ROWS)
    return truth, np.clip(0.7 * truth + 0.3 * generator.random(ROWS) + generator.normal(0, 0.1, ROWS), 0, 1)


def verdict_and_verdict(generator: np.random.Generator, mean: float) -> Pair:
    truth = generator.random(ROWS) < mean
    return truth.astype(float), np.where(generator.random(ROWS) < 0.85, truth, ~truth).astype(float)


def verdict_and_share(generator: np.random.Generator, mean: float) -> Pair:
    truth = (generator.random(ROWS) < mean).astype(float)
    return truth, np.clip(generator.normal(0.5 + 0.35 * (truth - 0.5), 0.2), 0, 1)


def grades(generator: np.random.Generator, mean: float) -> Pair:
    """Of 1 to 4, as people's; four at the rate of ``mean``."""
    truth = generator.choice([1.0, 2.0, 3.0, 4.0], ROWS, p=[*(np.array([0.2, 0.3, 0.5]) * (1 - mean)), mean])
    return truth, np.clip((truth - 1) / 3 * 0.6 + 0.4 * generator.random(ROWS), 0, 1)


DRAWS: dict[str, Draw] = {
    "shares": shares,
    "verdicts, judged by verdicts": verdict_and_verdict,
    "verdicts, judged by shares": verdict_and_share,
    "grades 1 to 4": grades,
}


def truth_of(draw: Draw, mean: float) -> float:
    return 4 * mean + (1 - mean) * (0.2 + 0.6 + 1.5) if draw is grades else mean


def labelled(truth: np.ndarray, number: int) -> np.ndarray:
    return np.where(np.arange(truth.size) < number, truth, np.nan)


def coverage(repetitions: int) -> None:
    print(f"\n{ROWS} rows{'':<32}{'labels':>7}{'covers':>8}{'width':>8}{'ρ':>6}{'alone':>8}{'published':>11}")
    for name, draw in DRAWS.items():
        for mean in (0.5, 0.7, 0.9):
            for number in LABELS:
                figures = simulated(draw, mean, number, repetitions)
                cells = "{:>8.1f}{:>8.3f}{:>6.2f}{:>8.1f}{:>11.1f}".format(*figures)
                print(f"{name}, mean {mean}".ljust(40) + f"{number:>7}{cells}", flush=True)


def simulated(draw: Draw, mean: float, number: int, repetitions: int) -> tuple[float, ...]:
    generator, truth = np.random.default_rng([number, int(10 * mean)]), truth_of(draw, mean)
    held, widths, correlations = np.zeros(3), np.zeros(2), []
    for _ in range(repetitions):
        y, f = draw(generator, mean)
        labels = labelled(y, number)
        ours, alone = true_mean(labels, f), true_mean(labels, np.zeros(ROWS))
        published = ppi_mean(y[:number], f[:number], f[number:])
        held += [found.low <= truth <= found.high for found in (ours, alone, published)]
        widths += [found.high - found.low for found in (ours, alone)]
        correlations.append(np.corrcoef(y, f)[0, 1])
    rho = float(np.mean(correlations))
    width = widths[0] / widths[1] / np.sqrt(1 - rho**2 * (1 - number / ROWS))
    ours, alone, published = 100 * held / repetitions
    return ours, width, rho, alone, published


def differences(repetitions: int) -> None:
    print(f"\nDifference of two systems (0.7 and 0.8), {ROWS} rows{'':<8}{'labels':>7}{'same rows':>11}{'apart':>8}")
    for name, draw in DRAWS.items():
        truth = truth_of(draw, 0.8) - truth_of(draw, 0.7)
        for number in LABELS:
            generator, held = np.random.default_rng(number), np.zeros(2)
            for _ in range(repetitions):
                (y_a, f_a), (y_b, f_b) = draw(generator, 0.7), draw(generator, 0.8)
                a, b = labelled(y_a, number), labelled(y_b, number)
                apart = labelled(y_b[::-1], number)[::-1]
                for place, labels in enumerate((b, apart)):
                    found = true_difference(a, f_a, labels, f_b)
                    held[place] += found.low <= truth <= found.high
            cells = "".join(
                f"{100 * share / repetitions:>{size}.1f}" for share, size in zip(held, (11, 8), strict=True)
            )
            print(f"{name:<58}{number:>7}{cells}", flush=True)


def prevalence(repetitions: int) -> None:
    print("\nRogan-Gladen, 300 rows, recall 0.8 of 40 bad ones, specificity 0.9 of 60 good ones: share, covers")
    generator = np.random.default_rng(0)
    for share in (0.05, 0.1, 0.3, 0.5, 0.7, 0.9):
        held = 0
        for _ in range(repetitions):
            found, cleared = int(generator.binomial(40, 0.8)), int(generator.binomial(60, 0.9))
            flagged = int(generator.binomial(300, share * 0.8 + (1 - share) * 0.1))
            known = rogan_gladen(flagged, 300, Agreement(found, 60 - cleared, 40 - found, cleared))
            held += known is not None and known.low <= share <= known.high
        print(f"{share:>8}{100 * held / repetitions:>8.1f}", flush=True)


def real(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, scores and groups: people's and RAGAS's faithfulness (MTRAG), or whether an answer is supported and the
    share of its longer words that the contexts have."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    groups = np.unique([row["group"] for row in rows], return_inverse=True)[1]
    if "human" in rows[0]:
        truth = [(np.mean(row["human"]["faithfulness"]) - 1) / 3 for row in rows]
        return np.array(truth), np.array([row["published"]["rl_f"] for row in rows]), groups
    scores = []
    for row in rows:
        known = set(words(" ".join(row["contexts"])))
        scores.append(np.mean([word in known for word in words(row["answer"])] or [1.0]))
    return np.array([float(row["label"]) for row in rows]), np.array(scores), groups


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if len(word) > 3]


WAYS = ("evenly at random", "spread over groups", "and by score_doubt", "and by expected_errors")


def chosen(path: Path, repetitions: int) -> None:
    """Each time the groups are drawn again with all their rows, and labels chosen among these; the truth is the mean of
    the file's labels. Intervals are those of groups; ``saved`` says how many fewer labels than at random give the same
    mean squared width, which in labels at random is a + b / n."""
    y, f, groups = real(path)
    errors = expected_errors(f, y)
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    rho = np.corrcoef(y, f)[0, 1]
    print(f"\n{path.name}: its {len(members)} groups ({y.size} rows) drawn again, ρ {rho:.2f}: covers, width, saved")
    print(f"{'labels':>8}{'as rows':>10}" + "".join(f"{name:>26}" for name in WAYS))
    held, squares = np.zeros((2, len(BUDGETS), len(WAYS)))
    as_rows = np.zeros(len(BUDGETS))
    for place, number in enumerate(BUDGETS):
        generator = np.random.default_rng(number)
        for seed in range(repetitions):
            drawn = generator.integers(0, len(members), len(members))
            rows = np.concatenate([members[group] for group in drawn])
            codes = np.repeat(np.arange(drawn.size), [members[group].size for group in drawn])
            for way in range(len(WAYS)):
                probabilities = np.full(rows.size, number / rows.size)
                if way > 1:
                    importance = (score_doubt(f), errors)[way - 2][rows]
                    probabilities = label_probabilities(importance, number)
                picked = choose_rows(probabilities, groups=codes if way else None, seed=seed)
                labels = np.full(rows.size, np.nan)
                labels[picked] = y[rows][picked]
                found = true_mean(labels, f[rows], probabilities=probabilities, groups=codes)
                held[place, way] += found.low <= y.mean() <= found.high
                squares[place, way] += (found.high - found.low) ** 2
                if not way:
                    alone = true_mean(labels, f[rows])
                    as_rows[place] += alone.low <= y.mean() <= alone.high
    held, squares = 100 * held / repetitions, squares / repetitions
    slope, floor = np.polyfit(1 / np.array(BUDGETS), squares[:, 0], 1)
    for place, number in enumerate(BUDGETS):
        saved = 1 - number * (squares[place] - floor) / slope
        saved -= saved[0]
        cells = zip(held[place], np.sqrt(squares[place]), 100 * saved, strict=True)
        line = "".join(f"{f'{share:.1f}  {width:.4f}  {less:+.0f} %':>26}" for share, width, less in cells)
        print(f"{number:>8}{100 * as_rows[place] / repetitions:>10.1f}{line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    for path in options.data:
        chosen(path, min(options.repetitions, 1000))
    coverage(options.repetitions)
    differences(options.repetitions)
    prevalence(options.repetitions)


if __name__ == "__main__":
    main()
