"""Converts exports of other tools to flat records with names from ``rows.aliases``.

The rows of ragas, deepeval, Phoenix's ``get_input_output_context`` and MLflow are flat already and need no conversion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.aliases import accepted_name
from mlflow_ragmetrics.rows.chat_messages import answer_in, mapping_of
from mlflow_ragmetrics.rows.passages import are_texts
from mlflow_ragmetrics.rows.trace_records import documents_in
from mlflow_ragmetrics.rows.values import decoded, is_missing, looks_structured

Record = Mapping[Any, Any]
_NUMBERED = re.compile(r"(?P<name>.*(?:context|passage|chunk|retriev|doc|snippet).*?)[ _-]*(?P<number>\d{1,2})", re.I)
_LONG = ("app_json", "record_json", "cost_json", "perf_json")


def records_of_exports(rows: Iterable[Any]) -> Iterator[Any]:
    """``rows`` with exported rows converted to records; spans are grouped into one record per trace.

    The first row decides whether all rows are spans.
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
    convert = _converter_of(tuple(row)) if isinstance(row, Mapping) else None
    return row if convert is None else convert(row)


@lru_cache(maxsize=64)
def _converter_of(names: tuple[Any, ...]) -> Callable[[Record], Record] | None:
    """The function that converts a row with these names; ``None`` if the row is a record already."""
    there = set(names)
    if any(str(name).startswith("inputs.") for name in names):
        return _dotted_result
    if {"dataset_id", "inputs"} <= there and "run_type" not in there:
        return _langsmith_example
    if _numbered(names):
        return _with_passages
    for needed, convert in _CONVERTERS:
        if needed <= there:
            return convert
    return None if any(map(accepted_name, names)) else _inner_record


def _numbered(names: Iterable[Any]) -> list[list[str]]:
    """The columns of passages in the order of their numbers, such as ``Context 1`` and ``Context 2``, per name."""
    columns: dict[str, dict[int, str]] = {}
    for found in filter(None, map(_NUMBERED.fullmatch, map(str, names))):
        columns.setdefault(found["name"].lower(), {})[int(found["number"])] = found[0]
    return [[each for _, each in sorted(numbers.items())] for numbers in columns.values() if len(numbers) > 1]


def _with_passages(row: Record) -> Record:
    """The row with the first of its numbered columns that are texts as a list."""
    for names in _numbered(row):
        passages = [row[name] for name in names if not is_missing(row[name])]
        if are_texts(passages) and not any(isinstance(each, str) and looks_structured(each) for each in passages):
            return {"contexts": passages, **{name: row[name] for name in row if name not in names}}
    return row


def _inner_record(row: Record) -> Record:
    """The row with the entries of its only mapping that has names of fields, such as ``{"row": {…}}``."""
    inner = [name for name, value in row.items() if any(map(accepted_name, mapping_of(value)))]
    return (
        {**{name: row[name] for name in row if name not in inner}, **mapping_of(row[inner[0]])}
        if len(inner) == 1
        else row
    )


def _decoded(row: Record, names: Iterable[str]) -> Record:
    return {**row, **{name: decoded(row[name]) for name in names}}


def _alpaca_item(row: Record) -> Record:
    """An instruction of Alpaca's form, whose input is often blank."""
    asked = [str(row[name]) for name in ("instruction", "input") if not is_missing(row[name])]
    return {**row, "input": None, "question": "\n".join(asked).strip() or None}


def _openai_item(row: Record) -> Record:
    """An item of OpenAI's evals with the model's answer: a data line, or an output item of a run."""
    item = mapping_of(row.get("datasource_item", row.get("item")))
    if not item and "datasource_item" not in row:
        return row
    nested = mapping_of(item.get("item")) or item
    sample = mapping_of(row.get("sample", item.get("sample")))
    record = {name: value for name, value in nested.items() if name != "sample"}
    answer = sample.get("output_text", sample.get("output"))
    if answer is not None:
        record.setdefault("answer", answer_in(answer))
    if sample.get("input") and record.keys().isdisjoint(("question", "input", "query", "prompt", "user_input")):
        record["input"] = sample["input"]
    return {"id": row["id"], **record} if "id" in row else record


