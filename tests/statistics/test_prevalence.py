from __future__ import annotations

import numpy as np
import pytest

from mlflow_ragmetrics.statistics.agreement import Agreement
from mlflow_ragmetrics.statistics.prevalence import rogan_gladen


def test_it_is_rogan_and_gladens_share_with_lang_and_reiczigels_interval() -> None:
    found = rogan_gladen(30, 100, Agreement(found=45, false_alarms=10, missed=5, cleared=90))
    assert found is not None
    assert found.value == pytest.approx((0.3 + 0.9 - 1) / (0.9 + 0.9 - 1))
    z2 = 1.959963985**2
    share, recall, specificity = (30 + z2 / 2) / (100 + z2), 46 / 52, 91 / 102
    youden = recall + specificity - 1
    middle = (share + specificity - 1) / youden
    of_recall, of_specificity = recall * (1 - recall) / 52, specificity * (1 - specificity) / 102
    centre = middle + 2 * z2 * (middle * of_recall - (1 - middle) * of_specificity)
    variance = share * (1 - share) / (100 + z2) + middle**2 * of_recall + (1 - middle) ** 2 * of_specificity
    half = np.sqrt(z2 * variance) / youden
    assert (found.low, found.high) == pytest.approx((centre - half, centre + half))


def test_verdicts_no_better_than_chance_say_nothing() -> None:
    assert rogan_gladen(30, 100, Agreement(5, 5, 5, 5)) is None
    assert rogan_gladen(30, 100, Agreement(5, 0, 5, 0)) is None
    assert rogan_gladen(30, 100, Agreement(0, 5, 0, 5)) is None


def test_shares_stay_between_0_and_1() -> None:
    known = Agreement(45, 10, 5, 90)
    few, many = rogan_gladen(0, 100, known), rogan_gladen(100, 100, known)
    assert few is not None
    assert many is not None
    assert (few.value, few.low) == (0.0, 0.0)
    assert (many.value, many.high) == (1.0, 1.0)
    assert few.high == pytest.approx(0.0369935 / (46 / 52), abs=1e-6)
    assert many.low < 1
    extreme = rogan_gladen(100, 100, Agreement(50, 10, 50, 90))
    assert extreme is not None
    assert (extreme.value, extreme.high) == (1.0, 1.0)
    assert extreme.low == pytest.approx(1 - 0.0369935 / (91 / 102), abs=1e-6)


@pytest.mark.parametrize(("flagged", "rows"), [(-1, 5), (6, 5), (0, 0)])
def test_what_cannot_be_is_refused(flagged: int, rows: int) -> None:
    with pytest.raises(ValueError, match="cannot be flagged"):
        rogan_gladen(flagged, rows, Agreement(5, 1, 1, 5))


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_nineteen_of_twenty_intervals_hold_the_truth(share: float) -> None:
    generator, held = np.random.default_rng(7), []
    for _ in range(1500):
        found, cleared = int(generator.binomial(40, 0.8)), int(generator.binomial(60, 0.9))
        flagged = int(generator.binomial(300, share * 0.8 + (1 - share) * 0.1))
        known = rogan_gladen(flagged, 300, Agreement(found, 60 - cleared, 40 - found, cleared))
        assert known is not None
        held.append(known.low <= share <= known.high)
    assert 0.93 <= np.mean(held) <= 0.985
