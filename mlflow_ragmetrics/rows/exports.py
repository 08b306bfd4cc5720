"""Exports of other tools that are not one flat record per answer -> records whose names ``rows.aliases`` knows.

Flat records need nothing here: ragas, deepeval, Phoenix's ``get_input_output_context`` and MLflow's rows are read by
their names alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any

from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.messages import mapping_of
from mlflow_ragmetrics.rows.values import is_missing

__all__ = ["mapping_of_row", "records_of_exports", "rows_of_container"]

Record = Mapping[Any, Any]
_LONG = ("app_json", "record_json", "cost_json", "perf_json")


def rows_of_container(data: Any) -> Any:
    """The rows within the objects in which other libraries keep a data set; ``data`` itself where it is none of them.

    ``InvalidDataError`` for several data sets at once.
    """
    if isinstance(data, Mapping) and data and all(hasattr(each, "column_names") for each in data.values()):
        names = ", ".join(map(repr, data))
        raise InvalidDataError(
            f"The data is several data sets ({names}); give one of them, as in data[{next(iter(data))!r}]."
        )
    if callable(getattr(data, "collect", None)) and hasattr(data, "collect_schema"):  # a lazy frame of Polars
        return data.collect()
    if hasattr(data, "test_cases") and hasattr(data, "goldens"):  # deepeval: cases have answers, goldens may have
        return [*data.test_cases] or [*data.goldens]
    if callable(getattr(data, "read_next_batch", None)):
        return (row for batch in data for row in batch.to_pylist())
    if hasattr(data, "itertuples") and getattr(data.index, "name", None) == "context.span_id":
        if "reference" in data.columns and "context" not in data.columns:  # Phoenix calls what was retrieved so
            return data.rename(columns={"reference": "contexts"})
        return data.reset_index() if "context.span_id" not in data.columns else data
    return data


def mapping_of_row(row: Any) -> Any:
    """A row that is an object of another library (a model of pydantic, a dataclass, a named tuple) as a mapping."""
    if isinstance(row, Mapping):
        return row
    if callable(getattr(row, "model_dump", None)):
        return row.model_dump()
    if is_dataclass(row) and not isinstance(row, type):
        return {each.name: getattr(row, each.name) for each in fields(row)}
    return row._asdict() if callable(getattr(row, "_asdict", None)) else row


def records_of_exports(rows: Iterable[Any]) -> Iterator[Any]:
    """``rows`` one by one, those of an export as records; spans of traces are gathered, one record for each trace.

    Rows are told by the first one: spans come all together.
    """
    stream = iter(rows)
    first = next(stream, None)
    if first is None:
        return
    everything = chain([first], stream)
    if isinstance(first, Mapping) and (_is_phoenix_span(first) or _is_langsmith_run(first)):
        yield from _records_of_spans(each for each in everything if isinstance(each, Mapping))
    else:
        yield from map(_record_of_export, everything)


def _record_of_export(row: Any) -> Any:
    if not isinstance(row, Mapping):
        return row
    if "datasource_item" in row or ("item" in row and isinstance(_decoded(row["item"]), Mapping)):
        return _openai_item(row)
    if {"input", "actual_output", "retrieval_context", "source_file"} <= row.keys():
        return _deepeval_golden(row)
    if {"input", "ideal"} <= row.keys():  # the registry of OpenAI's evals: messages, also as the text of a cell
        return {**row, "input": _decoded(row["input"])}
    if {"record_id", "input", "output"} <= row.keys():
        return _trulens_record(row)
    if any(str(name).startswith("inputs.") for name in row) and {"example_id", "error"} & row.keys():
        return _langsmith_result(row)
    if {"dataset_id", "inputs"} <= row.keys() and "run_type" not in row:
        return _langsmith_example(row)
    return row


def _openai_item(row: Record) -> Record:
    """An item of OpenAI's evals with what the model answered: a line of data, or an output item of a run."""
    item = mapping_of(_decoded(row.get("datasource_item", row.get("item"))))
    nested = mapping_of(item.get("item")) or item
    sample = mapping_of(_decoded(row.get("sample", item.get("sample"))))
    answer = sample.get("output_text")
    if answer is None and isinstance(sample.get("output"), (list, str)):
        answer = sample["output"] if isinstance(sample["output"], str) else _last_content(sample["output"])
    named = {name: value for name, value in nested.items() if name != "sample"}
    questions = {"question", "input", "query", "prompt", "user_input"}
    asked = {} if questions & named.keys() or not sample.get("input") else {"input": sample["input"]}
    said = {} if answer is None or "answer" in named else {"answer": answer}
    identified = {"id": row["id"]} if "id" in row and "id" not in named else {}
    return {**identified, **asked, **named, **said}


