"""Small files that expand to large ones are refused in one sentence before they take memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.files import read_file

_READ = """
import resource, sys
from itertools import islice
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.files import read_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(len(list(islice(read_file(sys.argv[1]), 1))))
except InvalidDataError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def zeros(path: Path, before: str, megabytes: int, after: str) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(before.encode())
        for _ in range(megabytes):
            file.write(b"0" * 2**20)
        file.write(after.encode())


def write(path: Path, data: Any, codec: str | None = "zstd", **options: Any) -> None:
    """A table or a batch as Parquet or as an Arrow file, by the name's ending."""
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(data, path, compression=codec or "none", **options)
        return
    with pyarrow.ipc.new_file(str(path), data.schema, options=pyarrow.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write(data, **options)


def read_apart(path: Path) -> tuple[str, int]:
    done = subprocess.run([sys.executable, "-c", _READ, str(path)], capture_output=True, text=True, check=True)
    said, grown = done.stdout.strip().rsplit("\n", 1)
    return said, int(grown)


@pytest.mark.parametrize(
    ("name", "before", "after", "expected"),
    [
        ("a.jsonl.gz", '{"question": "', '"}\n', "line 1: the line is longer than 64 MB; set RAGMETRICS_MAX_LINE_MB"),
        pytest.param(
            *("a.csv.gz", "question\n", "\n", "line 2: the line is longer than 64 MB; set RAGMETRICS_MAX_LINE_MB"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_one_long_line(tmp_path: Path, name: str, before: str, after: str, expected: str) -> None:
    zeros(tmp_path / name, before, 400, after)
    said, grown = read_apart(tmp_path / name)
    assert expected in said
    assert "\n" not in said
    assert grown < 350


def test_a_parquet_file_of_few_bytes_and_many_values(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    values = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 3000, pyarrow.int32()), ["x" * 2**20])
    write(path, pyarrow.table({"question": values}))
    assert path.stat().st_size < 20_000
    said, grown = read_apart(path)
    assert said == "1"
    assert grown < 600


@pytest.mark.slow
def test_many_wide_columns_of_a_parquet_file(tmp_path: Path) -> None:
    wide = pyarrow.array(["x" * (8 * 2**20)])
    write(tmp_path / "a.parquet", pyarrow.table({f"c{number}": wide for number in range(100)}))
    said, grown = read_apart(tmp_path / "a.parquet")
    assert "its row group 1 is longer than 256 MB; set RAGMETRICS_MAX_EXPANDED_MB to raise the limit" in said
    assert grown < 300


@pytest.mark.parametrize(
    ("kind", "codec"),
    [
        ("new_file", "zstd"),
        ("new_stream", "lz4"),
        pytest.param("new_file", "lz4", marks=pytest.mark.slow),
        pytest.param("new_stream", "zstd", marks=pytest.mark.slow),
    ],
)
def test_compressed_columns_of_an_arrow_file(tmp_path: Path, kind: str, codec: str) -> None:
    wide = pyarrow.array(["x" * (100 * 2**20)])
    batch = pyarrow.record_batch({f"c{number}": wide for number in range(6)})
    options = pyarrow.ipc.IpcWriteOptions(compression=codec)
    with getattr(pyarrow.ipc, kind)(str(tmp_path / "a.arrow"), batch.schema, options=options) as writer:
        writer.write_batch(batch.slice(0, 0))
        writer.write_batch(batch)
    said, grown = read_apart(tmp_path / "a.arrow")
    assert "is longer than 256 MB; set RAGMETRICS_MAX_EXPANDED_MB to raise the limit" in said
    assert grown < 300


@pytest.mark.parametrize("codec", ["zstd", pytest.param(None, marks=pytest.mark.slow)])
def test_an_arrow_file_of_few_bytes_and_many_values(tmp_path: Path, codec: str | None) -> None:
    indices = pyarrow.array([0] * 1000, pyarrow.int8())
    values = pyarrow.DictionaryArray.from_arrays(indices, ["x" * 2**20])
    batch = pyarrow.record_batch({f"c{number}": values for number in range(6)})
    write(tmp_path / "a.arrow", batch, codec)
    said, grown = read_apart(tmp_path / "a.arrow")
    assert said == "1"
    assert grown < 300


_READ_ALL = _READ.replace("islice(read_file(sys.argv[1]), 1)", "read_file(sys.argv[1])")


def refused(path: Path) -> str:
    """What is said about a file of which all rows are kept."""
    done = subprocess.run([sys.executable, "-c", _READ_ALL, str(path)], capture_output=True, text=True, check=True)
    said, grown = done.stdout.strip().rsplit("\n", 1)
    assert int(grown) < 500
    assert said.endswith("is longer than 256 MB; set RAGMETRICS_MAX_EXPANDED_MB to raise the limit.")
    return said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_rows_that_share_large_texts(tmp_path: Path, name: str) -> None:
    indices = pyarrow.array([0] + [1] * 49, pyarrow.int32())  # the first row is small
    column = pyarrow.DictionaryArray.from_arrays(indices, ["a", "x" * 2**17])
    table = pyarrow.table({f"c{number}": column for number in range(200)})
    write(tmp_path / name, table)
    assert (tmp_path / name).stat().st_size < 200_000
    assert "the text of its first 12 rows" in refused(tmp_path / name)


@pytest.mark.slow
def test_a_list_of_millions_of_texts(tmp_path: Path) -> None:
    rows = [["x"] * 2_000_000] * 2
    write(tmp_path / "a.parquet", pyarrow.table({"contexts": rows}))
    assert "one of its rows" in refused(tmp_path / "a.parquet")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "beginning", "part", "count", "end"),
    [
        ("a.json.gz", "[", "{},", 40_000_000, "{}]"),
        ("a.jsonl.gz", '{"contexts": [', '"",', 15_000_000, '""]}\n'),
    ],
)
def test_compressed_json_of_millions_of_values(
    tmp_path: Path, name: str, beginning: str, part: str, count: int, end: str
) -> None:
    with gzip.open(tmp_path / name, "wt", compresslevel=1) as file:
        file.write(beginning)
        for _ in range(count // 1_000_000):
            file.write(part * 1_000_000)
        file.write(end)
    assert "a part of it" in refused(tmp_path / name)


@pytest.mark.parametrize("kind", ["list_view", "run_end_encoded"])
def test_values_that_overlap_are_not_read(tmp_path: Path, kind: str) -> None:
    column = (
        pyarrow.ListViewArray.from_arrays([0, 0], [1, 2], pyarrow.array(["x", "y"]))
        if kind == "list_view"
        else pyarrow.RunEndEncodedArray.from_arrays([1, 2], ["x", "y"])
    )
    batch = pyarrow.record_batch({"contexts": column})
    write(tmp_path / "a.arrow", batch, None)
    with pytest.raises(InvalidDataError, match=f"a.arrow cannot be read as Arrow: values of type {kind}"):
        list(read_file(tmp_path / "a.arrow"))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_every_way_to_store_the_same_rows_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    texts = ["a", None, "a long text that is not stored in its view", ""] * 600
    numbers = pyarrow.array([1, None, 3, 4] * 600)
    lists = pyarrow.array([["a", "b"], None, [], ["b"]] * 600)
    table = pyarrow.table(
        {
            "plain": texts,
            "shared": pyarrow.array(texts).dictionary_encode(),
            "numbers": numbers.dictionary_encode(),
            "view": pyarrow.array(texts, pyarrow.string_view()),
            "lists": lists,
            "map": pyarrow.array([[("k", "v")]] * 2400, pyarrow.map_(pyarrow.string(), pyarrow.string())),
            "struct": [{"text": "t", "tags": ["x"]}] * 2400,
        }
    )
    if name == "a.parquet":
        write(tmp_path / name, table, row_group_size=1000)
    else:
        with pyarrow.ipc.new_file(str(tmp_path / name), table.schema) as writer:
            writer.write_table(table.slice(3), max_chunksize=1500)
    assert list(read_file(tmp_path / name)) == table.slice(3 if name == "a.arrow" else 0).to_pylist()


def test_rows_that_take_no_bytes_are_refused_where_they_are_too_many(tmp_path: Path) -> None:
    batch = pyarrow.record_batch({"question": pyarrow.nulls(2**30)})
    write(tmp_path / "a.arrow", batch, None)
    said, grown = read_apart(tmp_path / "a.arrow")
    assert "one of its batches is longer than 256 MB" in said
    assert grown < 300


_READ_DAMAGED = """
import random, sys
from pathlib import Path
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.files import read_file
path, chance = Path(sys.argv[1]), random.Random(2)
whole, refused = path.read_bytes(), 0
for number in range(1000):
    damaged = bytearray(whole)
    for _ in range(chance.choice([1, 1, 2, 4])):
        damaged[chance.randrange(number % 2 * len(whole) * 2 // 5, len(whole))] = chance.randrange(256)
    path.write_bytes(damaged)
    try:
        list(read_file(path))
    except InvalidDataError:
        refused += 1
print(refused)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_flipped_bytes_are_an_error_and_do_not_end_the_process(tmp_path: Path, name: str) -> None:
    answers = [f"a{number}" for number in range(20)]
    table = pyarrow.table({"question": ["What?"] * 20, "answer": answers, "contexts": [["x", "y"]] * 20})
    write(tmp_path / name, table, **({"row_group_size": 7} if name == "a.parquet" else {}))
    done = subprocess.run([sys.executable, "-c", _READ_DAMAGED, str(tmp_path / name)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 500


def test_the_limits_are_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGMETRICS_MAX_LINE_MB", "1")
    monkeypatch.setenv("RAGMETRICS_MAX_CELL_MB", "1")
    monkeypatch.setenv("RAGMETRICS_MAX_EXPANDED_MB", "1")
    long = "0" * 2**21
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": long}) + "\n")
    (tmp_path / "a.csv").write_text('question\n"' + "line\n" * 2**18 + '"\n')
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        json.dump([{"question": long}], file)
    for name, option in [("a.jsonl", "LINE"), ("a.csv", "CELL"), ("a.json.gz", "EXPANDED")]:
        with pytest.raises(
            InvalidDataError, match=f"is longer than 1 MB; set RAGMETRICS_MAX_{option}_MB to raise the limit"
        ):
            list(read_file(tmp_path / name))
    for variable in ("LINE", "CELL", "EXPANDED"):
        monkeypatch.delenv(f"RAGMETRICS_MAX_{variable}_MB")
    for name in ("a.jsonl", "a.csv", "a.json.gz"):
        assert len(list(islice(read_file(tmp_path / name), 2))) == 1
