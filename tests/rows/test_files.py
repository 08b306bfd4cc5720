from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows import read_rows, read_samples
from mlflow_ragmetrics.rows.files import extension_of


def test_lists_in_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(
        '\ufeffqid\tdocument_ids\tcontexts\n1\t[\'<urn:uuid:1>\']\t"[""a"", ""b""]"\n2\tx\n', encoding="utf-8"
    )
    first, second = read_samples(path)
    assert (first.id, first.gold_doc_ids, first.texts) == ("1", ("<urn:uuid:1>",), ("a", "b"))
    assert (second.gold_doc_ids, second.contexts) == (("x",), None)


def test_large_cells_leave_the_limit_of_the_csv_module_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"answer\n{'x' * 300_000}\ny\n")
    usual = csv.field_size_limit(1_000)
    try:
        rows = read_rows(path)
        assert len(next(rows)["answer"]) == 300_000
        assert csv.field_size_limit() == 1_000
        assert len(list(rows)) == 1
        assert csv.field_size_limit() == 1_000
    finally:
        csv.field_size_limit(usual)


@pytest.mark.parametrize("rows", [[{"answer": "a"}, {"answer": "b"}], {"answer": ["a", "b"]}])
def test_json_lines_may_be_indented_json(tmp_path: Path, rows: object) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(rows, indent=2))
    assert [row["answer"] for row in read_rows(path)] == ["a", "b"]


def test_a_delimiter_is_checked_whatever_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"answer": "a"}\n')
    with pytest.raises(InvalidOptionError, match="delimiter='comma' must be one character"):
        next(read_rows(path, "comma"))


def test_rows_are_streamed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"answer": "a"}\nbroken\n')
    rows = read_rows(path)
    assert next(rows) == {"answer": "a"}
    with pytest.raises(InvalidDataError, match="line 2"):
        next(rows)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.pdf", b"x", [".csv, .tsv, .txt", ".jsonl", ".xlsx"]),
        ("a", b"x", ["extension"]),
        ("a.parquet.gz", b"x", ["extension"]),
        ("a.csv.tar.gz", b"x", ["extension"]),
        ("a.csv", b"", ["no rows"]),
        ("a.csv", b"question,answer\n", ["no rows"]),
        ("a.jsonl", b"\n\n", ["no rows"]),
        ("a.json", b"", ["no rows"]),
        ("a.json", b"[]", ["no rows"]),
        ("a.csv", "answer\n東京タワー\n".encode("shift_jis"), ["save the file as UTF-8"]),
        ("a.csv", "answer\nEl café está en España.\n".encode("mac-roman"), ["save the file as UTF-8"]),
        ("a.csv", "answer\nDie Größe steht in Köln.\n".encode("cp850"), ["save the file as UTF-8"]),
        ("a.csv", "answer\nMalmö ligger i Skåne.\n".encode("euc-jp"), ["save the file as UTF-8"]),
        ("a.csv", b"answer,answer\na,b\n", ["'answer'", "twice"]),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", ["line 3", "3 cells", "header of 2"]),
        ("a.csv", b'a,b\n"1,2\n', ["line 2", "quotes"]),
        ("a.csv", b'a,b\n"1" x,2\n', ["line 2", "quotes"]),
        ("a.jsonl", b'{"a": 1}\n{"a": }\n', ["line 2", "invalid JSON", "column 7"]),
        ("a.jsonl", b'{"a": 1}\n[1]\n', ["line 2", "a list", "object"]),
        ("a.jsonl", b"[" * 100_000, ["line 1"]),
        ("a.json", b'{"a": 1}', ["a dict", "list of objects", "`a`"]),
        ("a.json", b'{"a": [{"x": 1}], "b": [{"y": 1}]}', ["`a`, `b`"]),
        ("a.json", b'{"data": ["x"]}', ["its keys: `data`"]),
        ("a.json", b"3", ["an int", "list of objects"]),
        ("a.xlsx", b"no workbook", ["Excel"]),
        ("a.run", b"q1 Q0 d1 1 0.5 x\n" * 30 + b"q1 d1\n", ["line 31", "TREC"]),
        ("a.json", b'[{"a": 1}, [2]]', ["row 2", "a list"]),
        ("a.json", b'[{"a":\n }]', ["line 2"]),
        ("a.json", b'{"columns": ["a"], "data": [[1], [1, 2]]}', ["row 2", "1 cells"]),
        ("a.parquet", b"not parquet", ["Parquet"]),
        ("a.arrow", b"ARROW1 and nothing else", ["Arrow"]),
        ("a.jsonl.gz", b"not gzip", ["cannot be read"]),
        ("a.jsonl", b'{"a": "b", "a": "c"}', ["an object has 'a' twice"]),
        ("a.json", b'[{"a": "b", "a": "c"}]', ["an object has 'a' twice"]),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path: Path, name: str, content: bytes, words: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidDataError) as caught:
        list(read_rows(path))
    assert all(word in str(caught.value) for word in [name, *words]), str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.csv", r"none\.csv does not exist"),
        (".", "has no file of rows"),
        ("a\0.csv", "does not exist|is not the name of a file"),
        ("a" * 5000 + ".csv", "is not the name of a file"),
        ("\ud800.csv", "does not exist|is not the name of a file"),
    ],
    ids=["missing", "folder", "NUL", "long", "surrogate"],
)
def test_a_path_without_file(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(InvalidDataError, match=says):
        list(read_samples(f"{tmp_path}/{name}"))


def test_an_empty_cell_is_missing_in_every_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("question,answer,contexts,expected,doc_ids,said,seen\nWhy?,,,,,,\n")
    (sample,) = read_samples(path)
    assert (sample.answer, sample.contexts, sample.references, sample.retrieved_doc_ids) == (None, None, None, None)
    (mapped,) = read_samples(path, {"answer": "said", "contexts": "seen"})
    assert (mapped.answer, mapped.contexts) == (None, None)


def test_the_last_ending_says_how_a_file_is_read() -> None:
    names = ("rows.v2.CSV", "rows.csv.bak", "rows.json.gz", "rows.parquet.gz", "x")
    assert [*map(extension_of, names)] == [".csv", None, ".json", None, None]
