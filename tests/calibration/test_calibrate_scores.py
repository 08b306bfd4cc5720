from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.report import Report

from .reports import labelled_report

REPORT, GOOD = labelled_report()
VALUES = np.array([row.scores["faithfulness"].value for row in REPORT.rows])


def test_a_threshold_that_beats_the_default_is_taken() -> None:
    found = rm.calibrate(REPORT, GOOD)
    assert found.beats_default
    assert 0.6 < found.threshold < 0.75
    assert found.agreement is found.at_chosen
    assert "beats 0.5" in str(found)
    assert found.metrics["calibration/faithfulness/threshold"] == found.threshold


def test_a_default_that_is_as_good_is_kept_and_said_to_be() -> None:
    found = rm.calibrate(REPORT, GOOD, default=0.68)
    assert not found.beats_default
    assert found.threshold == 0.68
    assert found.agreement is found.at_default
    assert "0.68 is kept" in str(found)


def test_the_default_is_the_suites_threshold() -> None:
    report, good = labelled_report(threshold=0.68)
    assert rm.calibrate(report, good).default == 0.68


def test_a_score_that_is_the_threshold_itself_passes() -> None:
    rows = [Row(Sample(id=str(n)), {"faithfulness": Score((0.2, 0.5)[n % 2])}) for n in range(40)]
    found = rm.calibrate(Report(rows), [bool(n % 2) for n in range(40)], default=0.5)
    assert (found.at_default.found, found.at_default.false_alarms) == (20, 0)


def test_few_labels_choose_no_threshold() -> None:
    report, good = labelled_report(20)
    found = rm.calibrate(report, good)
    assert found.gain is None
    assert found.threshold == 0.5
    assert "too few" in str(found)


def test_grades_are_correlated_and_can_be_parted() -> None:
    grades = np.clip(np.round(5 * VALUES + np.random.default_rng(0).normal(0, 0.5, VALUES.size)), 1, 5)
    with pytest.raises(InvalidDataError, match=r"range of faithfulness, 0 to 1 .*; rescale .* good_from"):
        rm.calibrate(REPORT, grades.tolist())
    found = rm.calibrate(REPORT, (grades / 5).tolist())
    assert found.pearson.value == pytest.approx(pearsonr(VALUES, grades)[0])
    assert found.spearman.value == pytest.approx(spearmanr(VALUES, grades)[0])
    assert found.at_default is None
    assert "good_from" in str(found)
    parted = rm.calibrate(REPORT, grades.tolist(), good_from=4)
    assert parted.at_default.missed + parted.at_default.found == int((grades < 4).sum())


def test_rows_of_a_group_stay_together() -> None:
    found = rm.calibrate(REPORT, "human", groups="document")
    assert found.gain.low > 0


def test_what_cannot_be_used_is_refused_by_name() -> None:
    with pytest.raises(InvalidOptionError, match="'nonsense' is not a metric of the report"):
        rm.calibrate(REPORT, GOOD, key="nonsense")
    with pytest.raises(InvalidOptionError, match="no row has 'nowhere'"):
        rm.calibrate(REPORT, GOOD, groups="nowhere")
    with pytest.raises(InvalidOptionError, match="groups has length 3, not 200"):
        rm.calibrate(REPORT, GOOD, groups=["a", "b", "c"])
    with pytest.raises(InvalidDataError, match="no row has a label"):
        rm.calibrate(REPORT, [None] * 200)


def test_labels_of_one_kind_only_still_give_what_can_be_known() -> None:
    found = rm.calibrate(REPORT, [True] * 200)
    assert found.auroc is None
    assert found.at_default.recall is None
    assert found.gain is None
    assert "kappa at 0.5: not defined" in str(found)


def scored(values: list[float], **columns: list[object]) -> Report:
    """Rows with these scores of coherence, and these columns."""
    rows = [
        Row(Sample(id=str(n), metadata={name: column[n] for name, column in columns.items()}), {"coherence": Score(v)})
        for n, v in enumerate(values)
    ]
    return Report(rows)


def test_a_score_at_the_threshold_is_good_and_the_last_bits_do_not_count() -> None:
    report = scored([0.3, 0.3 - 1e-12, 0.29, 0.9])
    found = rm.calibrate(report, [True, True, False, True], default=0.1 + 0.2).at_default
    assert (found.found, found.false_alarms, found.missed, found.cleared) == (1, 0, 0, 3)


def test_without_a_threshold_a_half_is_the_default() -> None:
    assert rm.calibrate(scored([0.9, 0.1]), [True, False]).default == 0.5
