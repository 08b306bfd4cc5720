"""Each format as its tool writes it, read without options: a table of formats and the fields read.

``python -m tests.rows.test_formats`` writes the table into docs/start/formats.md.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import namedtuple
from collections.abc import Callable
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pydantic import BaseModel

from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows import read_samples
from tests.rows.containers import CONTAINERS, Rows, json_cell

DATA = Path(__file__).parents[1] / "data"
PAGE = Path(__file__).parents[2] / "docs" / "start" / "formats.md"
QUESTION, ANSWER, REFERENCE = "How high is the tower?", "It is 330 metres high.", "330 metres."
CONTEXTS = ["The tower is 330 metres high.", "It was built in 1889."]
ALL = frozenset({"question", "answer", "reference", "contexts"})
FILES: dict[str, tuple[Rows, frozenset[str]]] = {
    name: (format["rows"], frozenset(format["fields"]))
    for name, format in json.loads((DATA / "formats.json").read_text(encoding="utf-8")).items()
}
"""The rows of a file of each format, and the fields that are read from them."""
RAGAS, DEEPEVAL, LANGSMITH_EXAMPLE, OPENAI_OUTPUT = (
    FILES[name][0][0] for name in ("ragas", "deepeval", "LangSmith examples", "OpenAI evals output items")
)
PHOENIX = FILES["Phoenix frame of spans"][0]
RETRIEVER, CHAIN = FILES["LangSmith runs"][0]


Pair = namedtuple("Pair", ["question", "answer", "reference", "contexts"])


Answered = make_dataclass("Answered", Pair._fields)


class Case(BaseModel):
    """A test case in deepeval's form."""

    input: str
    actual_output: str
    expected_output: str
    retrieval_context: list[str]
    context: list[str]


class DeepevalDataset:
    def __init__(self) -> None:
        self.test_cases, self.goldens = [Case(**DEEPEVAL)], []


class RagasSample(BaseModel):
    user_input: str
    retrieved_contexts: list[str]
    response: str
    reference: str

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


def phoenix_frame(name: str) -> pd.DataFrame:
    """Phoenix's questions, with the passages of each in one text under this name."""
    row = {"input": QUESTION, "output": ANSWER, name: "\n\n".join(CONTEXTS)}
    return pd.DataFrame([row], index=pd.Index(["s1"], name="context.span_id"))


OBJECTS: dict[str, tuple[Callable[[], Any], frozenset[str]]] = {
    "ragas data set": (lambda: iter([RagasSample(**RAGAS)]), ALL),
    "deepeval data set": (DeepevalDataset, ALL),
    "deepeval cases": (lambda: [Case(**DEEPEVAL)], ALL),
    "LangSmith nested runs": (lambda: [{**CHAIN, "child_runs": [RETRIEVER]}], ALL - {"reference"}),
    "Phoenix questions and contexts": (lambda: phoenix_frame("context"), ALL - {"reference"}),
    "Phoenix questions and references": (lambda: phoenix_frame("reference"), ALL - {"reference"}),
    "Arrow table": (lambda: pa.Table.from_pylist([RAGAS]), ALL),
    "Arrow batch reader": (lambda: pa.Table.from_pylist([RAGAS]).to_reader(), ALL),
    "dataclasses": (lambda: [Answered(QUESTION, ANSWER, REFERENCE, CONTEXTS)], ALL),
    "named tuples": (lambda: [Pair(QUESTION, ANSWER, REFERENCE, CONTEXTS)], ALL),
}


