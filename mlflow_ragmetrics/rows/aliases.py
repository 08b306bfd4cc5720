"""The names that other libraries use for the fields of a sample, and checks for wrong columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.score import FIELDS, Sample
from mlflow_ragmetrics.text.messages import Text, say

RECORD_FIELDS = ("id", *FIELDS)
"""The canonical names, for records and column mappings."""


def _names(written: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {field: tuple(names.split()) for field, names in written.items()}


ALIASES: Mapping[str, tuple[str, ...]] = _names(
    {
        "id": "qid question_id query_id request_id respondent_id",
        "question": "input inputs query prompt user_input userInput request guide_question",
        "answer": "output outputs response prediction predictions actual_output actualOutput result answer_rag",
        "reference": "groundTruth ground_truth expectedOutput expected expected_output "
        "expected_response target targets answer_ref reference_outputs ideal",
        "contexts": "context contextsList retrieved_context retrieved_contexts "
        "retrieval_context retrievalContext documents source_documents",
        "retrieved_doc_ids": "doc_ids retrieved_context_ids retrieved_ids",
        "gold_doc_ids": "document_ids gold_docs reference_context_ids",
        "history": "",
    }
)
"""Canonical field -> aliases, in search order. The canonical name takes precedence."""

ALIASES_BY_NATURE: Mapping[str, tuple[str, ...]] = _names(
    {
        "contexts": "passages docs chunks sources "
        "retrieved_docs retrieved_documents context_documents document.content",
        "history": "conversation chat_history",
    }
)
"""Ambiguous aliases: ``sources`` may be URLs, ``conversation`` may be an id. They are used only if the values are texts
or messages and no other name of the field has a value."""

_ALWAYS_SAID = ("question", "answer", "reference", "contexts")
_LABEL = re.compile(r"[0-5](?:\.0)?|pass(?:ed)?|fail(?:ed)?|true|false|good|bad|(?:in)?correct", re.IGNORECASE)
_POINTER = re.compile(r"\w+:/+\S+|(?=[^\d/]*[\d/])[!-~]+|[^\n]{1,250}\.(?:pdf|docx?|html?|txt|md)")
"""A URL, an id with a digit, a path or a file name."""
_JOINED = re.compile(r"[^\s,;][,;] ?[^\s,;]")
_TITLE = re.compile(r"[A-Z][\w'’-]*(?: (?:[A-Z][\w'’-]*|\(\w+\)|of|the|and|in|for|to|de)){1,7}")
_LEAST = 2  # rows: one row alone proves nothing


def reading_line(samples: Sequence[Sample]) -> Text | None:
    """The column that each field was read from, such as ``answer ← output``; ``None`` if no alias was used."""
    if not any(sample.read_from for sample in samples):
        return None
    parts = []
    for field in FIELDS:
        present = [sample for sample in samples if getattr(sample, field) is not None]
        names = dict.fromkeys(sample.read_from.get(field, field) for sample in present)
        if present:
            parts.append(field if [*names] == [field] else f"{field} ← {' / '.join(names)}")
        elif field in _ALWAYS_SAID:
            parts.append(f"{field}: none")
        if present and field == "contexts":
            parts[-1] += f" ({fmean(len(sample.contexts or ()) for sample in present):.3g} a row)"
    return say("read.line", parts=", ".join(parts))


def doubts(samples: Sequence[Sample], fields: Collection[str]) -> Iterator[Text]:
    """Warnings about ``fields`` that look like the wrong column or have unseparated values."""
    for field in sorted({"retrieved_doc_ids", "gold_doc_ids"}.intersection(fields)):
        lists = [getattr(sample, field) or () for sample in samples]
        joined = ["".join(ids) for ids in lists if len(ids) == 1 and _JOINED.search("".join(ids))]
        if joined:
            yield say("doubt.joined_ids", n=len(joined), total=len(samples), field=field, first=shown(joined[0]))
    chunks = [sample.texts for sample in samples if sample.texts] if "contexts" in fields else []
    if len(chunks) >= _LEAST and all(len(each) == 1 and len(each[0].split("\n")) > 1 for each in chunks):
        yield say("doubt.one_passage", n=len(chunks))
    texts = [text.strip() for each in chunks for text in each]
    pointers = [text for text in texts if _POINTER.fullmatch(text) or _TITLE.fullmatch(text)]
    if 2 * len(pointers) > len(texts):
        yield say("doubt.pointers", n=len(pointers), total=len(texts), first=shown(pointers[0]))
    pairs = [(s.answer.strip(), s.references) for s in samples if s.answer and s.references]
    equal = sum(answer in map(str.strip, references) for answer, references in pairs)
    if {"answer", "reference"} <= {*fields} and len(pairs) > _LEAST and 2 * equal > len(pairs):
        yield say("doubt.equal", n=equal, total=len(pairs))
    for field in sorted({"answer", "reference"}.intersection(fields)):
        given = [str(getattr(sample, field)).strip() for sample in samples if getattr(sample, field)]
        labels = Counter(text for text in given if _LABEL.fullmatch(text))
        if len(given) >= _LEAST and 2 * labels.total() > len(given):
            name = next((sample.read_from[field] for sample in samples if field in sample.read_from), field)
            said = ", ".join(map(shown, labels))
            yield say("doubt.labels", n=labels.total(), total=len(given), field=field, name=name, labels=said)
