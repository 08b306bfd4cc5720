from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.configuration.yaml_text import with_threshold
from tests.calibration.reports import labelled_report

SUITE = """\
# our suite
preset: white_paper   # the five
thresholds:
  # from the pilot
  correctness: 0.6    # agreed
  faithfulness: 0.7   # to be calibrated
language: en
"""


def test_a_threshold_is_changed_and_all_else_kept() -> None:
    assert with_threshold(SUITE, "faithfulness", 0.57) == SUITE.replace("faithfulness: 0.7 ", "faithfulness: 0.57 ")


@pytest.mark.parametrize(
    "text",
    [
        SUITE,
        "preset: white_paper",
        "preset: white_paper\nthresholds:\n",
        "thresholds: {}\npreset: white_paper\n",
        "preset: white_paper\nthresholds: {correctness: 0.6, faithfulness: 0.7}  # flow\n",
        "thresholds:\n    correctness: 0.6\npreset: white_paper\n",
        "",
    ],
)
@pytest.mark.parametrize("key", ["faithfulness", "answer_relevance"])
def test_the_new_text_means_the_old_one_with_the_threshold(text: str, key: str) -> None:
    if not text:
        with pytest.raises(rm.InvalidDataError, match="must be a mapping"):
            with_threshold(text, key, 0.57)
        return
    before, after = yaml.safe_load(text), yaml.safe_load(with_threshold(text, key, 0.57))
    assert after == {**before, "thresholds": {**(before.get("thresholds") or {}), key: 0.57}}
    assert all(comment in with_threshold(text, key, 0.57) for comment in ("# flow",) if comment in text)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.floats(0, 1).map(lambda x: round(x, 3))), st.booleans()
)
def test_any_mapping_of_thresholds_can_be_changed(thresholds: dict[str, float], flow: bool) -> None:
    text = yaml.safe_dump({"preset": "full", "thresholds": thresholds}, default_flow_style=flow)
    assert yaml.safe_load(with_threshold(text, "c", 0.25))["thresholds"] == {**thresholds, "c": 0.25}


def test_a_preset_of_thresholds_is_refused_with_the_way_out() -> None:
    with pytest.raises(rm.InvalidOptionError, match=r"faithfulness\(threshold=0.57\)"):
        with_threshold("thresholds: balanced\n", "faithfulness", 0.57)


def test_only_a_threshold_that_beats_the_default_is_saved(tmp_path: Path) -> None:
    report, good = labelled_report()
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE, encoding="utf-8")
    assert not rm.calibrate(report, good, default=0.68).save(path)
    assert path.read_text(encoding="utf-8") == SUITE
    found = rm.calibrate(report, good)
    assert found.save(path)
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["thresholds"]["faithfulness"] == found.threshold
    (metric,) = (m for m in rm.Suite.from_yaml(path).metrics if m.key == "faithfulness")
    assert metric.threshold == found.threshold


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    report, good = labelled_report()
    with pytest.raises(rm.InvalidDataError, match=r"gone\.yaml"):
        rm.calibrate(report, good).save(tmp_path / "gone.yaml")