def _deepeval_golden(row: Record) -> Record:
    """A golden from deepeval's CSV or JSON lines, which separate passages with ``|``."""
    passages = row["retrieval_context"]
    split = isinstance(passages, str) and not isinstance(decoded(passages), list)
    return {**row, "retrieval_context": passages.split("|") if passages else None} if split else row


def _trulens_record(row: Record) -> Record:
    """A TruLens record: texts may be JSON; passages are arguments of its feedback functions."""
    contexts: dict[str, None] = {}
    for calls in (decoded(calls) for name, calls in row.items() if str(name).endswith(("_calls", " calls"))):
        for call in calls if isinstance(calls, list) else ():
            arguments = mapping_of(mapping_of(call).get("args"))
            found = next((arguments[key] for key in ("context", "contexts", "source") if arguments.get(key)), None)
            listed = found if isinstance(found, (list, tuple)) else [found]
            contexts |= dict.fromkeys(text for text in listed if isinstance(text, str))
    kept = {name: value for name, value in row.items() if name not in _LONG and not str(name).endswith("_calls")}
    known = {"contexts": list(contexts)} if contexts else {}
    texts = {name: decoded(row[name]) for name in ("input", "output")}
    return {"id": row["record_id"], **known, **kept, **texts}


def _langsmith_example(row: Record) -> Record:
    """An example of a LangSmith data set; its outputs are the reference, not a chain's answer."""
    kept = {name: value for name, value in row.items() if name not in ("inputs", "outputs")}
    inputs = decoded(row["inputs"])
    asked = inputs if isinstance(inputs, Mapping) else {"input": inputs}
    named = {"question": next(iter(asked.values()))} if len(asked) == 1 else asked
    return {**kept, **named, **_reference_in(decoded(row.get("outputs")))}


def _promptfoo_result(row: Record) -> Record:
    """A result of promptfoo: the test's variables and the model's output."""
    kept = {name: value for name, value in row.items() if name not in ("prompt", "vars", "response", "testCase")}
    return {**kept, **mapping_of(row["vars"]), "output": mapping_of(row["response"]).get("output")}


def _dotted_result(row: Record) -> Record:
    """A row of a LangSmith experiment: the chain's ``inputs.…`` and ``outputs.…``, the data set's ``reference.…``.

    Azure has the answer among its inputs, and scores as outputs.
    """
    parts: dict[str, dict[str, Any]] = {"inputs": {}, "outputs": {}, "reference": {}}
    rest: dict[str, Any] = {}
    for name, value in row.items():
        part, _, key = str(name).partition(".")
        if part in parts and key:
            parts[part][key] = value
        else:
            rest[str(name)] = value
    reference = _reference_in(parts.pop("reference"))
    if answer_in(parts["outputs"]) is parts["outputs"]:
        return {**rest, **reference, **parts["inputs"], "scores": parts["outputs"]}
    return {**rest, **parts, **reference}


def _reference_in(values: Any) -> dict[str, Any]:
    """The reference under a usual name, or the value if there is only one."""
    if isinstance(values, Mapping):
        names = ("answer", "output", "reference", "ground_truth", "expected", "expected_output")
        found = next((values[name] for name in names if not is_missing(values.get(name))), None)
        values = next(iter(values.values())) if found is None and len(values) == 1 else found
    return {} if is_missing(values) else {"reference": values}


_CONVERTERS: Sequence[tuple[set[str], Callable[[Record], Record]]] = (
    ({"datasource_item"}, _openai_item),
    ({"item"}, _openai_item),
    ({"input", "actual_output", "retrieval_context", "source_file"}, _deepeval_golden),
    ({"input", "ideal"}, partial(_decoded, names=["input"])),  # OpenAI's evals registry: messages, or their JSON
    ({"record_id", "input", "output"}, _trulens_record),
    ({"vars", "response"}, _promptfoo_result),
    ({"instruction", "input", "output"}, _alpaca_item),
    ({"trace_id", "request", "response"}, partial(_decoded, names=["request", "response"])),  # MLflow's traces
)


