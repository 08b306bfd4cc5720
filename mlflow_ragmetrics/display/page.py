"""The report as a self-contained HTML file: no network, safe for any text, 20,000 rows in a few megabytes."""

from __future__ import annotations

import json
import math
import zlib
from binascii import b2a_base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Union, get_args

from mlflow_ragmetrics.core.safe_text import plain
from mlflow_ragmetrics.core.score import UNSUPPORTED, VERDICTS, Item, Kind, Score, Verdict
from mlflow_ragmetrics.display.document import in_html, source
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.judges.lexical.support import unbacked_in
from mlflow_ragmetrics.results.marks import count_causes
from mlflow_ragmetrics.rows.record import shown_id
from mlflow_ragmetrics.text.messages import render as say_in
from mlflow_ragmetrics.text.messages import say

if TYPE_CHECKING:
    from mlflow_ragmetrics.results.evaluation import Evaluation

MOST_ROWS = 20_000
"""The most rows on a page."""
MOST_BYTES = 40_000_000
"""The largest size of a page's packed texts; MLflow shows files of up to 50 MB."""

_BLOCK = 250_000  # characters of JSON that the browser decompresses to show one row
_LONGEST = 100_000  # characters of a text
_LONGEST_QUESTION = 300  # characters in the table; the row's details have the whole text
_MOST_VALUES = 2_000  # of a metadata field with a filter
_LONGEST_VALUE = 120
_DIGITS = 6
_LEVEL = 4  # of compression: level 6 takes twice as long and saves 6 %
_MARKED = 300  # worst rows whose claims have words marked that no passage contains
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
_CODES = [
    (kind, verdict, against)
    for kind in get_args(Kind)
    for verdict in (None, *get_args(Verdict))
    for against in (None, "answer", "reference")
]
_CODE = {verdict_code: code for code, verdict_code in enumerate(_CODES)}


def report_page(report: Evaluation, title: str | None = None, run: Mapping[str, str] | None = None) -> Iterator[str]:
    """The page of one evaluation, in pieces: summary, distributions, a table of rows, each row's claims and passages.

    ``title`` defaults to the name of the evaluated file. ``run``: the MLflow run, with ``name``, ``id`` and, on a
    server, ``url``. With more than ``MOST_ROWS`` rows, half of the page is the worst rows and half a random sample of
    the others, and the page says so.

    Texts are compressed in blocks, which the browser opens when you open a row. They are inserted as text, so they
    cannot become markup or script. One block is in memory at a time. Rows whose texts would exceed ``MOST_BYTES`` are
    in the table only, and the page says so.
    """
    rows, metrics, diagnoses = report.rows, report.metrics, report.diagnoses
    title = title or (f"RAG evaluation of {Path(report.source).name}" if report.source else "RAG evaluation")
    order = report.totals.ranking.order(rows)
    read = report.description.get("read", "")
    banner = [*report.banner, *filter(None, [read]), *report._judged_by]
    if len(order) > MOST_ROWS:
        half = MOST_ROWS // 2
        order = order[:half] + [order[place] for place in sorted(Random(0).sample(range(half, len(rows)), half))]
        left_out = f"This page shows {len(order):,} of {len(rows):,} rows: the worst ones and a random sample."
        banner = [f"{left_out} The figures and the run's tables include all rows.", *banner]
    language = str(report.description.get("language", "en"))
    page = source("display/report.html").replace("<!-- style -->", source("display/report.css"))
    for name, lines in (("banner", banner), ("warnings", report.warnings)):
        listed = (f"<li{' class=soft' if line == read else ''}>{in_html(line)}</li>" for line in lines)
        page = page.replace(f"<!-- {name} -->", "".join(listed))
    before, after = page.replace("<!-- title -->", in_html(title)).split("<!-- rows -->")
    yield before
    blocks: list[list[int]] = []  # of each block: its first row and the number of its first text
    detailed = size = 0
    for first, count, texts, packed in _packed(report, order):
        size += len(packed)
        if size > MOST_BYTES:
            break
        blocks.append([first, texts])
        detailed = first + count
        yield f'<script type="text/plain" class="rows">{packed}</script>\n'
    scores = [(key, score) for row in rows for key, score in row.scores.items()]
    better = report.totals.ranking.better
    header: dict[str, Any] = {
        "total": len(rows),
        "detailed": detailed,
        "blocks": blocks,
        "codes": _CODES,
        "marked": _MARKED,
        "description": plain(report.description),
        "metrics": metrics,
        "usage": plain(report.usage),
        "keys": report.totals.ranking.keys,
        "worst_by": report.totals.ranking.by,
        "causes": count_causes(diagnosis.cause for diagnosis in diagnoses) if diagnoses else {},
        "ranges": {key: list(ends) for key, ends in report.ranges.items() if all(map(math.isfinite, ends))},
        "verdicts": {name: say_in(say(f"verdict.{name}"), language) for name in VERDICTS},
        "unsupported": say_in(UNSUPPORTED, language),
        "run": dict(run or {}),
        "lower": sorted(key for key, side in better.items() if side is False),
        "neither": sorted(key for key, side in better.items() if side is None),
        "thresholds": {key: score.threshold for key, score in reversed(scores) if score.threshold is not None},
        **_table([rows[place] for place in order], report.totals.keys),
        **({"diagnosis": [diagnoses[place].cause for place in order]} if diagnoses else {}),
    }
    yield f'<script type="text/plain" id="data">{_pack(_JSON.encode(header))}</script>\n'
    yield after.replace("<!-- script -->", source("display/report.js"))


