from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError, InvalidOptionError
from mlflow_ragmetrics.rows import read_rows, read_samples


def test_rows_are_taken_one_by_one() -> None:
    def endless() -> Iterator[dict[str, str]]:
        while True:
            yield {"question": "q"}

    samples = read_samples(endless())
    assert [next(samples).id[16:] for _ in range(3)] == ["", "-2", "-3"]


def test_columns() -> None:
    rows = [{"mine": "a"}, {"other": 1, "prediction": "b"}, Sample(id="x", answer="c")]
    samples = list(read_samples(rows, {"answer": "mine"}))
    assert [sample.answer for sample in samples] == ["a", None, "c"]
    assert samples[1].metadata == {"other": 1}
    with pytest.raises(InvalidOptionError, match=r"'yours'.*'mine', 'other'"):
        list(read_samples(rows, {"answer": "yours"}))
    assert list(read_samples([], {"answer": "yours"})) == []


@pytest.mark.parametrize("data", [None, 5, b"x", {"question": "q"}, Sample()])
def test_what_holds_no_rows(data: object) -> None:
    with pytest.raises(InvalidDataError, match="iterable of mappings"):
        list(read_rows(data))


def test_a_column_may_begin_in_a_later_row() -> None:
    rows = [{"answer": "a"}, {"answer": "b", "asked": "why?"}]
    assert [sample.question for sample in read_samples(rows, {"question": "asked"})] == [None, "why?"]


def test_bad_rows_are_numbered() -> None:
    with pytest.raises(InvalidDataError, match="Row 2 is a list"):
        list(read_samples([{"answer": "a"}, ["b"]]))
    with pytest.raises(InvalidFieldError, match="Rows 1 and 2"):
        list(read_samples([{"id": "a"}, {"id": "a"}]))
    with pytest.raises(InvalidDataError, match="'a' twice"):
        list(read_rows(pd.DataFrame([[1, 2]], columns=["a", "a"])))


@pytest.mark.parametrize(
    "contexts",
    [
        [{"id": 1, "payload": {"heading": "About the tower", "body_md": "It is high."}}],
        {"hits": {"hits": [{"_id": "1", "_source": {"heading": "About the tower", "body_md": "It is high."}}]}},
        '[{"id": 1, "heading": "About the tower", "body_md": "It is high."}]',
    ],
)
def test_the_text_of_a_vector_stores_passages_can_be_mapped(contexts: Any) -> None:
    rows = [{"question": "How high?", "contexts": contexts}]
    assert "--columns contexts.text=" in next(read_samples(rows)).invalid["contexts"]
    (sample,) = read_samples(rows, {"contexts.text": "body_md"})
    assert (sample.texts, sample.retrieved_doc_ids) == (("It is high.",), ("1",))