def _last_content(messages: Any) -> Any:
    contents = [each.get("content") for each in messages if isinstance(each, Mapping) and each.get("content")]
    return contents[-1] if contents else None


def _deepeval_golden(row: Record) -> Record:
    """A golden in the CSV and JSON lines of deepeval, which writes passages with a bar between them."""
    passages = row["retrieval_context"]
    split = isinstance(passages, str) and not isinstance(_decoded(passages), list)
    return {**row, "retrieval_context": passages.split("|") if passages else None} if split else row


def _trulens_record(row: Record) -> Record:
    """A record of TruLens: texts may be JSON, passages are the arguments of feedback functions that looked at them."""
    contexts: dict[str, None] = {}
    for name, calls in row.items():
        if str(name).endswith(("_calls", " calls")):
            for call in _decoded(calls) if isinstance(_decoded(calls), list) else ():
                arguments = mapping_of(mapping_of(call).get("args"))
                found = next((arguments[key] for key in ("context", "contexts", "source") if arguments.get(key)), None)
                for text in found if isinstance(found, (list, tuple)) else [found]:
                    if isinstance(text, str):
                        contexts[text] = None
    kept = {name: value for name, value in row.items() if name not in _LONG and not str(name).endswith("_calls")}
    known = {} if "contexts" in row or not contexts else {"contexts": list(contexts)}
    texts = {name: _text_of_json(row[name]) for name in ("input", "output")}
    return {**kept, **texts, "id": row.get("id", row["record_id"]), **known}


def _text_of_json(value: Any) -> Any:
    decoded = _decoded(value) if isinstance(value, str) and value.startswith(('"', "{", "[")) else value
    return decoded if isinstance(decoded, (str, Mapping, list)) else value


def _langsmith_example(row: Record) -> Record:
    """An example of a LangSmith data set: its outputs are what is right, not what a chain answered."""
    outputs = _decoded(row.get("outputs"))
    kept = {name: value for name, value in row.items() if name not in ("inputs", "outputs")}
    reference = _only_value(outputs, ("answer", "output", "reference", "ground_truth", "expected", "expected_output"))
    right = {} if is_missing(reference) else {"reference": reference}
    inputs = _decoded(row["inputs"])
    named = inputs if isinstance(inputs, Mapping) else {"input": inputs}
    asked = named if len(named) != 1 else {"question": next(iter(named.values()))}
    return {**kept, **asked, **right}


def _langsmith_result(row: Record) -> Record:
    """A row of a LangSmith experiment: ``inputs.…`` and ``outputs.…`` of the chain, ``reference.…`` of the data set."""
    parts: dict[str, dict[str, Any]] = {"inputs": {}, "outputs": {}, "reference": {}}
    rest: dict[str, Any] = {}
    for name, value in row.items():
        part, _, key = str(name).partition(".")
        if part in parts and key:
            parts[part][key] = value
        else:
            rest[str(name)] = value
    names = ("answer", "output", "reference", "ground_truth", "expected", "expected_output")
    reference = _only_value(parts["reference"], names)
    right = {} if is_missing(reference) else {"reference": reference}
    return {**rest, "inputs": parts["inputs"], "outputs": parts["outputs"], **right}


def _only_value(values: Any, names: Iterable[str]) -> Any:
    """The value under the first of these names, else the only value there is."""
    if not isinstance(values, Mapping):
        return values
    found = next((values[name] for name in names if not is_missing(values.get(name))), None)
    return next(iter(values.values())) if found is None and len(values) == 1 else found


