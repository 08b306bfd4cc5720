"""Converts exports of LangSmith, Phoenix, MLflow, deepeval, promptfoo and OpenAI's evals to flat records.

Rows of ragas, deepeval, Phoenix's ``get_input_output_context`` and MLflow are flat already and need no conversion.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.aliases import accepted_name
from mlflow_ragmetrics.rows.chat_messages import answer_in
from mlflow_ragmetrics.rows.passages import are_texts
from mlflow_ragmetrics.rows.trace_records import documents_in
from mlflow_ragmetrics.rows.values import decoded, is_list, is_missing, looks_structured, mapping_of

Record = Mapping[Any, Any]
_NUMBERED = re.compile(r"(?P<name>.*(?:context|passage|chunk|retriev|doc|snippet).*?)[ _-]*(?P<number>\d{1,2})", re.I)


def records_of_exports(rows: Iterable[Any]) -> Iterator[Any]:
    """``rows`` with exported rows converted to records; spans are grouped into one record per trace.

    The first row decides whether all rows are spans.
    """
    stream = iter(rows)
    first = next(stream, None)
    if first is None:
        return
    everything = chain([first], stream)
    if isinstance(first, Mapping) and _is_span(first):
        yield from _records_of_spans(entry for entry in everything if isinstance(entry, Mapping))
        return
    for row in everything:
        convert = _converter_of(tuple(row)) if isinstance(row, Mapping) else None
        yield row if convert is None else convert(row)


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
    for match in filter(None, map(_NUMBERED.fullmatch, map(str, names))):
        columns.setdefault(match["name"].lower(), {})[int(match["number"])] = match[0]
    return [[name for _, name in sorted(numbers.items())] for numbers in columns.values() if len(numbers) > 1]


def _with_passages(row: Record) -> Record:
    """The row with the first of its numbered columns that are texts as a list."""
    for names in _numbered(row):
        passages = [row[name] for name in names if not is_missing(row.get(name))]
        if are_texts(passages) and not any(isinstance(text, str) and looks_structured(text) for text in passages):
            return {"contexts": passages, **{name: row[name] for name in row if name not in names}}
    return row


def _inner_record(row: Record) -> Record:
    """The row with the entries of its only mapping that has names of fields, such as ``{"row": {…}}``."""
    inner = [name for name, value in row.items() if any(map(accepted_name, mapping_of(value)))]
    if len(inner) != 1:
        return row
    return {name: row[name] for name in row if name not in inner} | {**mapping_of(row[inner[0]])}


def _decoded(row: Record, names: Iterable[str]) -> Record:
    return {**row, **{name: decoded(row[name]) for name in names}}


def _first(row: Record, names: Iterable[str], default: Any = None) -> Any:
    """The first value of these names that is not missing."""
    return next((row[name] for name in names if not is_missing(row.get(name))), default)


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


def _langsmith_example(row: Record) -> Record:
    """An example of a LangSmith data set; its outputs are the reference, not a chain's answer."""
    kept = {name: value for name, value in row.items() if name not in ("inputs", "outputs")}
    inputs = decoded(row["inputs"])
    fields = inputs if isinstance(inputs, Mapping) else {"input": inputs}
    named = {"question": next(iter(fields.values()))} if len(fields) == 1 else fields
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
        values = _first(values, names, next(iter(values.values())) if len(values) == 1 else None)
    return {} if is_missing(values) else {"reference": values}


_CONVERTERS: Sequence[tuple[set[str], Callable[[Record], Record]]] = (
    ({"datasource_item"}, _openai_item),
    ({"item"}, _openai_item),
    ({"input", "actual_output", "retrieval_context", "source_file"}, _deepeval_golden),
    ({"input", "ideal"}, partial(_decoded, names=["input"])),  # OpenAI's evals registry: messages, or their JSON
    ({"vars", "response"}, _promptfoo_result),
    ({"trace_id", "request", "response"}, partial(_decoded, names=["request", "response"])),  # MLflow's traces
)
_TRACE_IDS = ("trace_id", "id", "run_id")