def write_page(report: Evaluation, path: Path, run: Mapping[str, str] | None = None) -> None:
    """Write the page of ``report`` piece by piece."""
    with path.open("w", encoding="utf-8", newline="\n") as target:
        target.writelines(report_page(report, run=run))


def _table(shown: Sequence[Row], keys: Collection[str]) -> dict[str, Any]:
    """The columns of the table of rows, which the page shows, sorts and filters without opening texts."""
    scores = {key: [row.scores.get(key) for row in shown] for key in keys}
    return {
        "ids": [shown_id(row.sample, row.index) for row in shown],
        "questions": [(row.sample.question or "")[:_LONGEST_QUESTION] for row in shown],
        "values": {key: [score and _rounded(score.value) for score in own] for key, own in scores.items()},
        "states": {key: "".join(map(_state, own)) for key, own in scores.items()},
        "claims": "".join(map(_worst_verdict, shown)),
        "metadata": _metadata(shown),
    }


def _state(score: Score | None) -> str:
    """One letter: absent (-), error, skipped, passed, failed or other; upper case if the value was not measured."""
    if score is None:
        return "-"
    if score.value is None:
        return "e" if score.status == "error" else "s"
    letter = "o" if score.passed is None else "p" if score.passed else "f"
    return letter if score.measured else letter.upper()


def _worst_verdict(row: Row) -> str:
    """``c`` if a claim of the row is contradicted, else ``n`` if one is not in the passages, else a dot."""
    items = (item for score in row.scores.values() for item in score.items if item.kind in ("claim", "sentence"))
    verdicts = {item.verdict for item in items}
    return "c" if "CONTRADICTED" in verdicts else "n" if "NEUTRAL" in verdicts else "."


def _metadata(shown: Sequence[Row]) -> dict[str, dict[str, list[Any]]]:
    """The metadata fields with a filter: their values, and the index of each row's value (-1: none)."""
    columns: dict[str, dict[str, list[Any]]] = {}
    for name in dict.fromkeys(name for row in shown for name in row.sample.metadata):
        values = [row.sample.metadata.get(name) for row in shown]
        texts = [None if plain(value) is None else _shown(value) for value in values]
        known = list(dict.fromkeys(text for text in texts if text is not None))
        if 0 < len(known) <= _MOST_VALUES and max(map(len, known)) <= _LONGEST_VALUE:
            places: dict[str | None, int] = {None: -1, **{text: place for place, text in enumerate(known)}}
            columns[str(name)] = {"values": known, "rows": [places[text] for text in texts]}
    return columns


