"""Whatever a file contains: usable rows or one of our errors, quickly."""

from __future__ import annotations

import contextlib
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.rows import read_samples
from mlflow_ragmetrics.rows.data import join
from tests.faults.budget import in_time, inputs
from tests.faults.strange import names, records, texts
from tests.faults.test_fuzz_replies import inner, objects


def _read(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(RagMetricsError):
        path = Path(folder) / name
        path.write_bytes(content)
        with in_time():
            list(read_samples(path))


rough = st.one_of(
    st.binary(max_size=200),
    texts.map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(st.one_of(objects, inner), max_size=3).map(lambda rows: "\n".join(map(json.dumps, rows)).encode()),
    st.lists(objects, max_size=3).map(lambda rows: json.dumps(rows).encode()),
    st.lists(st.lists(texts, max_size=4).map(",".join), max_size=4).map(
        lambda rows: "\n".join(rows).encode("utf-8", "replace")
    ),
)


@inputs(200, 30_000)
@given(ending=st.sampled_from([".csv", ".tsv", ".json", ".jsonl", ".jsonl.gz", ".csv.gz", ".parquet"]), content=rough)
def test_any_file(ending: str, content: bytes) -> None:
    _read(f"rows{ending}", content)
    if ending.endswith(".gz"):
        _read(f"rows{ending}", gzip.compress(content))


@inputs(100, 10_000)
@given(place=st.integers(0, 10_000), flip=st.integers(1, 255), kind=st.sampled_from(["parquet", "gz"]))
def test_a_file_with_a_damaged_byte(place: int, flip: int, kind: str) -> None:
    content = bytearray(_PARQUET if kind == "parquet" else _GZIP)
    content[place % len(content)] ^= flip
    _read("rows.parquet" if kind == "parquet" else "rows.jsonl.gz", bytes(content))


def _parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"answer": ["a", "ё"] * 20, "contexts": [["x"], []] * 20}), sink)
    return sink.getvalue().to_pybytes()


_PARQUET = _parquet()
_GZIP = gzip.compress(b'{"answer": "a b c", "reference": "d"}\n' * 20)

yaml_values = st.one_of(
    texts.map(lambda text: text.replace("\x00", " ")),
    st.sampled_from(["2020-13-45", "!!int x", "!!bool x", "!!timestamp x", "!!python/object/apply:os.system [x]", "&a [*a]",  # noqa: E501
                     "{", "[" * 200, "9" * 5000, ".nan", "-.inf", "0x_", "1:60:60", "[lexical]", "{a: {b: c}}", "{rouge: {k: .nan}}",  # noqa: E501
                     "[{rouge: &a {x: *a}}]", "[rouge, rouge]", "[{model: 'no:/such', api_key: '${X}'}]", "!!binary '*'", "~"]),  # noqa: E501
)  # fmt: skip
yaml_names = ["preset", "metrics", "weights", "thresholds", "language", "name_prefix", "judges", "embeddings", "retry",
              "rate_limit", "concurrency", "calls", "prompts", "cache", "<<", "? [a]"]  # fmt: skip


@inputs(100, 20_000)
@given(
    entries=st.lists(st.tuples(st.sampled_from(yaml_names), yaml_values), max_size=4), whole=st.one_of(st.none(), rough)
)
def test_any_suite_file(entries: list[tuple[str, str]], whole: bytes | None) -> None:
    text = "\n".join(f"{name}: {value}" for name, value in [("preset", "lexical"), *entries])
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(RagMetricsError):
        path = Path(folder) / "suite.yaml"
        path.write_bytes(whole if whole is not None else text.encode("utf-8", "surrogatepass"))
        with in_time():
            rm.Suite.from_yaml(path)


@inputs(60, 8000)
@given(
    rows=st.lists(st.lists(st.one_of(records, objects), max_size=4), min_size=2, max_size=2), on=st.one_of(texts, names)
)
def test_any_two_sources_joined(rows: list[list[Any]], on: str) -> None:
    with contextlib.suppress(RagMetricsError), in_time():
        list(read_samples(join(rows[0], rows[1], on).rows))
