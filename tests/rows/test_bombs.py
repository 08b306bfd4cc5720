"""Small files that expand to large ones are refused in one sentence before they take memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable
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
path, most = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(len(list(islice(read_file(path), int(most)))))
except InvalidDataError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
SMALL_FIRST, TEXTS = [0] + [1] * 49, ["a", "x" * 2**17]
EXPANDED = "is longer than 256 MB; set RAGMETRICS_MAX_EXPANDED_MB to raise the limit."


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def compressed(path: Path, before: str, part: str, count: int, after: str) -> None:
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(before)
        for _ in range(count):
            file.write(part)
        file.write(after)


def write(path: Path, data: Any, codec: str | None = "zstd", **options: Any) -> None:
    """A table as Parquet or as Arrow's file or stream, by the file's name."""
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(data, path, compression=codec or "none", **options)
        return
    begin = pyarrow.ipc.new_stream if path.stem == "stream" else pyarrow.ipc.new_file
    with begin(str(path), data.schema, options=pyarrow.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write(data.slice(0, 0))
        writer.write(data)


def wide(columns: int, megabytes: int) -> pyarrow.Table:
    """A row of texts that compress well."""
    column = pyarrow.array(["x" * megabytes * 2**20])
    return pyarrow.table({f"c{number}": column for number in range(columns)})


def shared(indices: list[int], texts: list[str], columns: int) -> pyarrow.Table:
    """Rows of texts that are stored once for each column."""
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array(indices, pyarrow.int32()), texts)
    return pyarrow.table({f"c{number}": column for number in range(columns)})


def read_apart(path: Path, most: int = 1) -> tuple[str, int]:
    """What is said of a file or the number of its rows, at most so many, and the megabytes that reading took."""
    done = subprocess.run([sys.executable, "-c", _READ, path, f"{most}"], capture_output=True, text=True, check=True)
    said, grown = done.stdout.strip().rsplit("\n", 1)
    return said, int(grown)


@pytest.mark.parametrize(
    ("name", "before", "after", "line"),
    [
        ("a.jsonl.gz", '{"question": "', '"}\n', 1),
        slow("a.csv.gz", "question\n", "\n", 2),
    ],
)
def test_one_long_line(tmp_path: Path, name: str, before: str, after: str, line: int) -> None:
    compressed(tmp_path / name, before, "0" * 2**20, 400, after)
    said, grown = read_apart(tmp_path / name)
    assert f"line {line}: the line is longer than 64 MB; set RAGMETRICS_MAX_LINE_MB" in said
    assert "\n" not in said
    assert grown < 350


ALL = 10**9


@pytest.mark.parametrize(
    ("name", "codec", "make", "most", "said", "limit"),
    [
        ("a.parquet", "zstd", lambda: shared([0] * 3000, ["x" * 2**20], 1), 1, None, 600),
        ("a.arrow", "zstd", lambda: shared([0] * 1000, ["x" * 2**20], 6), 1, None, 300),
        slow("a.arrow", None, lambda: shared([0] * 1000, ["x" * 2**20], 6), 1, None, 300),
        ("a.arrow", "zstd", lambda: wide(6, 100), 1, "one of its rows", 400),
        slow("a.arrow", "lz4", lambda: wide(6, 100), 1, "one of its rows", 400),
        ("stream.arrow", "lz4", lambda: wide(6, 100), 1, "one of its rows", 400),
        slow("stream.arrow", "zstd", lambda: wide(6, 100), 1, "one of its rows", 400),
        slow("a.parquet", "zstd", lambda: wide(100, 8), 1, "its row group 1", 300),
        ("a.arrow", None, lambda: pyarrow.table({"c": pyarrow.nulls(2**30)}), 1, "one of its batches", 300),
        slow("a.parquet", "zstd", lambda: shared(SMALL_FIRST, TEXTS, 200), ALL, "the text of its first 12 rows", 500),
        slow("a.arrow", "zstd", lambda: shared(SMALL_FIRST, TEXTS, 200), ALL, "the text of its first 12 rows", 500),
        slow("a.parquet", "zstd", lambda: pyarrow.table({"c": [["x"] * 2_000_000] * 2}), ALL, "one of its rows", 500),
    ],
)
def test_tables_of_few_bytes_and_large_rows(
    tmp_path: Path, name: str, codec: str | None, make: Callable[[], Any], most: int, said: str | None, limit: int
) -> None:
    write(tmp_path / name, make(), codec)
    answer, grown = read_apart(tmp_path / name, most)
    assert answer == "1" if said is None else answer.endswith(f"{said} {EXPANDED}")
    assert grown < limit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "before", "part", "count", "after"),
    [
        ("a.json.gz", "[", "{}," * 1_000_000, 40, "{}]"),
        ("a.jsonl.gz", '{"contexts": [', '"",' * 1_000_000, 15, '""]}\n'),
    ],
    ids=["json", "jsonl"],
)
def test_compressed_json_of_millions_of_values(
    tmp_path: Path, name: str, before: str, part: str, count: int, after: str
) -> None:
    compressed(tmp_path / name, before, part, count, after)
    answer, grown = read_apart(tmp_path / name, ALL)
    assert answer.endswith(f"a part of it {EXPANDED}")
    assert grown < 500


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("list_view", pyarrow.ListViewArray.from_arrays([0, 0], [1, 2], pyarrow.array(["x", "y"]))),
        ("run_end_encoded", pyarrow.RunEndEncodedArray.from_arrays([1, 2], ["x", "y"])),
    ],
)
def test_values_that_overlap_are_not_read(tmp_path: Path, kind: str, column: Any) -> None:
    write(tmp_path / "a.arrow", pyarrow.table({"contexts": column}), None)
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


LONG, MANY_LINES = "0" * 2**21, "line\n" * 2**18


@pytest.mark.parametrize(
    ("name", "text", "option"),
    [
        ("a.jsonl", f'{{"question": "{LONG}"}}', "LINE"),
        ("a.csv", f'question\n"{MANY_LINES}"', "CELL"),
        ("a.json.gz", f'[{{"question": "{LONG}"}}]', "EXPANDED"),
    ],
    ids=["line", "cell", "expanded"],
)
def test_the_limits_are_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, option: str
) -> None:
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert len(list(read_file(tmp_path / name))) == 1
    monkeypatch.setenv(f"RAGMETRICS_MAX_{option}_MB", "1")
    said = f"is longer than 1 MB; set RAGMETRICS_MAX_{option}_MB to raise the limit"
    with pytest.raises(InvalidDataError, match=said):
        list(read_file(tmp_path / name))
