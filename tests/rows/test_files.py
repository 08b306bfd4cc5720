from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows import read_rows, read_samples
from mlflow_ragmetrics.rows.files import extension_of
from mlflow_ragmetrics.rows.json_objects import _only_list

ROWS = [
    {"question": "q1", "answer": "N/A"},
    {"question": 'q, "2"\nnext', "answer": "-"},
    {"question": "ё\t🤷", "answer": "None"},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if ".json" in path.name:
        text = json.dumps(rows) if ".jsonl" not in path.name else "\n".join(map(json.dumps, rows)) + "\n\n"
    else:
        with open(path, "w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]), delimiter="\t" if ".tsv" in path.name else ",")
            writer.writeheader()
            writer.writerows(rows)
        text = path.read_bytes().decode()
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize(
    "name", ["a.tsv", "a.csv", "a.jsonl", "a.json", "a.parquet", "a.CSV", "a.jsonl.gz", "a.tsv.gz"]
)
def test_every_kind_of_file_round_trips(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, ROWS)
    assert list(read_rows(path)) == ROWS
    assert [sample.answer for sample in read_samples(str(path))] == ["N/A", "-", "None"]


@given(
    st.lists(
        st.fixed_dictionaries(
            {"answer": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)}
        ),
        min_size=1,
    )
)
def test_any_text_survives_jsonl_and_csv(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    folder = tmp_path_factory.mktemp("files")
    assert list(read_rows(write(folder / "a.jsonl", rows))) == rows
    numbered = [{"id": f"{number}", **row} for number, row in enumerate(rows)]
    assert list(read_rows(write(folder / "a.csv", numbered))) == numbered


def test_lists_in_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(
        '\ufeffqid\tdocument_ids\tcontexts\n1\t[\'<urn:uuid:1>\']\t"[""a"", ""b""]"\n2\tx\n', encoding="utf-8"
    )
    first, second = read_samples(path)
    assert (first.id, first.gold_doc_ids, first.texts) == ("1", ("<urn:uuid:1>",), ("a", "b"))
    assert (second.gold_doc_ids, second.contexts) == (("x",), None)


def test_an_mlflow_table(tmp_path: Path) -> None:
    path = tmp_path / "rag_rows.json"
    path.write_text('{"columns": ["id", "answer"], "data": [["1", "a"], ["2", null]]}')
    assert [sample.answer for sample in read_samples(path)] == ["a", None]


def test_large_cells_leave_the_limit_of_the_csv_module_alone(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    path = write(tmp_path / "a.csv", [{"answer": "x" * 300_000}, {"answer": "y"}])
    rows = read_rows(path)
    assert len(next(rows)["answer"]) == 300_000
    assert csv.field_size_limit() == limit
    assert len(list(rows)) == 1


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
        ("a.csv", b"", ["no rows"]),
        ("a.csv", b"question,answer\n", ["no rows"]),
        ("a.jsonl", b"\n\n", ["no rows"]),
        ("a.json", b"", ["no rows"]),
        ("a.json", b"[]", ["no rows"]),
        ("a.csv", "answer\n東京タワー\n".encode("shift_jis"), ["save the file as UTF-8"]),
        ("a.csv", b"answer,answer\na,b\n", ["'answer'", "twice"]),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", ["line 3", "3 cells", "header of 2"]),
        ("a.csv", b'a,b\n"1,2\n', ["line 2", "quotes"]),
        ("a.csv", b'a,b\n"1" x,2\n', ["line 2", "quotes"]),
        ("a.jsonl", b'{"a": 1}\n{"a": }\n', ["line 2", "invalid JSON", "column 7"]),
        ("a.jsonl", b'{"a": 1}\n[1]\n', ["line 2", "a list", "object"]),
        ("a.jsonl", b"[" * 100_000, ["line 1"]),
        ("a.json", b'{"a": 1}', ["a dict", "list of objects", "`a`"]),
        ("a.json", b'{"a": [{"x": 1}], "b": [{"y": 1}]}', ["`a`, `b`"]),
        ("a.json", b"3", ["an int", "list of objects"]),
        ("a.xlsx", b"no workbook", ["Excel"]),
        ("a.run", b"q1 Q0 d1 1 0.5 x\n" * 30 + b"q1 d1\n", ["line 31", "TREC"]),
        ("a.json", b'[{"a": 1}, [2]]', ["row 2", "a list"]),
        ("a.json", b'[{"a":\n }]', ["line 2"]),
        ("a.json", b'{"columns": ["a"], "data": [[1], [1, 2]]}', ["row 2", "1 cells"]),
        ("a.parquet", b"not parquet", ["Parquet"]),
        ("a.jsonl.gz", b"not gzip", ["cannot be read"]),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path: Path, name: str, content: bytes, words: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidDataError) as caught:
        list(read_rows(path))
    assert all(word in str(caught.value) for word in [name, *words]), str(caught.value)


def test_a_path_without_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match=r"none\.csv does not exist"):
        list(read_rows(tmp_path / "none.csv"))
    with pytest.raises(InvalidDataError, match="has no file of rows"):
        list(read_rows(tmp_path))


def test_an_empty_cell_is_missing_in_every_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("question,answer,contexts,expected,doc_ids,said,seen\nWhy?,,,,,,\n")
    (sample,) = read_samples(path)
    assert (sample.answer, sample.contexts, sample.references, sample.retrieved_doc_ids) == (None, None, None, None)
    (mapped,) = read_samples(path, {"answer": "said", "contexts": "seen"})
    assert (mapped.answer, mapped.contexts) == (None, None)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_key_given_twice_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('{"answer": "a", "answer": "b"}' if name == "a.jsonl" else '[{"answer": "a", "answer": "b"}]')
    with pytest.raises(InvalidDataError, match=rf"{name}.*: an object has 'answer' twice"):
        list(read_rows(path))


ROW = [{"answer": "a"}]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"rows": ROW, "data": ["x"]}, ROW),
        ({"data": ["x"]}, ["x"]),
        ({"data": ROW, "rows": [{"answer": "b"}]}, ROW),
        ({"rows": ROW, "other": [{"answer": "b"}]}, ROW),
        ({**dict.fromkeys("abcdef"), "data": "x"}, r"must be a list of objects .*\(its keys: `a`, .*, `e`\)"),
        ({"one": ROW, "other": ROW}, "has several lists"),
        ({"metrics": [{"name": "x"}], "entries": ROW}, ROW),
        ({"predictions": ROW}, ROW),
    ],
)
@pytest.mark.filterwarnings("ignore:the rows of")
def test_the_list_of_objects_in_an_object_has_the_rows(content: dict[str, Any], expected: list[Any] | str) -> None:
    if isinstance(expected, list):
        assert _only_list(content, "rows.json") == expected
    else:
        with pytest.raises(InvalidDataError, match=expected):
            _only_list(content, "rows.json")


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("rows.v2.CSV", ".csv"),
        ("rows.csv.bak", None),
        ("rows.json.gz", ".json"),
        ("rows.parquet.gz", None),
        ("x", None),
    ],
)
def test_the_last_ending_says_how_a_file_is_read(name: str, extension: str | None) -> None:
    assert extension_of(name) == extension


@pytest.mark.parametrize("name", ["a\0.csv", "a" * 5000 + ".csv", "\ud800.csv"], ids=ascii)
def test_what_can_be_no_name_of_a_file_is_refused(name: str) -> None:
    with pytest.raises(InvalidDataError):
        list(read_samples(name))
