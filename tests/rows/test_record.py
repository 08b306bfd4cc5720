from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError, InvalidOptionError
from mlflow_ragmetrics.rows import read_samples
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE, FIELD_OF, RECORD_FIELDS, RECORD_NAMES
from mlflow_ragmetrics.rows.data import with_ids
from mlflow_ragmetrics.rows.record import content_id, to_sample

TEXT_FIELDS = ("question", "answer", "reference")


@pytest.mark.parametrize("field", [*TEXT_FIELDS, "contexts", "retrieved_doc_ids", "gold_doc_ids"])
def test_every_alias(field: str) -> None:
    value = "x" if field in TEXT_FIELDS else ["x", "y"]
    for name in (field, *ALIASES[field], *(() if field == "contexts" else ALIASES_BY_NATURE[field])):
        sample = to_sample({name: value})
        read = sample.texts if field == "contexts" else getattr(sample, field)
        assert read == (value if field in TEXT_FIELDS else ("x", "y")), name
        assert not sample.metadata


def test_no_name_has_two_meanings() -> None:
    names = [name for field in RECORD_FIELDS for name in (field, *ALIASES[field])]
    assert len(names) == len(set(names)) == len(FIELD_OF)
    assert len(RECORD_NAMES) == len({*RECORD_NAMES})


def test_ambiguous_names_count_only_where_the_field_has_no_other() -> None:
    sample = to_sample(
        {"Response": "a", "model_answer": "b", "ground_truth": None, "Gold Answers": "c", "answers": ["d"]}
    )
    assert (sample.answer, sample.metadata) == ("a", {"model_answer": "b"})
    assert "`gold_answers`" in sample.invalid["reference"]
    assert to_sample({"answers": "a"}).answer == "a"
    assert to_sample({"answers": '["a", "b"]'}).references == ("a", "b")
    assert to_sample({"output": {"pred": "a", "search_results": ["It is a."]}}).texts == ("It is a.",)


def test_a_column_mapping_may_name_a_path() -> None:
    record = {"configs": {"small": {"predicted": "a"}}, "inputs": '{"mine": "q"}', "a.b": "r"}
    columns = {"answer": "configs.small.predicted", "question": "inputs.mine", "reference": "a.b"}
    (sample,) = read_samples([record], columns)
    assert (sample.question, sample.answer, sample.reference) == ("q", "a", "r")
    assert to_sample({"a": {"b": "c"}}, {"answer": "a.x.y"}).answer is None


@pytest.mark.parametrize("name", ["result", "response", "output"])
def test_passages_beside_the_answer_in_a_mapping(name: str) -> None:
    sample = to_sample({"query": {"query": "q"}, name: {"answer": "a", "source_documents": ["It is a."]}})
    assert (sample.question, sample.answer, sample.texts, sample.metadata) == ("q", "a", ("It is a.",), {})


def test_a_value_under_another_name_of_a_field_is_kept() -> None:
    sample = to_sample({"answer": "a", "prediction": "b", "output": "a", "response": None})
    assert (sample.answer, sample.metadata) == ("a", {"prediction": "b"})


def test_canonical_names_beat_aliases_unless_missing() -> None:
    assert to_sample({"prompt": "b", "question": "a"}).question == "a"
    assert to_sample({"question": float("nan"), "prompt": "b"}).question == "b"
    assert to_sample({"question": "", "prompt": "b"}).question == ""


def test_aliases_must_agree() -> None:
    assert to_sample({"prompt": "a", "query": "a", "input": None}).question == "a"
    sample = to_sample({"prompt": "a", "query": "b", "answer": "c"})
    assert sample.question is None
    assert sample.answer == "c"
    assert "`prompt`" in sample.invalid["question"]
    assert "`query`" in sample.invalid["question"]
    prompted = to_sample({"output": "user: Who? model: Anna did it.", "prediction": "Anna did it."})
    assert "--columns answer=prediction" in prompted.invalid["answer"]
    assert to_sample({"documents": ["a"], "context": "a"}).texts == ("a",)
    assert "contexts" in to_sample({"documents": ["a"], "context": "b"}).invalid


