from __future__ import annotations

import uuid
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from mlflow_ragmetrics.core.score import Chunk
from mlflow_ragmetrics.errors import InvalidFieldError
from mlflow_ragmetrics.rows.passages import chunks_of
from mlflow_ragmetrics.rows.values import elements_of, is_missing, text_of, texts_of

MISSING = [None, float("nan"), np.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN")]
MISSING += ["nan", "NaN", "<NA>", "NaT"]


@pytest.mark.parametrize("value", MISSING, ids=repr)
def test_missing_values(value: object) -> None:
    assert is_missing(value)
    assert text_of(value, "answer") is None
    assert texts_of(value, "gold_doc_ids") is None
    assert chunks_of(value) is None


@pytest.mark.parametrize(
    "value", ["", "None", "N/A", 0, 0.0, False, [], {}, (), b"", np.array([]), pd.Series([1.0])], ids=repr
)
def test_values_that_are_there(value: object) -> None:
    assert not is_missing(value)


@pytest.mark.parametrize(
    ("value", "field", "text"),
    [
        ("", "answer", ""),
        (" N/A ", "answer", " N/A "),
        ("['a']", "answer", "['a']"),
        (3, "answer", "3"),
        (2.5, "answer", "2.5"),
        (np.float64(0.5), "answer", "0.5"),
        (np.str_("x"), "answer", "x"),
        (Decimal("1.10"), "answer", "1.10"),
        (uuid.UUID(int=1), "answer", str(uuid.UUID(int=1))),
        (7, "id", "7"),
        (7.0, "id", "7"),
        (7.5, "id", "7.5"),
        (np.int64(7), "id", "7"),
        (10**400, "id", f"1{'0' * 400}"),
        (Decimal("7E+2"), "id", "700"),
    ],
)
def test_text(value: object, field: str, text: str) -> None:
    assert text_of(value, field) == text


@pytest.mark.parametrize("value", [b"x", ["a"], ("a",), {"a": 1}, True, np.bool_(True), {1}, object(), np.array(["a"])])
def test_text_of_an_invalid_type_names_field_and_type(value: object) -> None:
    with pytest.raises(InvalidFieldError, match=r"`answer` is an? .*text or a number") as caught:
        text_of(value, "answer")
    assert caught.value.field == "answer"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["a", None, float("nan"), "", "  ", "b", 3, pd.NA], ("a", "b", "3")),
        (("a",), ("a",)),
        (np.array(["a", "b"]), ("a", "b")),
        (pd.Series([1, 2]), ("1", "2")),
        (pd.Index(["a"]), ("a",)),
        ('["a", 2, null, NaN]', ("a", "2")),
        ("['<urn:uuid:1>', \"b\"]", ("<urn:uuid:1>", "b")),
        ("['a' 'b'\n 'c, d']", ("a", "b", "c, d")),
        ("['a, b']", ("a, b",)),
        ("[]", ()),
        ("", ()),
        ("  \n", ()),
        ("plain", ("plain",)),
        ("[1] Paris is", ("[1] Paris is",)),
        ("[see below]", ("[see below]",)),
        ("[" * 10_000 + "]" * 10_000, ("[" * 10_000 + "]" * 10_000,)),
        ("{'a'}", ("a",)),
        ("('a', 'b')", ("a", "b")),
        ("(see 'a')", ("(see 'a')",)),
        ("array(['a', 'b'], dtype=object)", ("a", "b")),
        ("[1 2\n 3]", ("1", "2", "3")),
        ("[print('a')]", ("[print('a')]",)),
        ({"a"}, ("a",)),
        ([["a"], ["b"]], ("a", "b")),
    ],
)
def test_lists(value: object, expected: tuple[str, ...]) -> None:
    assert texts_of(value, "gold_doc_ids") == expected


@pytest.mark.parametrize("value", [5, 2.5, True, b"a", {"a": 1}, object(), np.int64(3), np.array(3)])
def test_what_is_no_list(value: object) -> None:
    with pytest.raises(InvalidFieldError, match=r"`gold_doc_ids` is an? "):
        elements_of(value, "gold_doc_ids")


@given(st.lists(st.text().filter(lambda text: text.strip() and not is_missing(text))))
def test_list_literals_round_trip(texts: list[str]) -> None:
    assert texts_of(repr(texts), "contexts") == tuple(texts)


