from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.results.labels import labels_of
from mlflow_ragmetrics.results.results import results_of
from mlflow_ragmetrics.rows.values import as_number

from ..calibration.reports import labelled_report

REPORT, GOOD = labelled_report(6)
RESULTS = results_of(REPORT)
EXPECTED = [float(each) for each in GOOD]
IDS = [f"row {place}" for place in range(6)]


class Frame(dict[str, Any]):
    """A frame of another library than pandas, such as Polars."""

    columns = ("id", "label")


@pytest.mark.parametrize(
    "labels",
    [
        GOOD,
        tuple(GOOD),
        np.array(GOOD),
        ["supported" if each else "unsupported" for each in GOOD],
        dict(zip(IDS, GOOD, strict=True)),
        "human",
        pd.DataFrame({"id": IDS, "label": GOOD}),
        pd.Series(GOOD, index=IDS),
        Frame(id=IDS, label=GOOD),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_labels_come_in_many_forms(labels: Any) -> None:
    assert labels_of(labels, RESULTS, "faithfulness") == EXPECTED


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_labels_come_from_files(tmp_path: Path, ending: str) -> None:
    frame, path = pd.DataFrame({"id": IDS, "label": GOOD}), tmp_path / f"labels{ending}"
    if ending == ".csv":
        frame.to_csv(path, index=False)
    elif ending == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    assert labels_of(path, RESULTS, "faithfulness") == EXPECTED
    assert labels_of(str(path), RESULTS, "faithfulness") == EXPECTED
    with pytest.raises(InvalidDataError, match="columns id and label, but have id, mine"):
        labels_of(frame.rename(columns={"label": "mine"}), RESULTS, "faithfulness")


@pytest.mark.parametrize("twice", [[0, 1], ["yes", "no"], [0.5, "unsupported"], ["odd", "even"]])
@pytest.mark.parametrize("form", [pd.DataFrame, pd.Series])
def test_two_labels_for_one_id_are_refused_and_the_same_twice_is_not(form: Any, twice: list[Any]) -> None:
    def given(labels: list[Any]) -> Any:
        ids = ["row 1", "row 1", "row 2"]
        return form({"id": ids, "label": labels}) if form is pd.DataFrame else form(labels, index=ids)

    with pytest.raises(InvalidDataError, match="two different labels: row 1; keep one"):
        labels_of(given([*twice, 1]), RESULTS, "faithfulness")
    for same in ([1, "yes"], [1, None], [None, 1.0]):
        assert labels_of(given([*same, 0]), RESULTS, "faithfulness")[1:3] == [1.0, 0.0]


def test_rows_without_a_label_have_none() -> None:
    assert labels_of({"row 2": 0, "unknown": 1}, RESULTS, "faithfulness") == [None, None, 0.0, None, None, None]


@pytest.mark.parametrize(
    ("label", "number"),
    [
        (True, 1.0),
        ("No", 0.0),
        (" CONTRADICTED ", 0.0),
        ("Supported", 1.0),
        ("entailed", 1.0),
        ("related", 1.0),
        ("neutral", 0.0),
        ("not supported", 0.0),
        ("unrelated", 0.0),
        ("4", 4.0),
        (3.5, 3.5),
        (None, None),
        ("", None),
        (float("nan"), None),
        (pd.NA, None),
        (np.bool_(False), 0.0),
    ],
)
def test_words_and_numbers(label: Any, number: float | None) -> None:
    assert as_number(label) == number


def test_what_means_nothing_is_refused() -> None:
    with pytest.raises(InvalidDataError, match="'perhaps'"):
        as_number("perhaps")
    with pytest.raises(InvalidDataError, match="labels has length 2, not 6"):
        labels_of([True, False], RESULTS, "faithfulness")
    with pytest.raises(InvalidDataError, match="no label matches a row"):
        labels_of({"elsewhere": True}, RESULTS, "faithfulness")
    with pytest.raises(InvalidDataError, match="does not exist"):
        labels_of(Path("nowhere.csv"), RESULTS, "faithfulness")
