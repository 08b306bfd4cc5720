"""Text files other than comma-separated UTF-8 are detected and reported, or refused."""

from __future__ import annotations

import gzip
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows import read_rows
from mlflow_ragmetrics.rows.files import check_delimiter

RUSSIAN = (
    "id;question;answer\n1;Какова высота башни?;Высота башни 330 метров, она построена давно.\n2;Где она?;В Париже.\n"
)
FRENCH = "id,question\n1,Où est la tour Eiffel élevée à Paris, près de la Seine ?\n".replace("Paris,", "Paris")


def read(path: Path, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = list(read_rows(path, **options))
    return rows, [str(each.message) for each in caught]


@pytest.mark.parametrize(("delimiter", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")])
def test_another_delimiter_is_found_and_said(tmp_path: Path, delimiter: str, name: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f'question{delimiter}answer\n"How; high, really | ?"{delimiter}330 m\n', encoding="utf-8")
    rows, said = read(path)
    assert rows == [{"question": "How; high, really | ?", "answer": "330 m"}]
    assert said == [f"the cells of {path} were read as separated by {name}, not commas"]


def test_a_table_of_one_column_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("question; or what is asked\nHow high?\nHow long; or how wide; or both?\n", encoding="utf-8")
    rows, said = read(path)
    assert (len(rows), said) == (2, [])
    assert rows[0] == {"question; or what is asked": "How high?"}


def test_a_given_delimiter_holds(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("question;answer\nHow?;So.\n", encoding="utf-8")
    assert read(path, delimiter=";") == ([{"question": "How?", "answer": "So."}], [])
    assert list(read(path, delimiter=",")[0][0]) == ["question;answer"]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r", "cp866", "iso8859-5"])
def test_the_encoding_is_detected_and_said(tmp_path: Path, ending: str, encoding: str) -> None:
    path = tmp_path / f"rows{ending}"
    content = RUSSIAN.encode(encoding)
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    rows, said = read(path)
    assert [row["question"] for row in rows] == ["Какова высота башни?", "Где она?"]
    assert re.fullmatch(r".* is not UTF-8 text and was read as \w+; save it as UTF-8 if that is wrong", said[0])
    assert "semicolons" in said[1]


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_western_european_is_detected(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(FRENCH.encode(encoding))
    rows, said = read(path)
    assert rows[0]["question"] == "Où est la tour Eiffel élevée à Paris près de la Seine ?"
    assert "cp1252" in said[0]


def test_too_little_text_to_detect_its_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("answer\nrésumé\n".encode("latin-1"))
    with pytest.raises(InvalidDataError, match="is not UTF-8 text"):
        list(read_rows(path))


def test_utf_16_is_read_by_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_bytes(RUSSIAN.replace(";", "\t").encode("utf-16"))
    assert read(path)[0][1]["answer"] == "В Париже."


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("answer", ["In Paris.", "В Париже."])
@pytest.mark.parametrize("text", ["question,answer\nWhere?,{}\n", '{{"question": "Where?", "answer": "{}"}}\n'])
def test_utf_16_is_read_without_its_mark_too(tmp_path: Path, text: str, answer: str, encoding: str) -> None:
    path = tmp_path / ("rows.jsonl" if text.startswith("{") else "rows.csv")
    path.write_bytes(text.format(answer).encode(encoding))
    assert read(path) == ([{"question": "Where?", "answer": answer}], [])


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=200))
def test_what_is_utf_8_is_read_as_that(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("utf8") / "rows.jsonl"
    import json

    path.write_text(json.dumps({"question": text}, ensure_ascii=False) + "\n", encoding="utf-8")
    assert read(path) == ([{"question": text}], [])


@pytest.mark.parametrize(("given", "read_as"), [(";", ";"), ("tab", "\t"), ("\\t", "\t"), (None, None)])
def test_delimiters(given: str | None, read_as: str | None) -> None:
    assert check_delimiter(given) == read_as


@pytest.mark.parametrize("given", ["", ";;", "a", '"', "\n", " "])
def test_what_cannot_separate_cells_is_refused(given: str) -> None:
    with pytest.raises(InvalidOptionError, match="must be one character that separates cells"):
        check_delimiter(given)