def test_a_column_mapping_beats_all_names() -> None:
    record = {"answer": "gold", "prediction": "model", "question": "q", "mine": "asked"}
    sample = to_sample(record, {"reference": "answer", "question": "mine"})
    assert (sample.question, sample.answer, sample.reference) == ("asked", "model", "gold")
    assert not sample.metadata


@pytest.mark.parametrize(
    ("columns", "words"), [({"anwser": "a"}, ["'anwser'", "answer"]), ({"answer": "b"}, ["'b'", "'a'"])]
)
def test_a_wrong_column_mapping(columns: dict[str, str], words: list[str]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        to_sample({"a": "x"}, columns)
    assert caught.value.param == "columns"
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, pd.NaT], ids=repr)
def test_missing_is_not_blank(value: object) -> None:
    sample = to_sample(dict.fromkeys(FIELD_OF, value))
    assert [getattr(sample, field) for field in RECORD_FIELDS[1:]] == [None] * 7
    assert not sample.invalid
    assert to_sample({"inputs": {}}).question is None
    blank = to_sample({"answer": "", "reference": "", "contexts": "", "gold_doc_ids": "  "})
    assert (blank.answer, blank.reference, blank.contexts, blank.gold_doc_ids) == ("", "", (), ())


@pytest.mark.parametrize(
    ("record", "field", "words"),
    [
        ({"answer": ["a", "b"]}, "answer", ["`answer`", "list", "text", "--columns reference=answer"]),
        ({"output": b"x"}, "answer", ["`answer`", "bytes", "`output`"]),
        ({"outputs": {"foo": 1}}, "answer", ["`answer`", "dict", "`outputs`"]),
        ({"inputs": {"foo": "a"}}, "question", ["--columns question=inputs.foo"]),
        ({"answer": {"foo": "a"}}, "answer", ["dict"]),
        ({"answer": "{'foo': 'a'}"}, "answer", ["dict"]),
        ({"answer": "['a', 'b']"}, "answer", ["list"]),
        ({"answer": "content='It is"}, "answer", ["`answer` is a printed Python object"]),
        ({"reference": "['a', 'b' c]"}, "reference", ["`reference` is a printed Python object"]),
        ({"question": True}, "question", ["bool"]),
        ({"reference": {"a": 1}}, "reference", ["dict", "--columns reference=reference.a"]),
        ({"reference": [[["a"]]]}, "reference", ["list"]),
        ({"contexts": 5}, "contexts", ["int", "list"]),
        ({"contexts": [{"id": "x"}]}, "contexts", ["passage 1", "page_content", "`id`"]),
        ({"contexts": ["a", ["b"]]}, "contexts", ["passage 2 of `contexts` is a list"]),
        ({"contexts": "[Document(page_content='a'), <b"}, "contexts", ["`contexts` is a printed Python object"]),
        ({"gold_doc_ids": True}, "gold_doc_ids", ["bool"]),
        ({"retrieved_doc_ids": b"x"}, "retrieved_doc_ids", ["bytes"]),
        ({"expectations": {"expected_retrieved_context": [{"x": 1}]}}, "gold_doc_ids", ["doc_uri", "expectations"]),
        ({"metadata": {"doc_uri": [[["x"]]]}}, "retrieved_doc_ids", ["list"]),
    ],
)
def test_unreadable_fields_are_recorded(record: dict[str, Any], field: str, words: list[str]) -> None:
    sample = to_sample(record)
    assert list(sample.invalid) == [field]
    assert all(word in sample.invalid[field] for word in words), sample.invalid[field]