def _packed(report: Evaluation, order: Sequence[int]) -> Iterator[tuple[int, int, int, str]]:
    """Blocks of rows: the index of the first row, the number of rows, the number of the first text, the packed rows."""
    texts = _Texts()
    block: list[str] = []
    first = size = start = 0
    for number, place in enumerate(order):
        reason = report.diagnoses[place].reason if report.diagnoses else ""
        block.append(_JSON.encode(_detail(report.rows[place], reason, texts.put, number < _MARKED)))
        size += len(block[-1])
        if size >= _BLOCK or number == len(order) - 1:
            yield first, len(block), start, _pack(f"[{','.join(block)}]")
            block, first, size, start = [], number + 1, 0, len(texts)


def _pack(text: str) -> str:
    """JSON as deflated Base64, as stored in the page. A lone surrogate is shown as U+FFFD."""
    return b2a_base64(zlib.compress(text.encode("utf-8", "surrogatepass"), _LEVEL), newline=False).decode("ascii")


class _Texts(dict[str, int]):
    """The numbers of the texts, in the order of writing."""

    def put(self, text: str) -> str:
        """The form of ``text`` in a row: if repeated, ``~`` and its number; a text with ``~`` gets another ``~``."""
        if not text:
            return ""
        if text in self:
            return f"~{self[text]}"
        self[text] = len(self)
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST]}… (the first {_LONGEST:,} of {len(text):,} characters)"
        return f"~{text}" if text[0] == "~" else text


def _detail(row: Row, diagnosis: str, put: Callable[[str], str], marked: bool) -> list[Any]:
    """A row's texts as nested lists; keys would take half of the page."""
    sample = row.sample
    question = sample.question or ""
    passages = sample.texts if marked else None
    done: list[Sequence[Item]] = []
    return [
        None if sample.answer is None else put(sample.answer),
        put(question) if len(question) > _LONGEST_QUESTION else "",
        [put(reference) for reference in sample.references or ()],
        None if sample.contexts is None else [[put(chunk.id or ""), put(chunk.text)] for chunk in sample.contexts],
        [[put(key), *_score(score, passages, put, done)] for key, score in row.scores.items()],
        put(diagnosis),
        [[put(str(name)), put(_shown(value))] for name, value in sample.metadata.items()],
    ]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _score(
    score: Score, passages: Sequence[str] | None, put: Callable[[str], str], done: list[Sequence[Item]]
) -> list[Any]:
    """Reason, grade, judge, items, and the words that were found and not found.

    If an earlier score of the row has the same items, such as faithfulness and fact_recall, its index replaces them.
    """
    listed = [item for item in score.items if item.kind != "token" or item.reason]
    words = [item for item in score.items if item.kind == "token" and not item.reason] if score.items else []
    same = done.index(listed) if listed and listed in done else None
    done.append(listed)
    return [
        put(score.error or score.reason),
        _rounded(score.scaled),
        put(score.judge or ""),
        [_item(item, passages, put) for item in listed] if same is None else same,
        *(put(" ".join(item.text for item in words if item.verdict == verdict)) for verdict in ("FOUND", "NOT_FOUND")),
    ]


def _item(item: Item, passages: Sequence[str] | None, put: Callable[[str], str]) -> list[Any]:
    """The fields of the item, without empty ones at the end."""
    entry = [
        _CODE[item.kind, item.verdict, item.against],
        "" if item.kind == "chunk" else put(item.text),
        put(item.reason),
        item.support,
    ]
    unbacked = unbacked_in(item, passages)
    if item.evidence or unbacked or item.judge:
        entry.append([[evidence.chunk, put(evidence.quote)] for evidence in item.evidence])
        if unbacked or item.judge:
            entry += [put(item.judge or ""), [put(warning) for warning in unbacked]]
    return entry


def _rounded(value: Union[float, None]) -> float | None:
    return None if value is None else round(value, _DIGITS)