def _is_span(row: Record) -> bool:
    """Whether it is a span of Phoenix or a run of LangSmith."""
    if "span_kind" in row:
        return "context.trace_id" in row or "trace_id" in mapping_of(row.get("context"))
    return {"run_type", "inputs", "outputs"} <= row.keys() and not row.keys().isdisjoint(_TRACE_IDS)


class _Span(NamedTuple):
    id: str
    trace: str
    parent: str
    kind: str
    inputs: Any
    outputs: Any
    documents: list[Any]
    metadata: dict[str, Any]


def _records_of_spans(spans: Iterable[Record]) -> Iterator[Record]:
    """One record per root span: its input and output, and the documents of the retrievers below it.

    Without its root in the export, a trace's chains without an exported parent are taken as roots.
    """
    known: dict[str, _Span] = {}
    for record in chain.from_iterable(map(_with_children, spans)):
        span = _span(record, len(known))
        known[span.id] = span
    whole = {span.trace for span in known.values() if not span.parent}
    roots: dict[str, _Span] = {}
    for span in known.values():
        is_top = span.kind in ("CHAIN", "AGENT") and span.parent not in known and span.trace not in whole
        if not span.parent or is_top:
            roots[span.id] = span
    if not roots:
        raise InvalidDataError("the export has no root span or run; export whole traces, not single spans")
    first_roots = {root.trace: root.id for root in reversed([*roots.values()])}
    documents: dict[str | None, list[Any]] = {}
    for span in known.values():
        if span.kind == "RETRIEVER":
            top = span
            for _ in known:  # parents may form a circle
                if top.parent not in known:
                    break
                top = known[top.parent]
            owner = top.id if top.id in roots else first_roots.get(span.trace)
            documents.setdefault(owner, []).extend(span.documents)
    counts = Counter(root.trace for root in roots.values())
    for root in roots.values():
        record_id = root.trace if counts[root.trace] == 1 else root.id
        contexts = {"contexts": documents[root.id]} if root.id in documents else {}
        yield {"id": record_id, "inputs": root.inputs, "outputs": root.outputs, **root.metadata, **contexts}


def _with_children(run: Record) -> Iterator[Record]:
    yield run
    children = decoded(run.get("child_runs"))
    for child in filter(None, map(mapping_of, children if is_list(children) else ())):
        yield from _with_children({"trace_id": _first(run, _TRACE_IDS), **child})


def _span(span: Record, number: int) -> _Span:
    """A span of Phoenix or a run of LangSmith; ``number`` names one without an id."""
    parent = str(_first(span, ("parent_run_id", "parent_id"), ""))
    metadata = {name: span[name] for name in ("name", "error", "tags") if not is_missing(span.get(name))}
    if "run_type" in span:
        outputs = decoded(span["outputs"])
        retrieved = mapping_of(outputs).get("documents", mapping_of(outputs).get("output", outputs))
        documents = retrieved if isinstance(retrieved, list) else []
        span_id, trace = str(_first(span, ("id", "run_id"), number)), str(_first(span, _TRACE_IDS, ""))
        kind = str(span["run_type"]).upper()
        return _Span(span_id, trace, parent, kind, decoded(span["inputs"]), outputs, documents, metadata)
    context = {f"context.{name}": value for name, value in mapping_of(span.get("context")).items()}
    entries = {**span, **context}
    attributes = {**mapping_of(span.get("attributes"))}
    attributes |= {str(n).removeprefix("attributes."): v for n, v in span.items() if str(n).startswith("attributes.")}
    trace, span_id = str(entries.get("context.trace_id")), str(entries.get("context.span_id", number))
    inputs, outputs = (decoded(attributes.get(name)) for name in ("input.value", "output.value"))
    kind, metadata = str(span["span_kind"]).upper(), {name: metadata[name] for name in metadata if name == "name"}
    return _Span(span_id, trace, parent, kind, inputs, outputs, documents_in(attributes), metadata)
