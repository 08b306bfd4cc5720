"""Pictures show what there is, and are left out when there is nothing."""

from __future__ import annotations

from xml.etree import ElementTree

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.views.pictures import causes_picture, composite_picture, distribution_picture


def drawn(picture: str | None, name: str) -> list[ElementTree.Element]:
    assert picture is not None
    return ElementTree.fromstring(picture).findall(f".//{{http://www.w3.org/2000/svg}}{name}")


def texts(picture: str | None) -> list[str | None]:
    return [each.text for each in drawn(picture, "text")]


def test_a_histogram_a_scored_metric() -> None:
    scores = [rm.Score(value=0.2), rm.Score(value=0.2), rm.Score(value=1.0)]
    picture = distribution_picture({"a<b": scores, "b": [rm.Score()]})
    assert texts(picture) == ["a<b", "mean 0.467, n = 3", "2", "0.0", "0.5", "1.0"]
    low, high = drawn(picture, "rect")[1:]
    assert (low.get("x"), low.get("height"), high.get("x"), high.get("height")) == ("60", "130", "285", "65")
    assert drawn(picture, "line")[1].get("x1") == "140"


def test_scores_beyond_one_widen_the_histogram() -> None:
    picture = distribution_picture({"a": [rm.Score(value=-1.0), rm.Score(value=1.0)]})
    assert texts(picture)[3:] == ["-1.0", "0.0", "0.5", "1.0"]
    assert [each.get("x") for each in drawn(picture, "rect")[1:]] == ["0", "285"]


def test_a_bar_a_weighted_part() -> None:
    scores = [rm.combine({"a": 0.5, "b": 1.0, "c": 0.1}, {"a": 3, "b": 1, "c": 0})]
    picture = composite_picture("overall", scores)
    assert texts(picture) == ["overall: mean of its parts", "a × 3", "0.500", "b × 1", "1.000"]
    assert [each.get("width") for each in drawn(picture, "rect")[1:]] == ["165", "330"]


def test_a_bar_a_diagnosis_that_rows_have() -> None:
    assert texts(causes_picture({"generation": 3, "retrieval": 0})) == [
        "Diagnosis: which part failed, rows",
        *("generation", "3"),
    ]


def test_nothing_scored_has_no_picture() -> None:
    assert distribution_picture({"a": [rm.Score()]}) is None
    assert composite_picture("overall", [rm.Score()]) is None
    assert causes_picture({"generation": 0}) is None