BLOCKS = [
    {"type": "thinking", "thinking": "Lyon? No."},
    {"type": "text", "text": "Par"},
    {"type": "text", "text": "is"},
]


@pytest.mark.parametrize(
    "record",
    [
        {"answer": "<think>Lyon? No.</think>Paris"},
        {"outputs": {"answer": "<think>Lyon? No.</think>\n\nParis"}},
        {"output": "Lyon? No.\n</think>\nParis"},
        {"outputs": {"role": "assistant", "content": BLOCKS}},
        {"answer": BLOCKS},
        {"outputs": {"messages": [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": BLOCKS}]}},
        {"messages": [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": BLOCKS}]},
        {"response": {"role": "assistant", "content": "Paris", "reasoning_content": "Lyon? No."}},
        Sample(answer="<thinking>Lyon? No.</thinking> <answer>Paris</answer>"),
    ],
    ids=range(9),
)
def test_thoughts_are_no_part_of_the_answer(record: Any) -> None:
    sample = to_sample(record)
    assert (sample.answer, sample.metadata["thoughts"]) == ("Paris", "Lyon? No.")
    report = rm.evaluate([record], ["coherence"], judge="lexical")
    assert any("1 of 1 answer has thoughts" in warning for warning in report.warnings)


def test_an_answer_without_thoughts_is_unchanged() -> None:
    for answer in ("<think></think>Paris", "Paris"):
        sample = to_sample({"answer": answer})
        assert (sample.answer, sample.metadata) == ("Paris", {})
    turns = [("user", "Hi"), ("ai", "<think>Hm.</think>Hello"), ("user", "Where?"), ("ai", "<think>Hm.</think>Paris")]
    sample = to_sample({"messages": turns})
    assert (sample.answer, [turn.content for turn in sample.history or ()]) == ("Paris", ["Hi", "Hello"])


def test_a_list_of_one_text_is_the_text() -> None:
    sample = to_sample({"question": ["q"], "outputs": ["a"]})
    assert (sample.question, sample.answer, to_sample({"answer": "['a']"}).answer) == ("q", "a", "a")
    assert to_sample({"answer": '["a"]'}).answer == '["a"]'  # JSON may be the answer


def test_accepted_answers() -> None:
    assert to_sample({"reference": ["a", "", None, "b"]}).references == ("a", "b")
    assert to_sample({"targets": np.array(["a", "b"])}).references == ("a", "b")
    assert to_sample({"reference": pd.Series(["a"])}).references == ("a",)
    assert to_sample({"reference": []}).references is None
    assert to_sample({"reference": '["a", "b"]'}).references == ("a", "b")
    squad, trivia = {"text": ["a", "b"], "answer_start": [3, 5]}, {"value": "a", "aliases": ["a", "b"], "type": "Wiki"}
    for answers in (squad, trivia, [{"text": "a"}, {"text": "b"}], {"answers": ["a", "b"]}):
        forms = (answers, json.dumps(answers), str(answers))
        assert [to_sample({"target": form}).references for form in forms] == [("a", "b")] * 3
    assert to_sample({"reference": '["a", 1]'}).references == ('["a", 1]',)
    assert to_sample({"reference": np.float64(2.5)}).references == ("2.5",)


@pytest.mark.parametrize(
    "inputs",
    [
        {"query": "q", "k": 3},
        {"input": {"question": "q"}},
        [{"role": "user", "content": [{"type": "text", "text": "q"}]}, {"role": "assistant", "content": "a"}],
        {"messages": [SimpleNamespace(type="human", content="old"), SimpleNamespace(type="human", content="q")]},
    ],
)
def test_questions_in_inputs(inputs: object) -> None:
    sample = to_sample({"inputs": inputs})
    assert (sample.question, dict(sample.invalid)) == ("q", {})


@pytest.mark.parametrize("name", ["outputs", "predictions"])
@pytest.mark.parametrize(
    "outputs",
    [
        {"response": {"content": "a"}},
        {"result": "a", "source_documents": []},
        {"choices": [{"message": {"role": "assistant", "content": "a"}}]},
        {"messages": [{"role": "user", "content": "q"}, {"type": "ai", "content": "a"}]},
        SimpleNamespace(content="a"),
    ],
)
def test_answers_in_outputs(name: str, outputs: object) -> None:
    assert to_sample({name: outputs}).answer == "a"


def test_an_mlflow_evaluation_row() -> None:
    sample = to_sample(
        {
            "inputs": {"question": "q", "tier": "gold"},
            "outputs": {"response": "a", "context": ["c", {"content": "d", "id": "1", "metadata": {"doc_uri": "u"}}]},
            "expectations": {
                "expected_facts": ["f", "g"],
                "expected_retrieved_context": [{"doc_uri": "u"}, {"doc_uri": "v"}],
                "guidelines": "short",
            },
            "tags": {"k": "v"},
        }
    )
    assert (sample.question, sample.answer, sample.reference) == ("q", "a", "f\ng")
    assert sample.texts == ("c", "d")
    assert (sample.retrieved_doc_ids, sample.gold_doc_ids) == (("u",), ("u", "v"))
    assert sample.metadata == {
        "inputs": {"tier": "gold"},
        "expectations": {"guidelines": "short"},
        "tags": {"k": "v"},
    }


def test_expectations() -> None:
    both = {"expected_response": "r", "expected_facts": ["f"]}
    assert to_sample({"expectations": both}).references == ("r",)
    assert to_sample({"expectations": both, "reference": "own"}).references == ("own",)
    assert to_sample({"expectations": '{"expected_response": "r"}'}).reference == "r"
    assert to_sample({"expectations": 5}).metadata == {"expectations": 5}


def test_retrieved_ids_come_from_contexts() -> None:
    contexts = [{"id": "1", "text": "a"}, "b", {"text": "c", "metadata": {"doc_uri": "u"}}]
    assert to_sample({"contexts": contexts}).retrieved_doc_ids == ("1", "u")
    assert to_sample({"contexts": contexts, "doc_ids": ["9"]}).retrieved_doc_ids == ("9",)
    assert to_sample({"contexts": ["a"]}).retrieved_doc_ids is None
    assert to_sample({"contexts": []}).retrieved_doc_ids == ()
    assert to_sample({"contexts": ["a"], "metadata": {"doc_uri": "u"}}).retrieved_doc_ids == ("u",)


def test_everything_else_is_metadata() -> None:
    sample = to_sample({"answer": "a", "metadata": {"k": 1, "m": 2}, "m": 3, 4: "four"})
    assert sample.metadata == {"k": 1, "m": 3, "4": "four"}


def test_ids() -> None:
    assert to_sample({"qid": 7}).id == "7"
    derived = to_sample({"question": "q", "reference": "r"}).id
    assert derived == content_id("q", "r")
    assert len(derived) == 16
    assert derived != to_sample({"question": "q"}).id
    assert to_sample({"id": " ", "question": "q", "reference": "r"}).id == derived
    assert to_sample({"question": "\ud800"}).id


def test_repeated_content_is_numbered() -> None:
    first = content_id("q", None)
    samples = [
        to_sample(record) for record in ({"question": "q"}, {"id": f"{first}-2"}, {"question": "q"}, {"question": "q"})
    ]
    assert [sample.id for sample in with_ids(samples)] == [first, f"{first}-2", f"{first}-3", f"{first}-4"]


def test_a_repeated_given_id_is_an_error() -> None:
    samples = [to_sample({"id": each}) for each in ("a", "b", "a")]
    with pytest.raises(InvalidFieldError, match=r"Rows 1 and 3 .*'a'") as caught:
        list(with_ids(samples))
    assert caught.value.field == "id"
    with pytest.raises(InvalidFieldError, match="Row 1: `id`"):
        list(with_ids([to_sample({"id": ["a"]})]))


def test_ids_of_questions_that_rows_share_are_their_groups() -> None:
    rows = [{"question_id": each, "answer": "a"} for each in ("q1", "q2", "q1")]
    with pytest.warns(UserWarning, match="rows 1 and 3 and others share a 'question_id'"):
        samples = list(with_ids(map(to_sample, rows)))
    assert [sample.id for sample in samples] == ["q1", "q2", "q1-2"]
    assert [sample.metadata["question_id"] for sample in samples] == ["q1", "q2", "q1"]
    assert [sample.id for sample in with_ids(map(to_sample, rows[:2]))] == ["q1", "q2"]


def test_a_stream_compares_ids_with_those_of_the_last_rows() -> None:
    def ids(distance: int) -> list[str]:
        others = ({"id": f"other {number}"} for number in range(distance))
        return [each.id for each in with_ids(map(to_sample, [{"id": "a"}, *others, {"id": "a"}]), 10)]

    assert ids(1000).count("a") == 2
    with pytest.raises(InvalidFieldError, match="Rows 1 and 11"):
        ids(9)


def test_a_stream_numbers_repeated_content_among_the_last_rows() -> None:
    found = [each.id for each in with_ids((to_sample({"question": "q"}) for _ in range(500)), 20)]
    assert all(len(set(found[start : start + 20])) == 20 for start in range(480))


def test_samples_and_frames_rows_pass() -> None:
    sample = Sample(id="1", answer="a")
    assert to_sample(sample) is sample
    assert to_sample(pd.Series({"answer": "a"})).answer == "a"


@pytest.mark.parametrize("record", [None, "text", ["a"], 5, [("answer", "a")]])
def test_what_is_no_record(record: object) -> None:
    with pytest.raises(InvalidDataError, match="must be a mapping"):
        to_sample(record)


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.sampled_from([pd.NA, pd.NaT])
)
keys = st.sampled_from(
    [*FIELD_OF, "expectations", "metadata", "messages", "content", "role", "text", "id", "doc_uri", "expected_facts"]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=75)
@given(st.dictionaries(keys | st.text() | st.integers(), values, max_size=8))
@example({"question": {"content": pd.NA}})
@example({"question": [pd.NA, None]})
def test_any_mapping_is_a_sample(record: dict[Any, Any]) -> None:
    sample = to_sample(record)
    assert sample.id
    assert set(sample.invalid) <= set(RECORD_FIELDS)
    for field in TEXT_FIELDS:
        assert isinstance(getattr(sample, field), (str, type(None)))
    assert all(chunk.text.strip() for chunk in sample.contexts or ())
    for field in ("references", "retrieved_doc_ids", "gold_doc_ids"):
        assert all(isinstance(each, str) for each in getattr(sample, field) or ())


def test_records_with_the_same_names_are_read_each_for_itself() -> None:
    turns = [{"role": "user", "content": "Hi"}]
    history = [to_sample({"question": "why", "history": value}) for value in (turns, "a note", None, turns)]
    assert [len(each.history or ()) for each in history] == [1, 0, 0, 1]
    assert [dict(each.metadata) for each in history] == [{}, {"history": "a note"}, {}, {}]
    contexts = [to_sample({"answer": "a", "docs": value}) for value in (["It rained all day."], "doc-7", ["It shone."])]
    assert [each.texts for each in contexts] == [("It rained all day.",), None, ("It shone.",)]
    numbers = [to_sample({"answer": "a", name: 7}).metadata for name in (1, True, 1.0)]
    assert numbers == [{"1": 7}, {"True": 7}, {"1.0": 7}]
    row = {"answer": "a", "reference": "b"}
    turned = to_sample(row, {"answer": "reference"})
    assert (turned.answer, turned.reference) == ("b", None)
    assert (to_sample(row).answer, to_sample(row).reference) == ("a", "b")
