"""Whatever a judge replies and a file holds: what can be used, or an error of ours, soon."""

from __future__ import annotations

import contextlib
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.core.question import Claims, Grade, RelatedChunks, Tone, Verify
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.judges.replies import parse_object, read_reply
from mlflow_ragmetrics.judges.tasks.sheet import sheet_of
from mlflow_ragmetrics.readers import read_samples
from tests.faults.budget import in_time, inputs
from tests.faults.strange import texts

QUESTIONS = (
    Claims("A b c.", "answer"),
    Verify(("a", "b"), ("x y", "z")),
    RelatedChunks("a b", ("x y", "z")),
    Grade("correctness", "q", "a", "r"),
    Grade("answer_relevance", "q", "a"),
    Tone("q", "I do not know"),
)
KEYS = ("claims", "verdicts", "related", "grades")
words = st.one_of(
    texts, st.sampled_from(["c1", "c2", "p1", "p2", "answer", "correctness", "SUPPORTED", "4/5", "5", "NaN"])
)
inner = st.recursive(
    st.one_of(words, st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats()),
    lambda value: st.one_of(
        st.lists(value, max_size=4),
        st.dictionaries(
            st.sampled_from(["id", "claims", "verdict", "quotes", "passage", "text", "quote", "reason", "grade"]), value
        ),
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)


@inputs(300, 40_000)
@given(before=texts, content=objects, after=texts, cut=st.integers(0, 400))
def test_any_reply(before: str, content: dict[str, Any], after: str, cut: int) -> None:
    with in_time():
        reply = read_reply((before + json.dumps(content) + after)[: cut or None], KEYS)
        for data in (reply.data, content):
            for question in QUESTIONS:
                if data is not None:
                    assert set(sheet_of([question]).read(data)) == {question}


@pytest.mark.parametrize(
    "text",
    ['{"a":' * 200_000, '{"a":[' * 160_000, "[{" * 500_000, '{"' * 500_000, ('{"a":[' + "1," * 1000) * 500, "!" * 10**6,
     "{" * 10**6, '{"a":1,' * 140_000, ",   " * 250_000, "<think>" * 140_000, '{"a":' + "9" * 10**6, '{"a":"' + '\\"{' * 300_000],  # noqa: E501
    ids=lambda text: text[:8],
)  # fmt: skip
def test_a_reply_built_to_take_long(text: str) -> None:
    with in_time(3):
        assert parse_object(text, KEYS) is None


def test_numbers_beyond_floats_are_no_grades() -> None:
    for number in ("1" + "0" * 400, "1e999", "NaN", "9" * 5000):
        data = parse_object('{"grades": [{"id": "correctness", "reason": "", "grade": ' + number + "}]}")
        question = Grade("correctness", "q", "a", "r")
        assert data is None or "grade" in str(sheet_of([question]).read(data)[question])


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
        rm.Suite.from_yaml(path)


@inputs(15, 1500)
@given(ending=st.sampled_from([".csv", ".json", ".jsonl", ".parquet"]), content=rough)
def test_any_file_on_the_command_line(ending: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows{ending}"
        path.write_bytes(content)
        result = CliRunner().invoke(main, ["evaluate", str(path), "-m", "rouge", "--no-log"])
    assert result.exit_code in (0, 2), result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit)