def _is_phoenix_span(row: Record) -> bool:
    nested = "trace_id" in mapping_of(_decoded(row.get("context")))
    return "span_kind" in row and ("context.trace_id" in row or nested)


def _is_langsmith_run(row: Record) -> bool:
    return {"run_type", "inputs", "outputs"} <= row.keys() and bool({"trace_id", "id", "run_id"} & row.keys())


def _records_of_spans(spans: Iterable[Record]) -> Iterator[Record]:
    """One record for each trace: what its outermost span was asked and answered, what its retrievers found."""
    roots: dict[str, Record] = {}
    found: dict[str, list[Any]] = {}
    for span in chain.from_iterable(map(_with_children, spans)):
        trace, parent, kind, inputs, outputs, documents, own = _span(span)
        if is_missing(parent) or not parent:
            roots[trace] = {"id": trace, "inputs": inputs, "outputs": outputs, **own}
        if kind == "RETRIEVER":
            found.setdefault(trace, []).extend(documents)
    if not roots:
        message = (
            "no span or run of the export is the outermost of its trace; export whole traces, not some spans of them"
        )
        raise InvalidDataError(message)
    for trace, root in roots.items():
        yield {**root, **({"contexts": found[trace]} if trace in found else {})}


def _with_children(run: Record) -> Iterator[Record]:
    yield run
    for child in _decoded(run.get("child_runs")) or ():
        if isinstance(child, Mapping):
            yield from _with_children({"trace_id": _trace_of(run), **child})


def _trace_of(run: Record) -> str:
    return str(next((run[name] for name in ("trace_id", "id", "run_id") if not is_missing(run.get(name))), ""))


def _span(span: Record) -> tuple[str, Any, str, Any, Any, list[Any], dict[str, Any]]:
    """Trace, parent, kind, input, output, documents and what else is worth keeping of a span or run."""
    if "run_type" in span:
        outputs = _decoded(span["outputs"])
        documents = mapping_of(outputs).get("documents", mapping_of(outputs).get("output", outputs))
        own = {name: span[name] for name in ("name", "error", "tags") if not is_missing(span.get(name))}
        parent = span.get("parent_run_id")
        found = documents if isinstance(documents, list) else []
        return _trace_of(span), parent, str(span["run_type"]).upper(), _decoded(span["inputs"]), outputs, found, own
    context = mapping_of(_decoded(span.get("context")))
    attributes = {**mapping_of(_decoded(span.get("attributes")))}
    attributes |= {str(n).removeprefix("attributes."): v for n, v in span.items() if str(n).startswith("attributes.")}
    trace = str(context.get("trace_id", span.get("context.trace_id")))
    values = (_decoded(attributes.get(name)) for name in ("input.value", "output.value"))
    own = {"name": span["name"]} if not is_missing(span.get("name")) else {}
    return trace, span.get("parent_id"), str(span["span_kind"]).upper(), *values, _documents(attributes), own


def _documents(attributes: Record) -> list[Any]:
    """The documents among a retriever's attributes, as a list of mappings or under numbered names."""
    listed = _decoded(attributes.get("retrieval.documents"))
    if not isinstance(listed, list):
        numbered: dict[int, dict[str, Any]] = {}
        for name, value in attributes.items():
            if str(name).startswith("retrieval.documents."):
                number, _, key = str(name).removeprefix("retrieval.documents.").partition(".")
                if number.isdecimal() and not is_missing(value):
                    numbered.setdefault(int(number), {})[key] = value
        listed = [numbered[number] for number in sorted(numbered)]
    documents = []
    for each in listed:
        entries = mapping_of(each)
        inner = mapping_of(entries.get("document")) or entries
        named = {str(name).removeprefix("document."): value for name, value in inner.items()}
        if isinstance(named.get("content"), str):
            identified = {} if is_missing(named.get("id")) else {"id": named["id"]}
            documents.append(
                {"text": named["content"], **identified, "metadata": dict(mapping_of(named.get("metadata")))}
            )
    return documents


def _decoded(value: Any) -> Any:
    """A text that holds JSON as what it holds; anything else as it is."""
    if not isinstance(value, str) or value[:1] not in ('"', "{", "["):
        return value.tolist() if callable(getattr(value, "tolist", None)) else value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