@pytest.mark.parametrize(
    ("element", "chunk"),
    [
        ("text", Chunk("text")),
        (Chunk("c", "1"), Chunk("c", "1")),
        ({"text": "t", "id": 5}, Chunk("t", "5")),
        ({"page_content": "t", "metadata": {"id": "m"}}, Chunk("t", "m", {"id": "m"})),
        ({"content": "t", "doc_uri": "u"}, Chunk("t", "u", {"doc_uri": "u"})),
        ({"content": "t", "metadata": {"doc_uri": "u", "k": 1}}, Chunk("t", "u", {"doc_uri": "u", "k": 1})),
        (
            {"text": "t", "score": 0.5, "id": None, "doc_id": "d"},
            Chunk("t", "d", {"score": 0.5, "doc_id": "d"}),
        ),
        ({"a/b.md": "t"}, Chunk("t", "a/b.md")),
        (SimpleNamespace(page_content="t", metadata={"source": "s"}, id=None), Chunk("t", "s", {"source": "s"})),
        (SimpleNamespace(page_content="t", metadata=None, id="i"), Chunk("t", "i")),
        (Document("t", id="7", metadata={"k": 1}), Chunk("t", "7", {"k": 1})),
    ],
)
def test_chunk_shapes(element: Any, chunk: Chunk) -> None:
    assert chunks_of([element, "", None, float("nan"), {"text": "  "}]) == (chunk,)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("chunk 1:\nfirst\nchunk 2:\nsecond: more\nchunk 3:\nthird", ["first", "second: more", "third"]),
        ("> chunk 1:\nQ: a\n\n> Chunk 2: b", ["Q: a", "b"]),
        ("chunk 1: a chunk 2: b", ["a", "b"]),
        ("chunk 1: only", ["only"]),
        ("chunk 1:\n\nchunk 2:\nb", ["b"]),
        ("before\nchunk 1:\na\nchunk 2:\nb", ["before", "a", "b"]),
        ("It is in chunk 2: see there", ["It is in chunk 2: see there"]),
        ('["a", {"text": "b"}]', ["a", "b"]),
        ("one passage", ["one passage"]),
        ("", []),
        ("[Document(metadata={'k': 1}, page_content='a'), Document(id='7', page_content=\"b's\")]", ["a", "b's"]),
        ("page_content='a' metadata={'k': <Kind.X: 'x'>, 'at': datetime.datetime(2024, 1, 2)}", ["a"]),
        ("[NodeWithScore(node=TextNode(id_='1', text='a', next={<R.NEXT: '3'>: None}), score=0.9)]", ["a"]),
        ("{'page_content': 'a', 'metadata': {'page': nan}}", ["a"]),
        ("[{'text': 'a'}\n {'text': 'b'}]", ["a", "b"]),
        ("Document('a') is LangChain's class.", ["Document('a') is LangChain's class."]),
        ("{'a': 1} is a mapping", ["{'a': 1} is a mapping"]),
        ("f(text='a')", ["f(text='a')"]),
        ({"title": ["x", "y"], "sentences": [["a."], ["b.", " c."]]}, ["a.", "b. c."]),
        ({"is_selected": [0, 1], "passage_text": ["a", "b"]}, ["a", "b"]),
        ([{"id": 1, "score": 0.5, "payload": {"body": "a"}}], ["a"]),
        ([{"_id": "1", "_score": 2.0, "_source": {"text": "a", "title": "b"}}], ["a"]),
        ([{"id": "1", "metadata": {"text": "a"}}], ["a"]),
        ([{"article": "The lamp is tall.", "number": 3}], ["The lamp is tall."]),
        ([{"a/b.md": ["It is tall.", "It is old."]}, {"d-2": "c"}], ["It is tall.", "It is old.", "c"]),
        ({"a.md": "a", "https://b.org/": ["b"]}, ["a", "b"]),
        ([({"page_content": "a"}, 0.5), [{"page_content": "b"}, None]], ["a", "b"]),
        ("[('a', 0.4), ('b', 0.3)]", ["a", "b"]),
        ("[{'text': 'a', 'score': tensor(0.4, device='cuda:0')}, {'text': 'b', 'score': inf}]", ["a", "b"]),
        ("[np.str_('a'), np.str_('b')]", ["a", "b"]),
        ("OrderedDict([('text', 'a'), ('id', 'b')])", ["a"]),
        ("OrderedDict({'text': 'a'})", ["a"]),
        ("frozenset({'a'})", ["a"]),
        ("deque(['a', 'b'])", ["a", "b"]),
        ([{"content": [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]}], ["a b"]),
        (SimpleNamespace(page_content="a"), ["a"]),
        ([SimpleNamespace(score=1.0, node=SimpleNamespace(get_content=lambda: "a", node_id="1", metadata={}))], ["a"]),
    ],
)
def test_contexts_in_one_value(text: Any, texts: list[str]) -> None:
    chunks = chunks_of(text)
    assert chunks is not None
    assert [chunk.text for chunk in chunks] == texts


@pytest.mark.parametrize("element", [{"id": "x"}, b"x", ["nested"], "[b'x']", {"text": {"a": 1}}, {"text": [1]}, True])
def test_what_is_no_chunk(element: object) -> None:
    with pytest.raises(InvalidFieldError, match="`contexts`"):
        chunks_of(element if isinstance(element, str) else [element])
