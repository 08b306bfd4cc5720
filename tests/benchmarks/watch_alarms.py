"""How often ``ragmetrics watch`` raises a false alarm, how soon it notices a change, and whether it names the cause.

``python tests/benchmarks/watch_alarms.py [--repetitions 100] [--looks 10000] [--changes 60] [--seed 0]``. A look scores
5 traces and 20 anchors; a score is the share of four claims that hold, with answers of unequal quality (mean 0.8). A
judge that scores an anchor again gives one in twelve times another verdict on one claim. A false alarm is any alarm
within all looks of a watch where nothing changes. A change comes after 10 to 100 passes and stays; it is named rightly
where the first alarm has its cause.
"""

from __future__ import annotations

import argparse
from statistics import median

import numpy as np

from mlflow_ragmetrics.monitoring.state import Alarm, WatchState

PER_LOOK, ANCHORS, CLAIMS, QUALITY, FLIPS = 5, 20, 4, 0.8, 1 / 12
CHANGES = ("system", "judge", "system and judge")


def first_alarm(
    generator: np.random.Generator, looks: int, *, change: str = "", at: int = 0, size: float = 0.0
) -> tuple[int, Alarm] | None:
    """The look with the first alarm, from 0, and the alarm; scores fall by ``size`` from the look ``at`` on."""
    truth = generator.binomial(CLAIMS, generator.beta(6 * QUALITY, 6 * (1 - QUALITY), ANCHORS)) / CLAIMS
    state = WatchState(["faithfulness"], anchors="anchors")
    for look in range(looks):
        has_changed = bool(change) and look >= at
        stricter = size if has_changed and "judge" in change else 0.0
        quality = QUALITY - (size if has_changed and "system" in change else 0.0)

        def anchors(stricter: float = stricter) -> dict[str, list[float]]:
            flipped = generator.choice([-1, 1], ANCHORS) * (generator.random(ANCHORS) < FLIPS) / CLAIMS
            return {"faithfulness": list(np.clip(np.clip(truth + flipped, 0, 1) - stricter, 0, 1))}

        state.begin(look)
        answers = generator.binomial(CLAIMS, generator.beta(6 * quality, 6 * (1 - quality), PER_LOOK)) / CLAIMS
        state.observe({"faithfulness": list(np.clip(answers - stricter, 0, 1))})
        state.observe_anchors(anchors())
        found = state.new_alarms(anchors)
        if found:
            return look, found[0]
    return None


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--looks", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    seeds = np.random.SeedSequence(given.seed)
    print("| change | size | rightly named | found within 500 looks | looks until then (median) |")
    print("|---|---|---|---|---|")
    right = found_in_all = 0  # of changes of one of the two
    for change in CHANGES:
        for size in (0.1, 0.2, 0.3):
            delays, named = [], 0
            for seed in seeds.spawn(given.changes):
                generator = np.random.default_rng(seed)
                at = int(generator.integers(10, 101))
                found = first_alarm(generator, at + 500, change=change, at=at, size=size)
                if found is not None:
                    delays.append(found[0] - at)
                    named += found[1].cause == change
            if change != "system and judge":
                right, found_in_all = right + named, found_in_all + len(delays)
            wait = f"{median(delays):g}" if delays else "–"
            print(
                f"| {change} | {size} | {named} of {len(delays)} | {len(delays)} of {given.changes} | {wait} |",
                flush=True,
            )
    print(f"\nRightly named, where one of the two has changed: {right} of {found_in_all}", flush=True)
    false = sum(
        first_alarm(np.random.default_rng(seed), given.looks) is not None for seed in seeds.spawn(given.repetitions)
    )
    print(f"False alarms: {false} of {given.repetitions} watches of {given.looks} looks")


if __name__ == "__main__":
    main()