def check(data: Any, fields: frozenset[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (sample,) = read_samples(data)
    assert not sample.invalid
    assert sample.question == QUESTION
    assert sample.answer == (ANSWER if "answer" in fields else None)
    assert sample.reference == (REFERENCE if "reference" in fields else None)
    if "contexts" in fields:
        assert sample.texts in (tuple(CONTEXTS), ("\n\n".join(CONTEXTS),))
    else:
        assert sample.contexts is None


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_read_without_options(name: str) -> None:
    make, fields = OBJECTS[name]
    check(make(), fields)


FORMS: dict[str, Callable[[Rows, Path], Any]] = {
    "rows": lambda rows, folder: rows,
    **{form: CONTAINERS[form] for form in ("frame", "jsonl", "json", "csv")},
    "parquet": lambda rows, folder: CONTAINERS["parquet"](
        [{name: json_cell(value) for name, value in row.items()} for row in rows], folder
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FILES)
def test_rows_are_read_without_options_from_any_container(tmp_path: Path, name: str, form: str) -> None:
    rows, fields = FILES[name]
    check(FORMS[form](rows, tmp_path), fields)


def test_deepeval_writes_a_bar_between_passages(tmp_path: Path) -> None:
    row = {**DEEPEVAL, "retrieval_context": "|".join(CONTEXTS), "context": "The ideal passage.", "source_file": None}
    check(CONTAINERS["csv"]([row], tmp_path), ALL)


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    for name, question in (("b.jsonl", "second?"), ("a.csv", "first?")):
        content = json.dumps({"question": question}) if name.endswith("l") else f"question\n{question}\n"
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "README.md").write_text("no rows")
    assert [sample.question for sample in read_samples(tmp_path)] == ["first?", "second?"]


def test_a_folder_of_hugging_face_is_read_by_its_arrow_files(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([RAGAS])
    sink = str(tmp_path / "data-00000-of-00001.arrow")
    with pa.OSFile(sink, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "state.json").write_text("{}")
    check(tmp_path, ALL)


def deepeval_data_set(library: Any) -> Any:
    data_set = library.dataset.EvaluationDataset()
    data_set.add_test_case(library.test_case.LLMTestCase(**DEEPEVAL))
    return data_set


@pytest.mark.parametrize(
    ("library", "make"),
    [
        ("datasets", lambda datasets: datasets.Dataset.from_list([RAGAS])),
        ("polars", lambda polars: polars.DataFrame([RAGAS])),
        ("polars", lambda polars: polars.DataFrame([RAGAS]).lazy()),
        ("ragas", lambda ragas: ragas.EvaluationDataset.from_list([RAGAS])),
        ("deepeval", deepeval_data_set),
    ],
)
def test_the_libraries_own_data_sets(library: str, make: Callable[[Any], Any]) -> None:
    check(make(pytest.importorskip(library)), ALL)


def test_of_several_data_sets_one_must_be_given() -> None:
    data = {name: SimpleNamespace(column_names=["question"]) for name in ("train", "test")}
    with pytest.raises(InvalidDataError, match=r"several data sets \('train', 'test'\); give one of them"):
        list(read_samples(data))


def test_spans_without_their_root_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="export whole traces"):
        list(read_samples([PHOENIX[1]]))


def test_passages_of_a_step_within_the_root_are_the_roots() -> None:
    step = {**PHOENIX[0], "context.span_id": "s3", "parent_id": "s1"}
    check([PHOENIX[0], step, {**PHOENIX[1], "parent_id": "s3"}], ALL - {"reference"})


def test_a_question_of_the_data_comes_before_what_the_model_was_asked() -> None:
    asked = {**OPENAI_OUTPUT, "sample": {**OPENAI_OUTPUT["sample"], "input": [{"role": "user", "content": "Else?"}]}}
    bare = {**asked, "id": "outputitem_2", "datasource_item": {"item": {"ground_truth": REFERENCE}}}
    assert [sample.question for sample in read_samples([asked, bare])] == [QUESTION, "Else?"]


@pytest.mark.parametrize(
    ("outputs", "reference"),
    [({"answer": "r", "odd": "x"}, "r"), ({"odd": "r"}, "r"), ({"odd": "x", "other": "y"}, None), ({}, None)],
)
def test_the_outputs_of_an_example_have_one_reference_or_none(outputs: dict[str, str], reference: str | None) -> None:
    (sample,) = read_samples([{**LANGSMITH_EXAMPLE, "outputs": outputs}])
    assert sample.reference == reference


def test_passages_that_no_retriever_gave_are_unknown_not_none() -> None:
    (sample,) = read_samples([PHOENIX[0]])
    assert sample.contexts is None


FIELDS = ("question", "answer", "contexts", "reference")


def brief(value: Any) -> Any:
    """A value of a sample record, shortened: the beginnings of texts and the first elements of lists."""
    if isinstance(value, str):
        return value if len(value) < 26 else value[:24] + "…"
    if isinstance(value, dict):
        return {name: brief(inner) for name, inner in value.items() if inner is not None}
    return [brief(element) for element in value[:1]] if isinstance(value, list) else value


def table() -> str:
    """A record of each format and the entries that are read as fields, as a Markdown table."""
    files = {
        name: (rows, fields, "Python objects, frame, JSONL, JSON, CSV, Parquet")
        for name, (rows, fields) in FILES.items()
    }
    objects = {name: (make(), fields, "Python objects") for name, (make, fields) in OBJECTS.items()}
    lines = [("format", "given as", *FIELDS, "record"), ("---",) * (3 + len(FIELDS))]
    for name, (data, fields, given) in [*files.items(), *objects.items()]:
        (sample,) = read_samples(data)
        names = [f"`{sample.read_from.get(field, field)}`" if field in fields else "–" for field in FIELDS]
        record = json.dumps(brief(data[0]), ensure_ascii=False) if given != "Python objects" else ""
        lines.append((name, given, *names, f"`{record}`" if record else ""))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def test_the_page_shows_this_table() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    text = re.sub(r"^\|.*\|$", lambda _: table(), text, count=1, flags=re.MULTILINE | re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")