def _is_phoenix_span(row: Record) -> bool:
    nested = "trace_id" in mapping_of(row.get("context"))
    return "span_kind" in row and ("context.trace_id" in row or nested)


def _is_langsmith_run(row: Record) -> bool:
    return {"run_type", "inputs", "outputs"} <= row.keys() and bool({"trace_id", "id", "run_id"} & row.keys())


class _Span(NamedTuple):
    id: str
    trace: str
    parent: str | None
    kind: str
    inputs: Any
    outputs: Any
    documents: list[Any]
    metadata: dict[str, Any]


def _records_of_spans(spans: Iterable[Record]) -> Iterator[Record]:
    """One record per root span: its input and output, and the documents of the retrievers below it.

    Without its root in the export, a trace's chains without an exported parent are taken as roots.
    """
    parents: dict[str, str | None] = {}
    kept: list[_Span] = []
    for record in chain.from_iterable(map(_with_children, spans)):
        span = _span(record, len(parents))
        parents[span.id] = span.parent
        if span.parent is None or span.kind in ("CHAIN", "AGENT", "RETRIEVER"):
            kept.append(span)
    roots = {span.id: span for span in kept if span.parent is None}
    rooted = {root.trace for root in roots.values()}
    chains = [span for span in kept if span.kind != "RETRIEVER" and span.parent not in parents]
    roots |= {span.id: span for span in chains if span.trace not in rooted}
    if not roots:
        message = "the export has no root span or run; export whole traces, not single spans"
        raise InvalidDataError(message)
    of_trace: dict[str, list[str]] = {}
    for root in roots.values():
        of_trace.setdefault(root.trace, []).append(root.id)
    documents: dict[str, list[Any]] = {}
    for span in kept:
        if span.kind == "RETRIEVER":
            above = span.parent
            while above in parents and above not in roots:
                above = parents[above]
            owner = above if above in roots else next(iter(of_trace.get(span.trace, ())), None)
            documents.setdefault(owner or "", []).extend(span.documents)
    for root in roots.values():
        record_id = root.trace if len(of_trace[root.trace]) == 1 else root.id
        contexts = {"contexts": documents[root.id]} if root.id in documents else {}
        yield {"id": record_id, "inputs": root.inputs, "outputs": root.outputs, **root.metadata, **contexts}


def _with_children(run: Record) -> Iterator[Record]:
    yield run
    for child in decoded(run.get("child_runs")) or ():
        if isinstance(child, Mapping):
            yield from _with_children({"trace_id": _trace_of(run), **child})


def _trace_of(run: Record) -> str:
    return str(next((run[name] for name in ("trace_id", "id", "run_id") if not is_missing(run.get(name))), ""))


def _span(span: Record, number: int) -> _Span:
    """A span of Phoenix or a run of LangSmith; ``number`` names one without an id."""
    metadata = {name: span[name] for name in ("name", "error", "tags") if not is_missing(span.get(name))}
    parent = span.get("parent_run_id", span.get("parent_id"))
    parent = None if is_missing(parent) or not parent else str(parent)
    if "run_type" in span:
        span_id = str(next((span[name] for name in ("id", "run_id") if not is_missing(span.get(name))), number))
        outputs = decoded(span["outputs"])
        retrieved = mapping_of(outputs).get("documents", mapping_of(outputs).get("output", outputs))
        documents = retrieved if isinstance(retrieved, list) else []
        kind = str(span["run_type"]).upper()
        return _Span(span_id, _trace_of(span), parent, kind, decoded(span["inputs"]), outputs, documents, metadata)
    context = mapping_of(span.get("context"))
    attributes = {**mapping_of(span.get("attributes"))}
    attributes |= {str(n).removeprefix("attributes."): v for n, v in span.items() if str(n).startswith("attributes.")}
    trace = str(context.get("trace_id", span.get("context.trace_id")))
    span_id = str(context.get("span_id", span.get("context.span_id", number)))
    inputs, outputs = (decoded(attributes.get(name)) for name in ("input.value", "output.value"))
    kind = str(span["span_kind"]).upper()
    name = {"name": metadata["name"]} if "name" in metadata else {}
    return _Span(span_id, trace, parent, kind, inputs, outputs, documents_in(attributes), name)
