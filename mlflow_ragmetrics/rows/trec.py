"""Reads runs and judgements in the formats of TREC, one row per query."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from mlflow_ragmetrics.errors import InvalidDataError

_RUN = re.compile(r"\s*(?P<query>\S+)\s+Q0\s+(?P<document>\S+)\s+\d+\s+(?P<number>[-+.\deE]+)\s+\S+\s*")
_BEIR = re.compile(r"(?P<query>[^\t]+)\t(?P<document>[^\t]+)\t(?P<number>[-+]?\d+)\s*")
_BEIR_HEADER = ["query-id", "corpus-id", "score"]
_JUDGEMENT = re.compile(r"\s*(?P<query>\S+)\s+(?:0|Q0)\s+(?P<document>\S+)\s+(?P<number>[-+]?\d+)\s*")


def are_trec_lines(lines: Iterable[str]) -> bool:
    """Whether all are lines of a run (``q1 Q0 d7 1 9.2 bm25``), of judgements (``q1 0 d7 1``) or of BEIR's table."""
    filled = [line for line in lines if line.strip()]
    if filled and filled[0].split() == _BEIR_HEADER:
        return True
    return bool(filled) and any(all(map(form.fullmatch, filled)) for form in (_RUN, _JUDGEMENT))


def read_trec(lines: Iterable[str], file: str) -> Iterator[dict[str, Any]]:
    """The documents of each query: those of a run by falling score, those judged with grade 1 or more as gold.

    Raises:
        InvalidDataError: for a line of another form.
    """
    form, field = None, ""
    queries: dict[str, list[tuple[float, str]]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if form is None and line.split() == _BEIR_HEADER:
            form, field = _BEIR, "gold_doc_ids"
            continue
        if form is None:
            form, field = (_RUN, "retrieved_doc_ids") if _RUN.fullmatch(line) else (_JUDGEMENT, "gold_doc_ids")
        cells = form.fullmatch(line)
        if cells is None:
            message = "a TREC run has query, Q0, document, rank, score, name; judgements have query, 0, document, grade"
            raise InvalidDataError(f"{file}, line {number}: {message}.")
        queries.setdefault(cells["query"], []).append((float(cells["number"]), cells["document"]))
    for query, documents in queries.items():
        if form is _RUN:
            documents.sort(key=lambda scored: -scored[0])
        ids = [document for value, document in documents if form is _RUN or value >= 1]
        yield {"id": query, field: list(dict.fromkeys(ids))}
